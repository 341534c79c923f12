"""Asks both maps of a pair of flows, and both clusters, about topics that both sides write."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.leader_requests import LATEST, IsolationLevel
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.bidirectional import BothLogEnds, bring_together, is_told, sources_part, targets_part
from mirror_ray.offsets.translate import Translation
from mirror_ray.offsets.translator import WAIT_S, Translator

#: Ends are kept so far apart, and so many: more than the second for which a map is behind what is copied.
_APART_S: Final = 0.5
_KEPT: Final = 32


class BidirectionalPartition(NamedTuple):
    """A partition of a topic that both sides write."""

    source: TopicPartition
    target: TopicPartition


async def see_ends(
    source: ClusterConnections,
    target: ClusterConnections,
    pairs: Collection[BidirectionalPartition],
    isolation_level: IsolationLevel,
) -> dict[BidirectionalPartition, BothLogEnds]:
    """Where both logs end, the target's seen first; those that can't be asked now are left out.

    Raises:
        ClusterUnreachableError: No broker answers.
    """
    if not pairs:
        return {}
    there = await target.list_offsets(dict.fromkeys((each.target for each in pairs), LATEST), "read_uncommitted")
    here = await source.list_offsets(dict.fromkeys((each.source for each in pairs), LATEST), isolation_level)
    return {
        each: BothLogEnds(there[each.target].offset, here[each.source].offset)
        for each in pairs
        if not (there[each.target].error_code or here[each.source].error_code)
    }


class BidirectionalMaps:
    """The places of a flow's groups in such topics, by its own map and that of the flow back."""

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
        self._seen: dict[BidirectionalPartition, deque[BothLogEnds]] = {}
        #: When the newest of them was first put in its place.
        self._since_s: dict[BidirectionalPartition, float] = {}

    async def look(self, pairs: Collection[BidirectionalPartition]) -> None:
        """See the ends, after the offsets that are to be translated were committed.

        Raises:
            ClusterUnreachableError: No broker answers.
        """
        self._take(await see_ends(self._source, self._target, pairs, self._isolation_level), time.monotonic())

    def _take(self, found: Mapping[BidirectionalPartition, BothLogEnds], now_s: float) -> None:
        for pair, ends in found.items():
            seen = self._seen.setdefault(pair, deque(maxlen=_KEPT))
            if seen and (ends.target_end < seen[-1].target_end or ends.source_end < seen[-1].source_end):
                # A log lost its end, or is another one: what was behind it may be anywhere now.
                seen.clear()
            if seen and now_s - self._since_s[pair] < _APART_S:
                seen[-1] = ends
            else:
                seen.append(ends)
                self._since_s[pair] = now_s

    async def translate(self, pair: BidirectionalPartition, offset: int, wait_s: float = WAIT_S) -> Translation:
        """Where position ``offset`` of the source partition is on the target; as ``Translator.to_target``."""
        seen = tuple(self._seen.get(pair, ()))
        own, back = self._own.tail(pair.source), self._back.tail(pair.target)
        here = there = None
        if is_told(own, offset, back=False):
            here = await self._own.to_target(pair.source, offset, wait_s)
        if is_told(back, offset, back=True):
            there = await self._back.to_source(pair.target, offset, wait_s)
        return bring_together(
            sources_part(own, offset, seen, here, self._source.settings.alias),
            targets_part(back, seen, there, self._target.settings.alias),
        )
