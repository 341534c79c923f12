"""Whether a group's offset on the target is to be written. Pure.

MM2 writes whatever is missing or lower (``MirrorCheckpointTask``): a group that goes on on the target, and stands for a
moment behind its translated offset, is thrown forward over records that it has not read. Here an offset is replaced by
its own successor alone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOffset:
    """What is known of one group and one partition, as target offsets."""

    #: Committed on the target; None: nothing.
    committed: int | None
    #: What we may have written last, or MM2 before us: the offset meant to be written, then the one before it.
    written: tuple[int, ...]
    #: Where the group stands on the source.
    translated: int
    #: Whether its source offset was seen to go back since the last write.
    went_back: bool
    #: Whether both sides write the topic: a flow each way carries the group, and if each put it back by the other's
    #: place for it, it would go back without end.
    both_sides_write: bool = False


@dataclass(frozen=True, slots=True)
class KeepOffset:
    """Nothing is written; ``reason`` is for people, None where all is as it should be."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class WriteOffset:
    """Commit this."""

    offset: int


def decide(group: TargetOffset) -> KeepOffset | WriteOffset:
    """What to do about a group's offset on the target. Whether it is active there, its coordinator says.

    Guarantees: what somebody else committed there is never replaced, and a group goes back only after its source offset
    was seen to; never, where both sides write the topic.
    """
    if group.committed == group.translated:
        return KeepOffset()
    if group.committed is None:
        return WriteOffset(group.translated)
    if group.committed not in group.written:
        return KeepOffset(f"offset {group.committed} on the target was committed there by somebody else")
    meant = group.written[0] == group.translated
    if group.translated < group.committed and group.both_sides_write:
        return KeepOffset(f"it stands at {group.committed} on the target; where both sides write, no group is put back")
    if group.translated < group.committed and not (group.went_back or meant):
        return KeepOffset(f"it stands at {group.committed} on the target, and was not seen to go back on the source")
    return WriteOffset(group.translated)
