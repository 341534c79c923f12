"""Translates offsets by one flow's map, which it follows as it grows, and reads the source where the map has a gap."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

from mirror_ray.config.settings import FlowSettings
from mirror_ray.config.transforms import flow_chains
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import OFFSET_OUT_OF_RANGE
from mirror_ray.kafka.internal_topic_reader import InternalTopicReader
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.kafka.leader_requests import LATEST
from mirror_ray.kafka.partition_reader import read_between
from mirror_ray.model.errors import CorruptRecordError, KafkaProtocolError, MirrorError
from mirror_ray.model.internal_topics import segments_topic
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.offsets.gap_scan import GapReader, GapTransforms, SelectCopied, others_wrote
from mirror_ray.offsets.map import OffsetMapStore, SegmentGap, SegmentMap
from mirror_ray.offsets.translation import (
    AnswerQuery,
    MapAnswer,
    OffsetQuery,
    Translation,
    answer_before_gap,
    answer_from,
    answer_in_gap,
)
from mirror_ray.records.segment_block import decode_block, encode_key
from mirror_ray.transforms.loading import TransformChains

log = logging.getLogger(__name__)

#: How long a translation waits for the source to be read.
WAIT_S: Final = 30.0
_GAPS_AT_ONCE: Final = 4
#: How many gaps, and segments found in them, are kept.
_GAPS_KEPT, _SEGMENTS_KEPT = 256, 1 << 20
#: How long a fetch of the segments topic waits for new blocks, once it was read to its end.
_FETCH_WAIT_MS: Final = 500
_RETRY_S: Final = 1.0

#: Reads a gap of a source partition whose map gave that answer: returns its map, or why that is not known.
ReadGap = Callable[[TopicPartition, MapAnswer, SegmentGap], Awaitable[SegmentMap | str]]

_GapKey = tuple[TopicPartition, TopicId | None, SegmentGap]


class _UnknownGap(NamedTuple):
    """Why it is not known what lies in a gap."""

    why: str
    retry: bool


class Translator:
    """Translates the offsets of all partitions of one map, in both directions; ``answer``: by the map alone."""

    def __init__(self, answer: AnswerQuery, read_gap: ReadGap) -> None:
        self.answer, self._read_gap = answer, read_gap
        self._gaps: OrderedDict[_GapKey, SegmentMap | str] = OrderedDict()
        self._segments_kept = 0
        self._reading: dict[_GapKey, asyncio.Task[SegmentMap | str]] = {}
        self._slots = asyncio.Semaphore(_GAPS_AT_ONCE)

    async def close(self) -> None:
        """Stop reading."""
        tasks = list(self._reading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def to_target(self, source: TopicPartition, offset: int, wait_s: float | None = WAIT_S) -> Translation:
        """The target offset of the first record at or behind ``offset`` of the partition ``source``.

        An offset that was not copied yet is translated to the end of the copy, not exact. Where the source must be
        read, that is waited for so long (None: without limit); reading goes on, and asking again gives the result.
        """
        return await self.translate(OffsetQuery(False, source, offset), wait_s)

    async def to_source(self, source: TopicPartition, offset: int, wait_s: float | None = WAIT_S) -> Translation:
        """The offset in ``source`` of the first record at or behind ``offset`` of its remote partition."""
        return await self.translate(OffsetQuery(True, source, offset), wait_s)

    async def translate(self, query: OffsetQuery, wait_s: float | None = WAIT_S) -> Translation:
        """Answer a query as ``to_target`` and ``to_source`` do."""
        answer = self.answer(query)
        gap = answer.found
        if isinstance(gap, Translation):
            return gap
        inside = await self._read(query.key, answer, gap, wait_s)
        if isinstance(inside, _UnknownGap):
            return answer_before_gap(gap, inside.why, back=query.back, retry=inside.retry)
        return answer_in_gap(gap, inside, query.offset, back=query.back)

    async def _read(
        self, source: TopicPartition, answer: MapAnswer, gap: SegmentGap, wait_s: float | None
    ) -> SegmentMap | _UnknownGap:
        key = (source, answer.topic_ids[0] if answer.topic_ids else None, gap)
        found = self._gaps.get(key)
        if found is None:
            task = self._reading.get(key) or self._begin_reading(key, answer)
            done, _ = await asyncio.wait({task}, timeout=wait_s)
            if not done:
                span = f"{gap.after.source} to {gap.before.source}"
                return _UnknownGap(f"source offsets {span} are being read to find it", retry=True)
            try:
                found = task.result()
            except (OSError, MirrorError) as error:
                return _UnknownGap(f"the source can't be read: {error}", retry=True)
        return _UnknownGap(found, retry=False) if isinstance(found, str) else found

    def _begin_reading(self, key: _GapKey, answer: MapAnswer) -> asyncio.Task[SegmentMap | str]:
        source, _, gap = key

        async def read() -> SegmentMap | str:
            try:
                async with self._slots:
                    found = await self._read_gap(source, answer, gap)
                self._keep(key, found)
                return found
            finally:
                del self._reading[key]

        self._reading[key] = task = asyncio.create_task(read(), name=f"reading a gap of {source}")
        # Nobody may be waiting any more when it fails; the next query reads again.
        task.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        return task

    def _keep(self, key: _GapKey, found: SegmentMap | str) -> None:
        self._gaps[key] = found
        self._segments_kept += len(found) if isinstance(found, SegmentMap) else 0
        while len(self._gaps) > 1 and (len(self._gaps) > _GAPS_KEPT or self._segments_kept > _SEGMENTS_KEPT):
            _, oldest = self._gaps.popitem(last=False)
            self._segments_kept -= len(oldest) if isinstance(oldest, SegmentMap) else 0


class OffsetMapTailer:
    """Reads the segments topic of one flow on ``target`` as it grows; the flow's records are on ``source``.

    Attributes:
        store: The map, as far as it was read.
        translator: Translates by it.
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
        """``transforms_of``: the flow, where its transforms are known. ``route``: the route in the flow's name."""
        self.store = OffsetMapStore()
        transforms = gap_transforms(transforms_of, source, target, on_problem)
        read_gap = gap_reader(source, transforms, read_committed=read_committed)
        self.translator = Translator(partial(answer_from, self.store), read_gap)
        self.ready = asyncio.Event()
        self._on_problem = on_problem
        topic = segments_topic(source_alias, route)
        self._reader, self._writer = InternalTopicReader(target, topic), InternalTopicWriter(target, topic)
        self._task = asyncio.create_task(self._follow(), name=f"following {topic}")

    async def close(self) -> None:
        """Stop reading."""
        self._task.cancel()
        await asyncio.gather(self._task, self.translator.close(), return_exceptions=True)

    async def delete_obsolete(self) -> None:
        """Delete blocks that are not needed any more from the topic.

        Raises:
            OSError, MirrorError: It can't be written; they stay.
        """
        tombstones = [KeyedRecord(encode_key(key), None) for key in self.store.obsolete_blocks()]
        if tombstones:
            await self._writer.append(tombstones)

    async def _follow(self) -> None:
        while True:
            try:
                anew, records, complete = await self._reader.read(_FETCH_WAIT_MS if self.ready.is_set() else 0)
            except (OSError, MirrorError) as error:
                log.info("%s: %s", self._reader.topic, error)
                self._on_problem(f"topic {self._reader.topic} can't be read: {error}")
                await asyncio.sleep(_RETRY_S)
                continue
            if anew:
                self.store.clear()
            for record in records:
                if record.value is not None:
                    try:
                        self.store.apply(decode_block(record.key, record.value))
                    except CorruptRecordError as error:
                        self._on_problem(f"topic {self._reader.topic}, offset {record.offset}: {error}")
            if complete:
                self.ready.set()


def gap_transforms(
    flow: FlowSettings | None, source: ClusterConnections, target: ClusterConnections, on_problem: Callable[[str], None]
) -> GapTransforms:
    """The transforms of a flow; ``flow`` None: they are not known."""

    def ids() -> tuple[str, str]:
        return source.metadata.cluster_id, target.metadata.cluster_id

    return GapTransforms(lambda: TransformChains(()) if flow is None else flow_chains(flow, ids), on_problem)


def gap_reader(source: ClusterConnections, transforms: GapTransforms, *, read_committed: bool) -> ReadGap:
    """What reads the gaps of a map whose records are on ``source``."""

    async def read(partition: TopicPartition, answer: MapAnswer, gap: SegmentGap) -> SegmentMap | str:
        if answer.topic_ids is None:
            raise AssertionError(partition)
        copied = transforms.selector(partition, answer.transforms, gap)
        return await read_gap(source, partition, answer.topic_ids[0], gap, read_committed=read_committed, copied=copied)

    return read


async def read_gap(
    cluster: ClusterConnections,
    partition: TopicPartition,
    topic_id: TopicId,
    gap: SegmentGap,
    *,
    read_committed: bool,
    copied: SelectCopied | None = None,
) -> SegmentMap | str:
    """The map of a gap, by the partition's records on ``cluster``; or why they don't tell it.

    ``copied`` selects the records that were copied; None: all of them were.

    Raises:
        OSError, MirrorError: It can't be read now; or its log ends before that, and would be waited for.
    """
    if (why := others_wrote(gap)) is not None:
        return why
    reader = GapReader(gap, read_committed=read_committed, copied=copied)
    if cluster.metadata.leader(partition) < 0:
        await cluster.refresh([partition.topic])
    found = (await cluster.list_offsets({partition: LATEST}, "read_uncommitted"))[partition]
    if not found.error_code and found.offset < gap.before.source:
        raise MirrorError(f"{partition} ends at {found.offset}, and was copied up to {gap.before.source}")
    start, end = gap.after.source, gap.before.source
    try:
        async for batches, aborted in read_between(
            cluster, partition, topic_id, start, end, read_committed=read_committed, purpose="gaps"
        ):
            reader.take(batches, aborted)
    except KafkaProtocolError as error:
        if error.code != OFFSET_OUT_OF_RANGE:
            raise
        return f"source offset {start}, from which to count, was deleted"
    return reader.finish()
