"""Topics: which remote topics a flow needs, what differs from them, and the plan before anything is done.

What asks a cluster raises ClusterUnreachableError while nobody answers, and else OSError or another MirrorError.
"""
