"""Translates positions by what the replicators told, and by reading the source for what the map has forgotten."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.offsets.map_answer import answer, answer_before_gap, answer_in_gap
from mirror_ray.offsets.map_store import OffsetMapStore, PartitionOffsetMap
from mirror_ray.offsets.segments import BetweenSegments, MapTail, SegmentMap
from mirror_ray.offsets.translate import NOTHING_COPIED, Translation

#: So long a question waits for the source to be read.
WAIT_S = 30.0
_WALKS_AT_ONCE = 4
#: Gaps that were looked into, and segments found in them, that are remembered.
_GAPS_KEPT, _SEGMENTS_KEPT = 256, 1 << 20

#: Reads what lies in a gap of a source partition: its map, or why it can't be told.
ReadGap = Callable[[TopicPartition, PartitionOffsetMap, BetweenSegments], Awaitable[SegmentMap | str]]


_GapKey = tuple[TopicPartition, TopicId, BetweenSegments]


class _Unknown(NamedTuple):
    """Why it is not known what lies in a gap."""

    why: str
    again: bool


class Translator:
    """Answers from the book, and reads the source for what the book has forgotten."""

    def __init__(self, book: OffsetMapStore, read_gap: ReadGap) -> None:
        self._book = book
        self._read_gap = read_gap
        self._gaps: OrderedDict[_GapKey, SegmentMap | str] = OrderedDict()
        self._segments_kept = 0
        self._walks: dict[_GapKey, asyncio.Task[SegmentMap | str]] = {}
        self._room = asyncio.Semaphore(_WALKS_AT_ONCE)

    async def close(self) -> None:
        """Stop reading."""
        walks = list(self._walks.values())
        for walk in walks:
            walk.cancel()
        await asyncio.gather(*walks, return_exceptions=True)

    def tail(self, source: TopicPartition) -> MapTail | None:
        """Behind what the book has of a source partition; None: it has nothing."""
        page = self._book.find(source)
        return page.places.tail if page is not None else None

    async def to_target(self, source: TopicPartition, offset: int, wait_s: float = WAIT_S) -> Translation:
        """Where the source position ``offset`` is on the target: the place of the first record not before it.

        Of one that was not copied yet: the end of the copy, not exact. Where the source must be read for it, that is
        waited for so long; it goes on, and what was found is known when the same is asked again.
        """
        return await self._translate(source, offset, wait_s, back=False)

    async def to_source(self, source: TopicPartition, offset: int, wait_s: float = WAIT_S) -> Translation:
        """Where position ``offset`` of the remote partition is on the source partition ``source``; as ``to_target``."""
        return await self._translate(source, offset, wait_s, back=True)

    async def _translate(self, source: TopicPartition, offset: int, wait_s: float, *, back: bool) -> Translation:
        page = self._book.find(source)
        if page is None:
            return Translation(offset=None, reason=NOTHING_COPIED)
        found = answer(page.places, offset, back=back)
        if isinstance(found, Translation):
            return found
        inside = await self._look_into(source, page, found, wait_s)
        if isinstance(inside, _Unknown):
            return answer_before_gap(found, inside.why, back=back, again=inside.again)
        return answer_in_gap(found, inside, offset, back=back)

    async def _look_into(
        self, source: TopicPartition, page: PartitionOffsetMap, gap: BetweenSegments, wait_s: float
    ) -> SegmentMap | _Unknown:
        key = (source, page.source_topic_id, gap)
        found = self._gaps.get(key)
        if found is None:
            walk = self._walks.get(key) or self._begin_walk(key, page)
            done, _ = await asyncio.wait({walk}, timeout=wait_s)
            if not done:
                span = f"{gap.after.source} to {gap.before.source}"
                return _Unknown(f"source offsets {span} are being read to find it", again=True)
            try:
                found = walk.result()
            except (OSError, MirrorError) as error:
                return _Unknown(f"the source can't be read: {error}", again=True)
        return _Unknown(found, again=False) if isinstance(found, str) else found

    def _begin_walk(self, key: _GapKey, page: PartitionOffsetMap) -> asyncio.Task[SegmentMap | str]:
        source, _, gap = key

        async def walk() -> SegmentMap | str:
            try:
                async with self._room:
                    found = await self._read_gap(source, page, gap)
                self._keep(key, found)
                return found
            finally:
                del self._walks[key]

        self._walks[key] = begun = asyncio.create_task(walk(), name=f"reading a gap of {source}")
        # Nobody may be waiting any more when it fails; the next question reads again.
        begun.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        return begun

    def _keep(self, key: _GapKey, found: SegmentMap | str) -> None:
        self._gaps[key] = found
        self._segments_kept += len(found) if isinstance(found, SegmentMap) else 0
        while len(self._gaps) > 1 and (len(self._gaps) > _GAPS_KEPT or self._segments_kept > _SEGMENTS_KEPT):
            _, oldest = self._gaps.popitem(last=False)
            self._segments_kept -= len(oldest) if isinstance(oldest, SegmentMap) else 0
