"""The race: mirror-ray and MirrorMaker 2 on the same data, on one machine, in one run."""
