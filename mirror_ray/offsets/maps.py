"""A flow's map as the replicators tell it, and the map of the flow that comes back, followed as they grow."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.cluster import Cluster
from mirror_ray.kafka.internal_reader import InternalReader
from mirror_ray.kafka.internal_writer import InternalRecord, InternalWriter
from mirror_ray.model.errors import CorruptRecordError, MirrorError
from mirror_ray.model.internal_topics import segments_topic
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.book import Page, SegmentBook
from mirror_ray.offsets.segments import Between, SegmentMap
from mirror_ray.offsets.translate import Translation
from mirror_ray.offsets.translator import WAIT_S, Translator
from mirror_ray.offsets.ways import NamedTopic, Ways, read_gap
from mirror_ray.records.segment_block import decode_block, encode_key
from mirror_ray.topics.selection import replication_rules

log = logging.getLogger(__name__)

_WAIT_MS = 500
_RETRY_S = 1.0


class FollowedMap:
    """The map of one flow, from its segments topic on ``target``; its records are on ``source``.

    Attributes:
        book: What was told so far.
        translator: Answers from it.
        ready: Set once the topic was read to its end.
    """

    def __init__(
        self,
        source_alias: str,
        source: Cluster,
        target: Cluster,
        *,
        read_committed: bool,
        on_problem: Callable[[str], None],
    ) -> None:
        self.book = SegmentBook()
        self.translator = Translator(self.book, self._read_gap)
        self.ready = asyncio.Event()
        self._source = source
        self._read_committed = read_committed
        self._on_problem = on_problem
        self._reader = InternalReader(target, segments_topic(source_alias))
        self._writer = InternalWriter(target, segments_topic(source_alias))
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
        gone = [InternalRecord(encode_key(key), None) for key in self.book.superfluous()]
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

    async def _read_gap(self, source: TopicPartition, page: Page, gap: Between) -> SegmentMap | str:
        committed = self._read_committed
        return await read_gap(self._source, source, page.source_topic_id, gap, read_committed=committed)


class _Translate(Protocol):
    def __call__(self, offset: int, wait_s: float = WAIT_S) -> Awaitable[Translation]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """Where a source partition is on the target."""

    remote: TopicPartition
    #: Whether it came from the target: its place there is told, and no group is put there while it still reads here.
    back: bool
    #: Translates a position; see ``Translator``.
    translate: _Translate
    _book: SegmentBook
    _key: TopicPartition
    #: The topics that the map should tell of.
    _source: NamedTopic
    _target: NamedTopic

    @property
    def version(self) -> int:
        """Of the map that translates now."""
        page = self._book.find(self._key)
        return page.version if page else 0

    @property
    def outdated(self) -> str | None:
        """Why the map tells of other topics than these; None: it tells of them, as far as is known."""
        page = self._book.find(self._key)
        if page is None:
            return None
        return self._source.other_than(page.source_topic_id) or self._target.other_than(page.target_topic_id)


class FlowMaps:
    """Both maps that a flow's groups need: its own, and for topics that came from the target that of the way back."""

    def __init__(self, flow: FlowSettings, source: Cluster, target: Cluster, on_problem: Callable[[str], None]) -> None:
        self._rules = replication_rules(flow)
        self._ways = Ways(flow, source, target)
        self._source, self._target = source, target
        self._routes: dict[TopicPartition, Route | None] = {}
        committed = flow.fetch.isolation_level == "read_committed"
        self.own = FollowedMap(flow.name.source, source, target, read_committed=committed, on_problem=on_problem)
        self._back = FollowedMap(flow.name.target, target, source, read_committed=committed, on_problem=on_problem)

    async def ready(self) -> None:
        """Wait until both topics were read to their ends; a missing one is empty."""
        await asyncio.gather(self.own.ready.wait(), self._back.ready.wait())

    async def close(self) -> None:
        """Stop following."""
        await asyncio.gather(self.own.close(), self._back.close())

    def route(self, partition: TopicPartition) -> Route | None:
        """The way of a source partition; None: the flow does not copy it."""
        if partition not in self._routes:
            self._routes[partition] = self._find_route(partition)
        return self._routes[partition]

    def _find_route(self, partition: TopicPartition) -> Route | None:
        way = self._ways.find(partition)
        if way is None:
            return None
        followed = self._back if way.back else self.own
        translate = followed.translator.to_source if way.back else followed.translator.to_target
        topics = self._ways.topics(partition, way)
        return Route(way.remote, way.back, partial(translate, way.key), followed.book, way.key, *topics)

    async def look(self, routes: Mapping[TopicPartition, Route | None]) -> None:
        """See which topics are there now, of these source partitions and of their remote ones.

        Raises:
            ClusterUnreachableError: No broker answers.
        """
        remotes = {route.remote.topic for route in routes.values() if route is not None}
        await asyncio.gather(self._source.refresh({each.topic for each in routes}), self._target.refresh(remotes))

    def source_of(self, remote: TopicPartition) -> TopicPartition | None:
        """The source partition of a partition named in a checkpoint."""
        policy, source = self._rules.policy, self._rules.flow.source
        if policy.topic_source(remote.topic) == source:
            upstream = policy.upstream_topic(remote.topic)
            return TopicPartition(upstream, remote.partition) if upstream is not None else None
        # A topic of the target's own: on the source it is a remote topic.
        return TopicPartition(policy.format_remote_topic(self._rules.flow.target, remote.topic), remote.partition)
