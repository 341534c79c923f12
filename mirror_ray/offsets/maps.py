"""Where a flow's source partitions are on the target: by its own map, and by that of the flow that comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.bidirectional_maps import BidirectionalMaps, BidirectionalPartition
from mirror_ray.offsets.map_store import OffsetMapStore, PartitionOffsetMap
from mirror_ray.offsets.map_tailer import OffsetMapTailer
from mirror_ray.offsets.partition_resolver import NamedTopic, PartitionResolver, PublishedMaps, ResolvedPartition
from mirror_ray.offsets.translate import Translation
from mirror_ray.offsets.translator import WAIT_S


class _Translate(Protocol):
    def __call__(self, offset: int, wait_s: float = WAIT_S) -> Awaitable[Translation]: ...


@dataclass(frozen=True, slots=True, eq=False)
class RemotePartition:
    """Where a source partition is on the target."""

    remote: TopicPartition
    #: Whether it came from the target: its place there is told, and no group is put there while it still reads here.
    back: bool
    #: Several topics of the flow may be copied there, so that one offset stands for all of them.
    merges: bool
    #: A map or a pattern gives the name, which does not tell where it came from.
    named: bool
    #: Both sides write it under one name.
    both: bool
    #: Translates a position; see ``Translator``.
    translate: _Translate
    #: What it translates by.
    _told: tuple[tuple[OffsetMapStore, PublishedMaps], ...]

    @property
    def version(self) -> int:
        """Of what translates now: it grows with it."""
        return sum(page.version for page, _ in self._pages())

    def _pages(self) -> Iterator[tuple[PartitionOffsetMap, PublishedMaps]]:
        """Yield what is known of it."""
        for book, told in self._told:
            page = book.find(told.key)
            if page is not None:
                yield page, told

    def copied_before(self, offset: int) -> int | None:
        """Of a topic that came from the target, the end of its copy there, if that is before ``offset`` here."""
        page = next((page for page, _ in self._pages()), None)
        if page is None or page.places.empty or page.places.head.target > offset:
            return None
        return page.places.head.source

    @property
    def outdated(self) -> str | None:
        """Why the map tells of other topics than these; None: it tells of them, as far as is known."""
        why = (told.other_than((page.source_topic_id, page.target_topic_id)) for page, told in self._pages())
        return next((each for each in why if each is not None), None)


class FlowMaps:
    """Both maps that a flow's groups need: its own, and for topics that came from the target that of the way back."""

    def __init__(
        self,
        flow: FlowSettings,
        source: ClusterConnections,
        target: ClusterConnections,
        on_problem: Callable[[str], None],
        back: FlowSettings | None = None,
    ) -> None:
        """``back``: the flow that comes back, where it is known what its records go through."""
        self._ways = PartitionResolver(flow, source, target)
        self.rules = self._ways.rules
        self._source, self._target = source, target
        self._routes: dict[TopicPartition, tuple[RemotePartition, ...]] = {}
        committed = flow.fetch.isolation_level == "read_committed"
        follow = partial(OffsetMapTailer, read_committed=committed, on_problem=on_problem)
        self.own = follow(flow.name.source, source, target, transforms_of=flow, route=flow.name.route)
        # What came from the target is no route's business.
        self._back = self.own
        if flow.route is None:
            self._back = follow(flow.name.target, target, source, transforms_of=back)
        self._both = BidirectionalMaps(
            self.own.translator, self._back.translator, source, target, flow.fetch.isolation_level
        )

    async def ready(self) -> None:
        """Wait until both topics were read to their ends; a missing one is empty."""
        await asyncio.gather(self.own.ready.wait(), self._back.ready.wait())

    async def close(self) -> None:
        """Stop following."""
        await asyncio.gather(self.own.close(), self._back.close())

    def route(self, partition: TopicPartition) -> RemotePartition | None:
        """The way of a source partition; None: the flow does not copy it, or it came from several topics."""
        found = self.routes(partition)
        return found[0] if len(found) == 1 else None

    def routes(self, partition: TopicPartition) -> tuple[RemotePartition, ...]:
        """The ways of a source partition, to each of the topics that it came from; none: the flow does not copy it."""
        found = self._routes.get(partition)
        if found is None:
            found = tuple(self._route(partition, way) for way in self._ways.find_all(partition))
            # Which topics a pattern has renamed may not be known yet.
            if found or not self.rules.names_back.renames:
                self._routes[partition] = found
        return found

    def _route(self, partition: TopicPartition, way: ResolvedPartition) -> RemotePartition:
        translate: _Translate
        if way.both:
            translate = partial(self._both.translate, BidirectionalPartition(partition, way.remote))
        elif way.back:
            translate = partial(self._back.translator.to_source, way.key)
        else:
            translate = partial(self.own.translator.to_target, way.key)
        told = self._ways.told(partition, way)
        return RemotePartition(
            remote=way.remote,
            back=way.back,
            merges=not way.back and self.rules.merges(way.remote.topic),
            named=not way.back and self.rules.named_by(partition.topic) != "policy",
            both=way.both,
            translate=translate,
            _told=tuple(((self._back if each.back else self.own).book, each) for each in told),
        )

    def why_not(self, partition: TopicPartition) -> str | None:
        """See ``PartitionResolver.why_not``."""
        return self._ways.why_not(partition)

    async def place(self, partition: TopicPartition, offset: int, *, back: bool) -> Translation:
        """Where a position of a source partition that the flow copies is; ``back``: a remote one, on the source.

        Raises:
            ClusterUnreachableError: No broker answers.
        """
        route = self.route(partition)
        why = self.why_not(partition)
        if why is None and back and route is not None and route.both:
            why = f"both sides write {partition.topic}: ask for it by {self.rules.flow.back}"
        if why is not None:
            return Translation(offset=None, reason=why)
        if route is not None and route.both:
            await self.look([partition])
            return await route.translate(offset)
        translator = self.own.translator
        return await (translator.to_source(partition, offset) if back else translator.to_target(partition, offset))

    def backwards(self, remote: TopicPartition) -> tuple[RemotePartition, ...]:
        """The ways from a partition on the target back to those on the source that were copied there."""
        there = NamedTopic(self._target, remote.topic)
        return tuple(
            RemotePartition(
                remote=each,
                back=True,
                merges=False,
                named=True,
                both=False,
                translate=partial(self.own.translator.to_source, each),
                _told=((self.own.book, PublishedMaps(True, each, NamedTopic(self._source, each.topic), there)),),
            )
            for each in sorted(self.own.book)
            if each.partition == remote.partition
        )

    def merged_from(self, remote: TopicPartition) -> list[TopicPartition]:
        """See ``PartitionResolver.merged_from``."""
        return self._ways.merged_from(remote)

    async def prepare(self) -> None:
        """To be called before routes are asked for; see ``PartitionResolver.prepare``."""
        await self._ways.prepare()

    async def look(self, partitions: Collection[TopicPartition]) -> None:
        """See which topics are there now, of these source partitions and of their remote ones, and what is to be seen.

        To be called after the offsets that are to be translated were committed.

        Raises:
            ClusterUnreachableError: No broker answers.
        """
        routes = [(each, route) for each in partitions for route in self.routes(each)]
        remotes = {route.remote.topic for _, route in routes}
        await asyncio.gather(self._source.refresh({each.topic for each in partitions}), self._target.refresh(remotes))
        await self._both.look({BidirectionalPartition(each, route.remote) for each, route in routes if route.both})

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
