"""Publishes the offset map about every second, as segments and as MM2's offset syncs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.model.segment import SegmentBlock
from mirror_ray.records.segment_block import encode_key, encode_value
from mirror_ray.replication.offset_syncs import offset_syncs
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.supervision import BackgroundWriter

_EVERY_S = 1.0
#: Blocks that wait for a topic that can't be written. Beyond, the oldest are given up: their offsets are found by
#: reading the source.
_WAITING_BLOCKS = 32768


class OffsetMapPublisher:
    """Runs until ``close``. ``on_event(level, text)`` is for the event log.

    Without ``syncs`` nothing is published for MM2; without ``segments`` nothing at all.
    """

    def __init__(
        self,
        flow: str,
        segments: InternalTopicWriter | None,
        syncs: InternalTopicWriter | None,
        *,
        on_event: Callable[[str, str], None],
    ) -> None:
        self._segments, self._syncs = segments, syncs
        self._changed: set[PartitionReplication] = set()
        self._blocks: dict[bytes, SegmentBlock] = {}
        #: By partition, the source offset up to which offset syncs were made.
        self._synced_to: dict[PartitionReplication, int] = {}
        self._writer = BackgroundWriter(
            flow, "offsets", wait=partial(asyncio.sleep, _EVERY_S), publish=self._publish, on_event=on_event
        )

    def changed(self, copy: PartitionReplication) -> None:
        """Note that a partition may have something to publish."""
        self._changed.add(copy)

    async def flush(self, copies: Iterable[PartitionReplication]) -> None:
        """Publish at once what these have, which will not change any more, if the topics can be written."""
        released = set(copies)
        self._changed |= released
        await self._writer.flush()
        for copy in released:
            self._synced_to.pop(copy, None)

    async def close(self) -> None:
        """End the loop. What was not published is found by reading the source."""
        await self._writer.close()

    async def _publish(self) -> bool:
        changed, self._changed = self._changed, set()
        syncs: list[KeyedRecord] = []
        for copy in changed:
            blocks = copy.segments.take(copy.acknowledged.source_offset)
            self._blocks |= {encode_key(block.key): block for block in blocks}
            syncs += self._new_syncs(copy, blocks)
        while len(self._blocks) > _WAITING_BLOCKS:
            del self._blocks[next(iter(self._blocks))]
        written = await self._append(
            self._segments, [KeyedRecord(key, encode_value(block)) for key, block in self._blocks.items()]
        )
        if written:
            self._blocks.clear()
        return await self._append(self._syncs, syncs) and written

    def _new_syncs(self, copy: PartitionReplication, blocks: list[SegmentBlock]) -> list[KeyedRecord]:
        if self._syncs is None or not blocks:
            return []
        synced_to = self._synced_to.get(copy, 0)
        syncs = [sync for block in blocks for sync in offset_syncs(block, synced_to)]
        if syncs:
            self._synced_to[copy] = syncs[-1].upstream_offset + 1
        return [KeyedRecord(*sync.encode()) for sync in syncs]

    async def _append(self, writer: InternalTopicWriter | None, records: list[KeyedRecord]) -> bool:
        if writer is None or not records:
            return True
        return await self._writer.write(writer.topic, partial(writer.append, records))
