"""Where a source offset is on the target: the map, and what is made of it for consumer groups.

What asks a cluster raises ClusterUnreachableError while nobody answers, and else OSError or another MirrorError.
"""
