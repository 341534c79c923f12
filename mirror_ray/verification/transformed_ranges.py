"""What can be compared of a partition whose records were changed on the way. Pure.

The source's records go through the same transforms as when they were copied, and what comes out is compared.
"""

from __future__ import annotations

from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.transforms.chain import TransformChain


def why_not(chain: TransformChain | None, record: PartitionRecord | None, *, compacted: bool) -> str | None:
    """Why the partition can't be compared; None: it can, for all that its transforms matter.

    Args:
        chain: The transforms that the configuration has for its topic.
        record: What the state says of it.
        compacted: Whether the topic is, on one side or the other.
    """
    identity = "" if chain is None else chain.identity
    if record is None:
        return (
            None if chain is None else "by which transforms it was copied is not known: the state tells nothing of it"
        )
    if record.transforms != identity:
        return (
            f"it is copied by the transforms {record.transforms or 'none'}, and the configuration has "
            f"{identity or 'none'}: compare it with the configuration that it is copied by"
        )
    if chain is not None and not chain.pure:
        return "its transforms are not pure: what they made of the source's records they do not tell again"
    if chain is not None and compacted:
        return "it is compacted, and its transforms may have kept records that the source has not any more"
    return None


def starts_of(record: PartitionRecord | None, starts: tuple[int, int]) -> tuple[tuple[int, int], str | None]:
    """Where comparing may begin, of ``starts`` on the source and the target, and what is to be said of the rest."""
    if record is None or record.transforms_source_offset is None or record.transforms_target_offset is None:
        return starts, None
    source, target = record.transforms_source_offset, record.transforms_target_offset
    note = f"source offsets {starts[0]} to {source} were not compared: they were copied by other transforms"
    return (max(starts[0], source), max(starts[1], target)), note if starts[0] < source else None
