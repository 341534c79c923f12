"""Translates the offsets of all of a flow's source partitions, by its own map and that of the flow back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.bidirectional import BidirectionalMaps, BidirectionalPartition
from mirror_ray.offsets.partition_resolver import NamedTopic, PartitionResolver, PublishedMap, ResolvedPartition
from mirror_ray.offsets.translation import NO_MAP, MapAnswer, OffsetQuery, Translation
from mirror_ray.offsets.translator import WAIT_S, OffsetMapTailer, Translator

_TranslateBoth = Callable[[int, float | None], Awaitable[Translation]]


@dataclass(frozen=True, slots=True, eq=False)
class RemotePartition:
    """Where a source partition is on the target; translates its offsets."""

    remote: TopicPartition
    #: Whether it came from the target: no group is moved there while it still reads here.
    back: bool
    #: Several topics of the flow may be copied there, so that one offset stands for all of them.
    merges: bool
    #: A map or a pattern gives the name, which does not tell where it came from.
    named: bool
    #: The maps that are asked; several where both sides write the topic.
    _maps: tuple[tuple[Translator, PublishedMap], ...]
    _translate_both: _TranslateBoth | None = None

    @property
    def both(self) -> bool:
        """Whether both sides write it under one name."""
        return self._translate_both is not None

    @property
    def version(self) -> int:
        """Grows with the maps: a translation of an older version may be out of date."""
        return sum(answer.version for answer, _ in self._answers(0))

    def queries(self, offset: int) -> tuple[OffsetQuery, ...]:
        """What the maps are asked about an offset."""
        return tuple(OffsetQuery(published.back, published.key, offset) for _, published in self._maps)

    def _answers(self, offset: int) -> Iterator[tuple[MapAnswer, PublishedMap]]:
        for translator, published in self._maps:
            yield translator.answer(OffsetQuery(published.back, published.key, offset)), published

    def outdated(self, offset: int) -> str | None:
        """Why the maps that translate ``offset`` are of other topics than these; None: as far as known they are not."""
        for answer, published in self._answers(offset):
            why = published.other_than(answer.topic_ids) if answer.topic_ids is not None else None
            if why is not None:
                return why
        return None

    def copied_before(self, offset: int) -> int | None:
        """The end of the copy on the target of a topic that came from there, if that is before ``offset`` here."""
        answer, _ = next(self._answers(offset))
        if answer.tail is None or answer.found == NO_MAP.found or answer.tail.target > offset:
            return None
        return answer.tail.reached

    def translate_at_once(self, offset: int) -> Translation | None:
        """The translation, where nothing has to be read for it."""
        why = self.outdated(offset)
        if why is not None:
            return Translation(offset=None, retry=True, reason=why)
        if self._translate_both is not None:
            return None
        answer, _ = next(self._answers(offset))
        return answer.found if isinstance(answer.found, Translation) else None

    async def translate(self, offset: int, wait_s: float | None = WAIT_S) -> Translation:
        """Translate an offset; the source is read where that is needed, and waited for as ``Translator`` does."""
        found = self.translate_at_once(offset)
        if found is not None:
            return found
        if self._translate_both is not None:
            return await self._translate_both(offset, wait_s)
        (translator, _), (query, *_) = self._maps[0], self.queries(offset)
        return await translator.translate(query, wait_s)


async def translate_many(
    offsets: Sequence[tuple[RemotePartition, int]], wait_s: float | None = WAIT_S
) -> list[Translation]:
    """Translate many offsets, in their order; gaps are read at the same time, and waited for so long in all."""
    found = [remote.translate_at_once(offset) for remote, offset in offsets]
    to_read = dict.fromkeys(pair for pair, translation in zip(offsets, found, strict=True) if translation is None)
    translations = await asyncio.gather(*(remote.translate(offset, wait_s) for remote, offset in to_read))
    read = dict(zip(to_read, translations, strict=True))
    return [
        read[pair] if translation is None else translation for pair, translation in zip(offsets, found, strict=True)
    ]


class FlowTranslator:
    """Finds the remote partitions of a flow; ``prepare`` and ``refresh`` come before a translation."""

    def __init__(
        self,
        flow: FlowSettings,
        source: ClusterConnections,
        target: ClusterConnections,
        translators: tuple[Translator, Translator],
    ) -> None:
        """``translators``: by the flow's own map, and by that of the flow back."""
        self._resolver = PartitionResolver(flow, source, target)
        self.rules = self._resolver.rules
        self._source, self._target = source, target
        self._own, self._back = translators
        self._both = BidirectionalMaps(self._own, self._back, source, target, flow.fetch.isolation_level)
        self._remotes: dict[TopicPartition, tuple[RemotePartition, ...]] = {}

    def remote_partition(self, partition: TopicPartition) -> RemotePartition | None:
        """Where a source partition is; None: the flow does not copy it, or several topics were merged into it."""
        found = self.remote_partitions(partition)
        return found[0] if len(found) == 1 else None

    def remote_partitions(self, partition: TopicPartition) -> tuple[RemotePartition, ...]:
        """Where a source partition is, in each of the topics that it came from; none: the flow does not copy it."""
        found = self._remotes.get(partition)
        if found is None:
            resolved = self._resolver.find_all(partition)
            found = tuple(self._remote_partition(partition, target) for target in resolved)
            # Which topics a pattern has renamed may not be known yet.
            if found or not self.rules.names_back.renames:
                self._remotes[partition] = found
        return found

    def _remote_partition(self, partition: TopicPartition, resolved: ResolvedPartition) -> RemotePartition:
        both: _TranslateBoth | None = None
        if resolved.both:
            both = partial(self._both.translate, BidirectionalPartition(partition, resolved.remote))
        return RemotePartition(
            remote=resolved.remote,
            back=resolved.back,
            merges=not resolved.back and self.rules.merges(resolved.remote.topic),
            named=not resolved.back and self.rules.named_by(partition.topic) != "policy",
            _maps=tuple(
                (self._back if published.back else self._own, published)
                for published in self._resolver.maps_of(partition, resolved)
            ),
            _translate_both=both,
        )

    def why_not(self, partition: TopicPartition) -> str | None:
        """Why groups of a topic that the flow copies are not synced; None: they are, or it does not copy it."""
        return self._resolver.why_not(partition)

    def merged_from(self, remote: TopicPartition) -> list[TopicPartition]:
        """The source's partitions that are copied into a remote partition of several topics."""
        return self._resolver.merged_from(remote)

    async def prepare(self) -> None:
        """List topics, before remote partitions are asked for, where names alone don't tell them."""
        await self._resolver.prepare()

    async def refresh(self, partitions: Collection[TopicPartition]) -> None:
        """Learn which topics there are now, of these source partitions and of their remote ones, and where logs end.

        It comes after the offsets that are to be translated were committed.
        """
        remotes = [(partition, remote) for partition in partitions for remote in self.remote_partitions(partition)]
        await asyncio.gather(
            self._source.refresh({partition.topic for partition in partitions}),
            self._target.refresh({remote.remote.topic for _, remote in remotes}),
        )
        both = {BidirectionalPartition(partition, remote.remote) for partition, remote in remotes if remote.both}
        await self._both.refresh(both)


class FlowMaps(FlowTranslator):
    """Follows both maps that a flow's groups need: its own, and that of the flow back for what came from the target.

    Attributes:
        own: The flow's own map.
    """

    def __init__(
        self,
        flow: FlowSettings,
        source: ClusterConnections,
        target: ClusterConnections,
        on_problem: Callable[[str], None],
        back: FlowSettings | None = None,
    ) -> None:
        """``back``: the flow back, where its transforms are known."""
        committed = flow.fetch.isolation_level == "read_committed"
        follow = partial(OffsetMapTailer, read_committed=committed, on_problem=on_problem)
        self.own = follow(flow.name.source, source, target, transforms_of=flow, route=flow.name.route)
        # What came from the target is no route's business.
        self._back_map = self.own
        if flow.route is None:
            self._back_map = follow(flow.name.target, target, source, transforms_of=back)
        super().__init__(flow, source, target, (self.own.translator, self._back_map.translator))

    async def ready(self) -> None:
        """Wait until both topics were read to their ends; a missing one is empty."""
        await asyncio.gather(self.own.ready.wait(), self._back_map.ready.wait())

    async def close(self) -> None:
        """Stop reading."""
        await asyncio.gather(self.own.close(), self._back_map.close())

    async def translate(self, partition: TopicPartition, offset: int, *, back: bool) -> Translation:
        """Translate an offset of a source partition that the flow copies; ``back``: of its remote partition."""
        remote = self.remote_partition(partition)
        why = self.why_not(partition)
        if why is None and back and remote is not None and remote.both:
            why = f"both sides write {partition.topic}: ask for it by {self.rules.flow.back}"
        if why is not None:
            return Translation(offset=None, reason=why)
        if remote is not None and remote.both:
            await self.refresh([partition])
            return await self._both.translate(BidirectionalPartition(partition, remote.remote), offset)
        return await self.own.translator.translate(OffsetQuery(back, partition, offset))

    def backwards(self, remote: TopicPartition) -> tuple[RemotePartition, ...]:
        """The partitions on the source that were copied to a partition on the target, to translate back."""
        there = NamedTopic(self._target, remote.topic)
        return tuple(
            RemotePartition(
                remote=source,
                back=True,
                merges=False,
                named=True,
                _maps=((self._own, PublishedMap(True, source, NamedTopic(self._source, source.topic), there)),),
            )
            for source in sorted(self.own.store)
            if source.partition == remote.partition
        )

    def source_of(self, remote: TopicPartition) -> TopicPartition | None:
        """The source partition of a remote partition, by its name; None: it does not tell."""
        rules, number = self.rules, remote.partition
        mapped = rules.names.mapped_from(remote.topic)
        if mapped:
            return TopicPartition(mapped[0], number)
        if rules.policy.topic_source(remote.topic) == rules.flow.source:
            upstream = rules.policy.upstream_topic(remote.topic)
            return TopicPartition(upstream, number) if upstream is not None else None
        # A topic of the target's own: on the source it is a remote topic.
        return TopicPartition(rules.copy_on_source(remote.topic), number)
