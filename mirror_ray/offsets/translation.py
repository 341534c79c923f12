"""A translated offset, and what a partition's map answers when it is asked for one.

``back`` asks for the source offset of a target offset; otherwise the target offset of a source offset is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.offsets.map import (
    NO_TRANSFORMS,
    AppliedTransforms,
    BeyondMap,
    ExactOffset,
    MapLookup,
    MapTail,
    OffsetMapStore,
    SegmentGap,
    SegmentMap,
)

#: As in MM2, which emits no checkpoint before it has copied a record.
NOTHING_COPIED: Final = "no record of the partition was copied yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """An offset on the other side, or the reason why there is none."""

    #: None: there is none yet, or at all.
    offset: int | None
    #: Otherwise ``offset`` is a lower bound: records are read again, and none is passed over.
    exact: bool = True
    #: Whether the result will change as soon as more was copied.
    waits: bool = False
    #: Whether asking again may give another result: the source is being read for it, or could not be read.
    retry: bool = False
    reason: str | None = None


class ReadableBounds(NamedTuple):
    """Log start offset and end offset, as consumers see them."""

    start: int
    end: int


def within(found: Translation, log: ReadableBounds) -> Translation:
    """Limit a translation to the log that it is for: retention may have moved the start, and the end may be lost."""
    if found.offset is None:
        return found
    if found.offset > log.end:
        return Translation(
            offset=None, reason=f"it would be {found.offset}, and the log ends at {log.end}: its end was lost"
        )
    if found.offset < log.start:
        return replace(found, offset=log.start)
    return found


class OffsetQuery(NamedTuple):
    """Asks a flow's map for the other side of ``offset``; ``key`` is the source partition that the map is of."""

    back: bool
    key: TopicPartition
    offset: int


class MapAnswer(NamedTuple):
    """What a partition's map answers, and what must be known to read the gap where it has one."""

    #: Ids of the source and the target topic that the map is of; None: there is no map of the partition.
    topic_ids: tuple[TopicId, TopicId] | None
    found: Translation | SegmentGap
    tail: MapTail | None = None
    transforms: AppliedTransforms = NO_TRANSFORMS
    #: Grows with every change of the map.
    version: int = 0


AnswerQuery = Callable[[OffsetQuery], MapAnswer]

NO_MAP: Final = MapAnswer(None, Translation(offset=None, reason=NOTHING_COPIED))


def answer_from(store: OffsetMapStore, query: OffsetQuery) -> MapAnswer:
    """Answer a query by the map of its partition."""
    found = store.find(query.key)
    if found is None:
        return NO_MAP
    return MapAnswer(
        topic_ids=(found.source_topic_id, found.target_topic_id),
        found=answer(found.segments, query.offset, back=query.back, preserved=found.offsets_preserved),
        tail=found.segments.tail,
        transforms=found.transforms,
        version=found.version,
    )


def answer(segments: SegmentMap, offset: int, *, back: bool, preserved: bool = False) -> Translation | SegmentGap:
    """Translate an offset by a map; or return the gap in which it lies.

    An offset that was not copied yet is translated to the end of the copy, not exact. Where offsets are ``preserved``
    each one that the target has is the same, and the map only says how far that is.
    """
    head = segments.head
    if preserved and offset <= head.target:
        return Translation(offset=offset)
    if segments.empty:
        return Translation(offset=None, reason=NOTHING_COPIED)
    # Where offsets are preserved, the source may have been read further than the target's gap there is filled.
    copied_to = head.target if preserved else head.source
    found = _look_up(segments, offset, back=back) if back or offset <= copied_to else BeyondMap()
    if isinstance(found, SegmentGap):
        return found
    if isinstance(found, ExactOffset):
        return Translation(offset=found.offset)
    if back:
        why = f"it stands at {offset} on the target, behind all that was copied, up to {head.target}"
        return Translation(offset=None, reason=why)
    # Whoever is behind the head has read all that was copied: under traffic there is always something more.
    why = f"it stands at {offset} on the source, the copy at {copied_to}"
    return Translation(offset=head.target, exact=False, waits=True, reason=why)


def _look_up(segments: SegmentMap, offset: int, *, back: bool) -> MapLookup:
    return segments.to_source(offset) if back else segments.to_target(offset)


def answer_in_gap(gap: SegmentGap, inside: SegmentMap, offset: int, *, back: bool) -> Translation:
    """Translate an offset that lies in a gap, by the map of the gap."""
    found = inside.to_source(offset) if back else inside.to_target(offset)
    if isinstance(found, ExactOffset):
        return Translation(offset=found.offset)
    return Translation(offset=gap.before.source if back else gap.before.target)


def answer_before_gap(gap: SegmentGap, why: str, *, back: bool, retry: bool = False) -> Translation:
    """The lower bound for an offset in a gap, while it is not known what lies there."""
    return Translation(offset=gap.after.source if back else gap.after.target, exact=False, retry=retry, reason=why)
