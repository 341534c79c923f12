"""From MirrorMaker 2 and back: remote topics that it filled are taken over, and handed back, without doubling."""
