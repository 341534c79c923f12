"""Tells about every second what a flow's acknowledgements say of offsets: as segments, and in MM2's format."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.segment import SegmentBlock
from mirror_ray.records.segment_block import encode_key, encode_value
from mirror_ray.replication.offset_syncs import offset_syncs
from mirror_ray.replication.partition import PartitionReplication

log = logging.getLogger(__name__)

_EVERY_S = 1.0
_LONGEST_PAUSE_S = 30.0
#: Blocks that wait for a topic that can't be written. Beyond, the oldest are given up: offsets that they tell of are
#: found by reading the source.
_WAITING_BLOCKS = 32768


class OffsetMapPublisher:
    """Runs until ``close``. ``on_event(level, text)`` is for the event log.

    ``syncs`` None: MM2 is told nothing; ``segments`` None: nobody is.
    """

    def __init__(
        self,
        flow: str,
        segments: InternalTopicWriter | None,
        syncs: InternalTopicWriter | None,
        *,
        on_event: Callable[[str, str], None],
    ) -> None:
        self._flow = flow
        self._segments, self._syncs = segments, syncs
        self._on_event = on_event
        self._changed: set[PartitionReplication] = set()
        self._blocks: dict[bytes, SegmentBlock] = {}
        #: By partition, the source offset up to which MM2 was told.
        self._synced: dict[PartitionReplication, int] = {}
        self._problems: dict[str, str] = {}
        self._at_work = asyncio.Lock()
        self._task = asyncio.create_task(self._run(), name=f"flow {flow}: telling offsets")

    def changed(self, copy: PartitionReplication) -> None:
        """The copy may have something to tell."""
        self._changed.add(copy)

    async def flush(self, copies: Iterable[PartitionReplication]) -> None:
        """Tell at once what there is of these, which will not change any more, if the topics can be written."""
        gone = set(copies)
        await self._tell(gone)
        self._changed -= gone
        for copy in gone:
            self._synced.pop(copy, None)

    async def close(self) -> None:
        """Stop. What was not told is found by reading the source."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        pause_s = _EVERY_S
        while True:
            await asyncio.sleep(pause_s)
            changed, self._changed = self._changed, set()
            done = await self._tell(changed)
            pause_s = _EVERY_S if done else min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _tell(self, copies: Iterable[PartitionReplication]) -> bool:
        async with self._at_work:
            syncs: list[KeyedRecord] = []
            for copy in copies:
                blocks = copy.segments.take(copy.acknowledged.source_offset)
                self._blocks |= {encode_key(block.key): block for block in blocks}
                syncs += self._new_syncs(copy, blocks)
            while len(self._blocks) > _WAITING_BLOCKS:
                del self._blocks[next(iter(self._blocks))]
            done = await self._append(
                self._segments, [KeyedRecord(key, encode_value(block)) for key, block in self._blocks.items()]
            )
            if done:
                self._blocks.clear()
            return done & (self._syncs is None or await self._append(self._syncs, syncs))

    def _new_syncs(self, copy: PartitionReplication, blocks: list[SegmentBlock]) -> list[KeyedRecord]:
        if self._syncs is None or not blocks:
            return []
        told_to = self._synced.get(copy, 0)
        pairs = [pair for block in blocks for pair in offset_syncs(block, told_to)]
        if pairs:
            self._synced[copy] = pairs[-1].upstream_offset + 1
        return [KeyedRecord(*pair.encode()) for pair in pairs]

    async def _append(self, writer: InternalTopicWriter | None, records: list[KeyedRecord]) -> bool:
        if writer is None or not records:
            return True
        try:
            await writer.append(records)
        except (OSError, MirrorError) as error:
            self._problem(writer.topic, str(error))
            return False
        if self._problems.pop(writer.topic, None) is not None:
            self._on_event("info", f"flow {self._flow}: topic {writer.topic} can be written again")
        return True

    def _problem(self, topic: str, text: str) -> None:
        log.info("flow %s: %s", self._flow, text)
        if topic not in self._problems:
            self._on_event("warning", f"flow {self._flow}: offsets are not told: {text}")
        self._problems[topic] = text
