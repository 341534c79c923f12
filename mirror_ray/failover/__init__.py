"""Failover and failback: plans of nine steps that move consumer groups from one side of a flow to the other.

What asks a cluster raises ClusterUnreachableError while nobody answers, and else OSError or another MirrorError.
"""
