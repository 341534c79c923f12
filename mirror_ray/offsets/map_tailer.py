"""One flow's map as its replicators tell it, followed as it grows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_reader import InternalTopicReader
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.model.errors import CorruptRecordError, MirrorError
from mirror_ray.model.internal_topics import segments_topic
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.map_store import OffsetMapStore, PartitionOffsetMap
from mirror_ray.offsets.partition_resolver import made_by, read_gap
from mirror_ray.offsets.segments import BetweenSegments, SegmentMap
from mirror_ray.offsets.translator import Translator
from mirror_ray.records.segment_block import decode_block, encode_key

log = logging.getLogger(__name__)

_WAIT_MS = 500
_RETRY_S = 1.0


class OffsetMapTailer:
    """The map of one flow, from its segments topic on ``target``; its records are on ``source``.

    Attributes:
        book: What was told so far.
        translator: Answers from it.
        ready: Set once the topic was read to its end.
    """

    def __init__(
        self,
        source_alias: str,
        source: ClusterConnections,
        target: ClusterConnections,
        *,
        read_committed: bool,
        on_problem: Callable[[str], None],
        transforms_of: FlowSettings | None = None,
        route: str = "",
    ) -> None:
        """``transforms_of``: the flow, where it is known what its records go through. ``route``: of its name."""
        self.book = OffsetMapStore()
        self.translator = Translator(self.book, self._read_gap)
        self.ready = asyncio.Event()
        self._source, self._target = source, target
        self._read_committed = read_committed
        self._on_problem = on_problem
        self._transforms = made_by(transforms_of, source, target, on_problem)
        self._reader = InternalTopicReader(target, segments_topic(source_alias, route))
        self._writer = InternalTopicWriter(target, segments_topic(source_alias, route))
        self._task = asyncio.create_task(self._follow(), name=f"following {self._reader.topic}")

    async def close(self) -> None:
        """Stop following."""
        self._task.cancel()
        await asyncio.gather(self._task, self.translator.close(), return_exceptions=True)

    async def delete_superfluous(self) -> None:
        """Delete blocks that are not needed any more from the topic.

        Raises:
            OSError, MirrorError: It can't be written; they stay.
        """
        gone = [KeyedRecord(encode_key(key), None) for key in self.book.superfluous()]
        if gone:
            await self._writer.append(gone)

    async def _follow(self) -> None:
        while True:
            try:
                anew, records, complete = await self._reader.read(_WAIT_MS if self.ready.is_set() else 0)
            except (OSError, MirrorError) as error:
                log.info("%s: %s", self._reader.topic, error)
                self._on_problem(f"topic {self._reader.topic} can't be read: {error}")
                await asyncio.sleep(_RETRY_S)
                continue
            if anew:
                self.book.clear()
            for record in records:
                if record.value is not None:
                    try:
                        self.book.apply(decode_block(record.key, record.value))
                    except CorruptRecordError as error:
                        self._on_problem(f"topic {self._reader.topic}, offset {record.offset}: {error}")
            if complete:
                self.ready.set()

    async def _read_gap(
        self, source: TopicPartition, page: PartitionOffsetMap, gap: BetweenSegments
    ) -> SegmentMap | str:
        return await read_gap(
            self._source,
            source,
            page.source_topic_id,
            gap,
            read_committed=self._read_committed,
            copied=self._transforms.of(source, page.made, gap),
        )
