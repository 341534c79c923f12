"""A flow's map as the replicators tell it, and the map of the flow that comes back, followed as they grow."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
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
from mirror_ray.offsets.made_by import MadeBy
from mirror_ray.offsets.segments import Between, SegmentMap
from mirror_ray.offsets.translate import Translation
from mirror_ray.offsets.translator import WAIT_S, Translator
from mirror_ray.offsets.ways import NamedTopic, Way, Ways, read_gap
from mirror_ray.records.segment_block import decode_block, encode_key
from mirror_ray.transforms.loading import Chains
from mirror_ray.transforms.of_flow import flow_chains

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
        transforms_of: FlowSettings | None = None,
    ) -> None:
        """``transforms_of``: the flow, where it is known what its records go through."""
        self.book = SegmentBook()
        self.translator = Translator(self.book, self._read_gap)
        self.ready = asyncio.Event()
        self._source, self._target = source, target
        self._read_committed = read_committed
        self._on_problem = on_problem
        self._transforms = MadeBy(self._load_chains(transforms_of), on_problem)
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

    def _load_chains(self, flow: FlowSettings | None) -> Callable[[], Chains]:
        def ids() -> tuple[str, str]:
            return self._source.metadata.cluster_id, self._target.metadata.cluster_id

        return lambda: Chains(()) if flow is None else flow_chains(flow, ids)

    async def _read_gap(self, source: TopicPartition, page: Page, gap: Between) -> SegmentMap | str:
        return await read_gap(
            self._source,
            source,
            page.source_topic_id,
            gap,
            read_committed=self._read_committed,
            copied=self._transforms.of(source, page, gap),
        )


class _Translate(Protocol):
    def __call__(self, offset: int, wait_s: float = WAIT_S) -> Awaitable[Translation]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """Where a source partition is on the target."""

    remote: TopicPartition
    #: Whether it came from the target: its place there is told, and no group is put there while it still reads here.
    back: bool
    #: Several topics of the flow may be copied there, so that one offset stands for all of them.
    merges: bool
    #: A map or a pattern gives the name, which does not tell where it came from.
    named: bool
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

    def copied_before(self, offset: int) -> int | None:
        """Of a topic that came from the target, the end of its copy there, if that is before ``offset`` here."""
        page = self._book.find(self._key)
        if page is None or page.places.empty or page.places.head.target > offset:
            return None
        return page.places.head.source

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
        self._ways = Ways(flow, source, target)
        self.rules = self._ways.rules
        self._source, self._target = source, target
        self._routes: dict[TopicPartition, tuple[Route, ...]] = {}
        committed = flow.fetch.isolation_level == "read_committed"
        self.own = FollowedMap(
            flow.name.source,
            source,
            target,
            read_committed=committed,
            on_problem=on_problem,
            transforms_of=flow,
        )
        self._back = FollowedMap(flow.name.target, target, source, read_committed=committed, on_problem=on_problem)

    async def ready(self) -> None:
        """Wait until both topics were read to their ends; a missing one is empty."""
        await asyncio.gather(self.own.ready.wait(), self._back.ready.wait())

    async def close(self) -> None:
        """Stop following."""
        await asyncio.gather(self.own.close(), self._back.close())

    def route(self, partition: TopicPartition) -> Route | None:
        """The way of a source partition; None: the flow does not copy it, or it came from several topics."""
        found = self.routes(partition)
        return found[0] if len(found) == 1 else None

    def routes(self, partition: TopicPartition) -> tuple[Route, ...]:
        """The ways of a source partition, to each of the topics that it came from; none: the flow does not copy it."""
        found = self._routes.get(partition)
        if found is None:
            found = tuple(self._route(partition, way) for way in self._ways.find_all(partition))
            # Which topics a pattern has renamed may not be known yet.
            if found or not self.rules.names_back.renames:
                self._routes[partition] = found
        return found

    def _route(self, partition: TopicPartition, way: Way) -> Route:
        followed = self._back if way.back else self.own
        translate = followed.translator.to_source if way.back else followed.translator.to_target
        topics = self._ways.topics(partition, way)
        merges = not way.back and self.rules.merges(way.remote.topic)
        named = not way.back and self.rules.named_by(partition.topic) != "policy"
        return Route(way.remote, way.back, merges, named, partial(translate, way.key), followed.book, way.key, *topics)

    async def prepare(self) -> None:
        """To be called before routes are asked for; see ``Ways.prepare``."""
        await self._ways.prepare()

    async def look(self, partitions: Collection[TopicPartition]) -> None:
        """See which topics are there now, of these source partitions and of their remote ones.

        Raises:
            ClusterUnreachableError: No broker answers.
        """
        remotes = {route.remote.topic for each in partitions for route in self.routes(each)}
        await asyncio.gather(self._source.refresh({each.topic for each in partitions}), self._target.refresh(remotes))

    def source_of(self, remote: TopicPartition) -> TopicPartition | None:
        """The source partition of a partition named in a checkpoint, where its name tells."""
        rules, number = self.rules, remote.partition
        mapped = rules.names.mapped_from(remote.topic)
        if mapped:
            return TopicPartition(mapped[0], number)
        if rules.policy.topic_source(remote.topic) == rules.flow.source:
            upstream = rules.policy.upstream_topic(remote.topic)
            return TopicPartition(upstream, number) if upstream is not None else None
        # A topic of the target's own: on the source it is a remote topic.
        return TopicPartition(rules.copy_on_source(remote.topic), number)
