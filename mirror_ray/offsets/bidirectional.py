"""Translates offsets of topics that both sides write under one name.

Each side's log holds its own records, and copies of the other's, in an order of its own. A group that has read the
source up to an offset has read the source's own records before it, which lie on the target by the flow's map, and those
of the target's own whose copies lie before it, by the map of the flow back. One offset has to stand for both: the
lesser of the offsets of each side's first unread record, so that nothing is passed over. Records behind it that were
read already are read again.

*Log ends* bound what is not there yet: the target's end was read first, the source's after that, so what the source did
not hold then can only be appended to the target behind that end.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.leader_requests import LATEST, IsolationLevel
from mirror_ray.model.filters import TopicFilter
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.offsets.map import MapTail
from mirror_ray.offsets.translation import NOTHING_COPIED, OffsetQuery, Translation
from mirror_ray.offsets.translator import WAIT_S, Translator

#: Log ends are kept so far apart, and so many: more than the second by which a map is behind what is copied.
_APART_S: Final = 0.5
_KEPT: Final = 32
_BY_OTHERS: Final = "both sides write the topic under one name"


class BothLogEnds(NamedTuple):
    """Ends of both logs of a partition, the target's read first."""

    target_end: int
    source_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSide:
    """What one side wrote, as offsets of the target; ``translation`` is of the first unread record."""

    #: No unread record is before its offset.
    translation: Translation
    #: No record that was read is at or behind it; None: that is not known.
    read_up_to: int | None


def is_in_map(tail: MapTail | None, offset: int, *, back: bool) -> bool:
    """Whether an offset of the group's side is before the end of a map."""
    return tail is not None and offset < (tail.target if back else tail.source)


def sources_part(
    tail: MapTail | None, offset: int, log_ends: Iterable[BothLogEnds], found: Translation | None, source_alias: str
) -> OneSide:
    """What the source wrote itself.

    Args:
        tail: Of the flow's map; None: there is no map of the partition.
        offset: The group's, on the source.
        log_ends: At some moments.
        found: ``offset`` translated by the map, unless it is behind its end.
        source_alias: For messages.
    """
    if tail is None:
        return OneSide(translation=Translation(offset=None, waits=True, reason=NOTHING_COPIED), read_up_to=None)
    if found is not None:
        return _by_map(found)
    # The source has no own records between the offset and the flow's position, or all of them were read.
    nothing_before = max(offset, tail.reached)
    ends = [both.target_end for both in log_ends if both.source_end <= nothing_before]
    copied = offset <= tail.reached
    known = copied and bool(ends)
    why = None if known else f"what {source_alias} wrote is known to be copied up to {tail.reached} only"
    translation = Translation(offset=max([*ends, tail.target]), exact=known, waits=not known, reason=why)
    return OneSide(translation=translation, read_up_to=tail.target if copied else None)


def targets_part(
    tail: MapTail | None, log_ends: Sequence[BothLogEnds], found: Translation | None, target_alias: str
) -> OneSide:
    """What the target wrote itself; as ``sources_part``, by the map of the flow back.

    ``log_ends``: the newest come last, and were read after the group had committed its offset.
    """
    if tail is None:
        why = f"nothing is known yet of what {target_alias} wrote itself: the flow back has told nothing"
        return OneSide(translation=Translation(offset=None, waits=True, reason=why), read_up_to=None)
    if found is not None:
        return _by_map(found)
    complete = bool(log_ends) and log_ends[-1].target_end <= tail.reached
    why = f"what {target_alias} wrote is known to have come back up to {tail.reached} only"
    translation = Translation(offset=tail.reached, exact=complete, waits=not complete, reason=None if complete else why)
    return OneSide(translation=translation, read_up_to=tail.source if complete else None)


def _by_map(found: Translation) -> OneSide:
    return OneSide(translation=found, read_up_to=found.offset if found.exact else None)


def merge_sides(own: OneSide, other: OneSide) -> Translation:
    """One offset for both sides; None where one of them is not known.

    Guarantees: every record that the group has not read is, or will be, at or behind the offset. Where it is exact,
    none that the group has read is.
    """
    sides = (own, other)
    unknown = next((side.translation for side in sides if side.translation.offset is None), None)
    if unknown is not None:
        return unknown
    translations = [side.translation for side in sides]
    offset = min(translation.offset or 0 for translation in translations)
    ends = [side.read_up_to for side in sides]
    read = max((end for end in ends if end is not None), default=offset)
    reason = next((translation.reason for translation in translations if translation.reason is not None), None)
    exact = None not in ends and read <= offset
    if reason is None and not exact:
        reason = f"both sides write the topic, each in an order of its own: up to {read} it may read again"
    return Translation(
        offset=offset,
        exact=exact,
        waits=any(translation.waits for translation in translations),
        retry=any(translation.retry for translation in translations),
        reason=reason,
    )


def why_not_synced(flow: FlowSettings, topic: str) -> str | None:
    """Why groups of a topic that both sides write can't be synced; None: both maps know all of its records.

    Everything on the target must be a copy from the source, or come to the source by the flow back.
    """
    name = flow.name
    copying = {
        provenance.flow: provenance.max_hops
        for provenance in flow.all_provenance
        if TopicFilter(provenance.include, provenance.exclude).should_replicate_topic(topic)
    }
    back = name.back
    if back not in copying:
        return f"{_BY_OTHERS}, and no flow {back} tells of what {name.target} wrote itself"
    others = {copied.source for copied in copying if copied.target == name.target and copied.source != name.source}
    for other in sorted(others):
        if FlowName(other, name.source) in copying:
            return f"{_BY_OTHERS}, and what {other} wrote comes to each of them by a flow of its own, in another order"
        if copying[back] is not None:
            return f"{_BY_OTHERS}, and {back} may not pass on what {other} wrote (provenance.max.hops)"
    return None


class BidirectionalPartition(NamedTuple):
    """A partition of a topic that both sides write."""

    source: TopicPartition
    target: TopicPartition


async def read_log_ends(
    source: ClusterConnections,
    target: ClusterConnections,
    partitions: Collection[BidirectionalPartition],
    isolation_level: IsolationLevel,
) -> dict[BidirectionalPartition, BothLogEnds]:
    """Where both logs end, the target's read first; partitions whose leader does not answer are left out."""
    if not partitions:
        return {}
    ends = await target.list_offsets(dict.fromkeys((pair.target for pair in partitions), LATEST), "read_uncommitted")
    source_ends = await source.list_offsets(
        dict.fromkeys((pair.source for pair in partitions), LATEST), isolation_level
    )
    return {
        pair: BothLogEnds(ends[pair.target].offset, source_ends[pair.source].offset)
        for pair in partitions
        if not (ends[pair.target].error_code or source_ends[pair.source].error_code)
    }


class BidirectionalMaps:
    """Translates a flow's offsets in such topics, by its own map and that of the flow back."""

    def __init__(
        self,
        own: Translator,
        back: Translator,
        source: ClusterConnections,
        target: ClusterConnections,
        isolation_level: IsolationLevel,
    ) -> None:
        self._own, self._back = own, back
        self._source, self._target, self._isolation_level = source, target, isolation_level
        self._log_ends: dict[BidirectionalPartition, deque[BothLogEnds]] = {}
        #: When the newest ends were added.
        self._added_s: dict[BidirectionalPartition, float] = {}

    async def refresh(self, partitions: Collection[BidirectionalPartition]) -> None:
        """Read the log ends, after the offsets that are to be translated were committed."""
        found = await read_log_ends(self._source, self._target, partitions, self._isolation_level)
        self._take(found, time.monotonic())

    def _take(self, found: Mapping[BidirectionalPartition, BothLogEnds], now_s: float) -> None:
        for pair, ends in found.items():
            kept = self._log_ends.setdefault(pair, deque(maxlen=_KEPT))
            if kept and (ends.target_end < kept[-1].target_end or ends.source_end < kept[-1].source_end):
                # A log lost its end, or is another one: what was behind it may be anywhere now.
                kept.clear()
            if kept and now_s - self._added_s[pair] < _APART_S:
                kept[-1] = ends
            else:
                kept.append(ends)
                self._added_s[pair] = now_s

    async def translate(self, pair: BidirectionalPartition, offset: int, wait_s: float | None = WAIT_S) -> Translation:
        """The target offset of ``offset`` of the source partition; waits as ``Translator.to_target`` does."""
        log_ends = tuple(self._log_ends.get(pair, ()))
        by_own, by_back = OffsetQuery(False, pair.source, offset), OffsetQuery(True, pair.target, offset)
        own_tail, back_tail = self._own.answer(by_own).tail, self._back.answer(by_back).tail
        own = back = None
        if is_in_map(own_tail, offset, back=False):
            own = await self._own.translate(by_own, wait_s)
        if is_in_map(back_tail, offset, back=True):
            back = await self._back.translate(by_back, wait_s)
        return merge_sides(
            sources_part(own_tail, offset, log_ends, own, self._source.settings.alias),
            targets_part(back_tail, log_ends, back, self._target.settings.alias),
        )
