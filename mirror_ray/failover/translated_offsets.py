"""Where each group goes on, and whether that may be committed. Pure.

*Origin* is the side that the groups leave, *destination* the one that they go to: source and target in a failover, the
other way round in a failback.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mirror_ray.groups.sync_rule import KeepOffset, TargetOffset, WriteOffset, decide
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.translation import NOTHING_COPIED, LogBounds, Translation, within

NOT_COPIED = "this flow does not copy the topic"
NOT_THERE = "its partition is missing on the other side, or has no leader there"
_UNKNOWN_COPY = "the remote partition holds records, and nothing is known of where they came from"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlacement:
    """Where one group goes on in one partition."""

    group: str
    origin: TopicPartition
    #: Committed there; None: nothing was, or it is not known.
    origin_offset: int | None
    #: None: the partition is not on the destination.
    destination: TopicPartition | None
    #: None: no offset is committed there, and ``reason`` says why.
    offset: int | None
    #: Whether it is the very place, else one before it.
    exact: bool = True
    reason: str | None = None
    metadata: str = ""

    def to_json(self) -> list[Any]:
        """Plain values; the group is the record's key."""
        there = self.destination
        return [
            [self.origin.topic, self.origin.partition, self.origin_offset],
            [there.topic, there.partition, self.offset] if there is not None else None,
            self.exact,
            self.reason,
            self.metadata,
        ]


def place_of(group: str, value: list[Any]) -> GroupPlacement:
    """From ``to_json``.

    Raises:
        ValueError, TypeError: It is no place.
    """
    (topic, number, origin_offset), there, exact, reason, metadata = value
    destination, offset = (TopicPartition(there[0], there[1]), there[2]) if there is not None else (None, None)
    return GroupPlacement(
        group=group,
        origin=TopicPartition(topic, number),
        origin_offset=origin_offset,
        destination=destination,
        offset=offset,
        exact=exact,
        reason=reason,
        metadata=metadata,
    )


def final_place(found: Translation, log: LogBounds) -> Translation:
    """The offset to commit for a position whose translation was ``found``.

    A group of a partition of which nothing was copied goes on at the start of its log, so that
    ``auto.offset.reset=latest`` skips nothing.
    """
    if found.offset is None and found.reason == NOTHING_COPIED:
        if log.start == log.end:
            return Translation(offset=log.start)
        return Translation(offset=None, reason=_UNKNOWN_COPY)
    return within(found, log)


def known_place(said: int | None, by_map: int | None, log: LogBounds) -> Translation:
    """The offset to commit where the source can't be asked.

    Args:
        said: What the group's last checkpoint says; None: there is none.
        by_map: Where the map has that checkpoint's source offset exactly, if it does.
        log: The remote partition's.
    """
    if said is None:
        if log.start == log.end:
            return Translation(offset=log.start)
        why = (
            f"no checkpoint says where it stood, and {log.end - log.start} records are there: auto.offset.reset decides"
        )
        return Translation(offset=None, reason=why)
    offset = said if by_map is None else max(said, by_map)
    if offset > log.end:
        # The target lost its end, or the checkpoint is of another life of the topic.
        return Translation(
            offset=log.end, exact=False, reason=f"its checkpoint says {offset}, the log ends at {log.end}"
        )
    return within(Translation(offset=offset), log)


def decide_failover(
    place: int,
    committed: int | None,
    written: tuple[int, ...],
    *,
    went_back: bool,
    force: bool,
    both_sides_write: bool = False,
) -> KeepOffset | WriteOffset:
    """What to commit on the target, by the rule of the group sync; ``force``: whatever stands there."""
    if force and committed != place:
        return WriteOffset(place)
    standing = TargetOffset(
        committed=committed,
        written=written,
        translated=place,
        went_back=went_back,
        both_sides_write=both_sides_write,
    )
    return decide(standing)


def decide_failback(place: int, committed: int | None, left_at: int | None, *, force: bool) -> KeepOffset | WriteOffset:
    """What to commit on the source for a group that comes back.

    ``left_at`` is where the failover found it there. It may have gone on there unseen before the source was lost: what
    it did then counts, so it is never set back behind that.
    """
    if committed == place:
        return KeepOffset()
    if force or committed is None or place > committed or committed == left_at:
        return WriteOffset(place)
    return KeepOffset(
        f"it stands at {committed} on the source, which is further than {place}: it was there before it left"
    )


def lost_if_gone(end: int, copied_to: int | None, committed: int) -> int:
    """Offsets that a group would miss if the source were lost now: neither copied nor processed."""
    return max(0, end - max(committed, copied_to or 0))


def reread_if_gone(place: int | None, said: int | None, log: LogBounds) -> int:
    """Records that a group would read again if the source were lost now and its last checkpoint counted."""
    return 0 if place is None else max(0, place - max(said or 0, log.start))


def group_totals(places: Mapping[str, list[GroupPlacement]]) -> dict[str, int]:
    """Counts for a step's figures."""
    every = [place for each in places.values() for place in each]
    return {
        "groups": len(places),
        "partitions": len(every),
        "exact": sum(place.offset is not None and place.exact for place in every),
        "before_the_place": sum(place.offset is not None and not place.exact for place in every),
        "without_offset": sum(place.offset is None for place in every),
    }
