"""Where a group goes on in a topic that both sides write under one name. Pure.

Each side's log holds its own records, and copies of the other's, in an order of its own. Who has read the source up to
an offset has read the source's own records before it, which lie on the target by the flow's map, and those of the
target's own whose copies lie before it, by the map of the flow back. One offset has to stand for both: the lesser of
the places of the first record of each side that was not read, so that nothing is passed over. What was read already
and lies behind it, too, is read again.

*Seen* ends bring in what is not there yet: the target's end was read first, the source's after that, so what the source
did not hold then can only be appended to the target behind that end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror_ray.config.settings import FlowSettings
from mirror_ray.model.filters import TopicFilter
from mirror_ray.model.names import FlowName
from mirror_ray.offsets.segments import MapTail
from mirror_ray.offsets.translate import NOTHING_COPIED, Translation


class BothLogEnds(NamedTuple):
    """Ends of both logs of a partition, the target's read first."""

    target_end: int
    source_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSide:
    """What one side wrote, as offsets of the target; ``place`` is for what was not read."""

    #: No unread record is before its offset.
    place: Translation
    #: No record that was read is at or behind it; None: that can't be told.
    read_up_to: int | None


def is_told(tail: MapTail | None, offset: int, *, back: bool) -> bool:
    """Whether the map has the place of a position on the source, which is not behind all that it tells of."""
    return tail is not None and offset < (tail.target if back else tail.source)


def sources_part(
    tail: MapTail | None, offset: int, seen: Iterable[BothLogEnds], found: Translation | None, source_alias: str
) -> OneSide:
    """What the source wrote itself.

    Args:
        tail: Of the flow's map; None: it tells nothing of the partition.
        offset: The group's, on the source.
        seen: Ends, at some moments.
        found: What the map says of ``offset``, unless it is behind all that the map tells of.
        source_alias: For people.
    """
    if tail is None:
        return OneSide(place=Translation(offset=None, waits=True, reason=NOTHING_COPIED), read_up_to=None)
    if found is not None:
        return _by_map(found)
    # None of its own is from the position to where the flow has come, or all there were have been read.
    nothing_before = max(offset, tail.reached)
    ends = [each.target_end for each in seen if each.source_end <= nothing_before]
    copied = offset <= tail.reached
    known = copied and bool(ends)
    why = None if known else f"what {source_alias} wrote is known to be copied up to {tail.reached} only"
    place = Translation(offset=max([*ends, tail.target]), exact=known, waits=not known, reason=why)
    return OneSide(place=place, read_up_to=tail.target if copied else None)


def targets_part(
    tail: MapTail | None, seen: Sequence[BothLogEnds], found: Translation | None, target_alias: str
) -> OneSide:
    """What the target wrote itself; as ``sources_part``, by the map of the flow back.

    ``seen``: the newest ends come last, and were read after the group had committed its offset.
    """
    if tail is None:
        why = f"nothing is known yet of what {target_alias} wrote itself: the flow back has told nothing"
        return OneSide(place=Translation(offset=None, waits=True, reason=why), read_up_to=None)
    if found is not None:
        return _by_map(found)
    all_told = bool(seen) and seen[-1].target_end <= tail.reached
    why = f"what {target_alias} wrote is known to have come back up to {tail.reached} only"
    place = Translation(offset=tail.reached, exact=all_told, waits=not all_told, reason=None if all_told else why)
    return OneSide(place=place, read_up_to=tail.source if all_told else None)


def _by_map(found: Translation) -> OneSide:
    return OneSide(place=found, read_up_to=found.offset if found.exact else None)


def bring_together(own: OneSide, other: OneSide) -> Translation:
    """One offset for both; None where one of them is not known.

    Guarantees: every record that the group has not read is, or will be, at or behind the offset. Where it is exact,
    none that the group has read is.
    """
    parts = (own, other)
    unknown = next((part.place for part in parts if part.place.offset is None), None)
    if unknown is not None:
        return unknown
    places = [part.place for part in parts]
    offset = min(place.offset or 0 for place in places)
    ends = [part.read_up_to for part in parts]
    read = max((end for end in ends if end is not None), default=offset)
    reason = next((place.reason for place in places if place.reason is not None), None)
    exact = None not in ends and read <= offset
    if reason is None and not exact:
        reason = f"both sides write the topic, each in an order of its own: up to {read} it may read again"
    return Translation(
        offset=offset,
        exact=exact,
        waits=any(place.waits for place in places),
        again=any(place.again for place in places),
        reason=reason,
    )


_BY_OTHERS: Final = "both sides write the topic under one name"


def why_not_carried(flow: FlowSettings, topic: str) -> str | None:
    """Why groups of a topic that both sides write can't be carried over; None: both maps tell of all records in it.

    Everything on the target must be a copy from the source, or come to the source by the flow back.
    """
    name = flow.name
    copying = {
        each.flow: each.max_hops
        for each in flow.all_provenance
        if TopicFilter(each.include, each.exclude).should_replicate_topic(topic)
    }
    back = name.back
    if back not in copying:
        return f"{_BY_OTHERS}, and no flow {back} tells of what {name.target} wrote itself"
    for other in sorted(each.source for each in copying if each.target == name.target and each.source != name.source):
        if FlowName(other, name.source) in copying:
            return f"{_BY_OTHERS}, and what {other} wrote comes to each of them by a flow of its own, in another order"
        if copying[back] is not None:
            return f"{_BY_OTHERS}, and {back} may not pass on what {other} wrote (provenance.max.hops)"
    return None
