"""Consumer groups: their offsets synced, translated in bulk, and what they had committed in the past.

What asks a cluster raises ClusterUnreachableError while nobody answers, and else OSError or another MirrorError.
"""
