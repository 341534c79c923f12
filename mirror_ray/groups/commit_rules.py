"""Whether a group's offset is to be committed: the rules of the group sync, of a failover and of a failback.

MM2 writes whatever is missing or lower (``MirrorCheckpointTask``): a group that goes on on the target, and is for a
moment behind its translated offset, is thrown forward over records that it has not read. Here an offset is replaced by
its own successor alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: States of groups without members; "" where the broker does not say.
WITHOUT_MEMBERS = frozenset({"", "Empty", "Dead"})
#: Why a group with members is left alone.
ACTIVE = "the group is active on the target"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOffset:
    """What is known of one group and one partition, as target offsets."""

    #: Committed on the target; None: nothing.
    committed: int | None
    #: What we may have committed last, or MM2 before us: the offset meant to be committed, then its predecessor.
    written: tuple[int, ...]
    #: The group's source offset, translated.
    translated: int
    #: Whether its source offset went back since the last commit.
    went_back: bool
    #: Whether both sides write the topic: a flow each way syncs the group, and if each put it back by the other's
    #: translation, it would go back without end.
    both_sides_write: bool = False


@dataclass(frozen=True, slots=True)
class KeepOffset:
    """Nothing is committed; ``reason`` is for people, None where the offset is the translated one."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class WriteOffset:
    """The offset to commit."""

    offset: int


def decide_sync(group: TargetOffset) -> KeepOffset | WriteOffset:
    """What the group sync does about a group's offset on the target, where the group is not active.

    Guarantees: what somebody else committed there is never replaced, and a group goes back only after its source offset
    did; never, where both sides write the topic.
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


def decide_failover(group: TargetOffset, *, force: bool) -> KeepOffset | WriteOffset:
    """What a failover does: as the group sync; with ``force`` whatever is committed on the target is replaced."""
    if force and group.committed != group.translated:
        return WriteOffset(group.translated)
    return decide_sync(group)


def decide_failback(
    translated: int, committed: int | None, left_at: int | None, *, force: bool
) -> KeepOffset | WriteOffset:
    """What a failback commits on the source for a group that comes back.

    ``left_at`` is the offset that the failover found there. The group may have gone on there before the source was
    lost: what it did then counts, so it is never set back behind that.
    """
    if committed == translated:
        return KeepOffset()
    if force or committed is None or translated > committed or committed == left_at:
        return WriteOffset(translated)
    return KeepOffset(
        f"it stands at {committed} on the source, which is further than {translated}: it was there before it left"
    )


def has_gone_back(before: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Whether a group went back in a topic, or reads another one; by topic, nothing ``before``: that is not known."""
    return bool(before) and any(offset < before.get(topic, offset + 1) for topic, offset in now.items())
