"""The benchmark against MirrorMaker 2: both on the same data, on one machine, in one run."""
