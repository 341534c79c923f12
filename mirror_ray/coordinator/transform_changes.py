"""Which transforms a flow's partitions are copied by, and the change to others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from mirror_ray.config.settings import FlowSettings
from mirror_ray.config.transforms import flow_chains
from mirror_ray.coordinator.flow_context import FlowContext
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.topics import discovery_rules
from mirror_ray.transforms.loading import TransformChains

_NO_PRODUCER: Final = (-1, -1)
_THE_FLOWS: Final[tuple[int | None, int]] = (None, 0)


class TransformChanges:
    """Keeps in each partition's record which transforms its copy is made by, and changes them where that is safe.

    Guarantees: target records behind a record's pair were made by the transforms that the record names. These change
    only when nobody has the partition and the target ends at the pair; the partition then gets a producer of its own,
    so that late writes of an earlier replicator are recognised as foreign.
    """

    def __init__(self, settings: FlowSettings, flow: FlowContext) -> None:
        self._flow = flow
        self._state, self._live_state = flow.state, flow.live_state
        self._stuck: dict[TopicPartition, str] = {}
        self._chains = TransformChains(())
        self._problem: str | None = None
        try:
            self._chains = flow_chains(settings, _nothing_is_copied_here)
        except ValueError as error:
            self._problem = f"flow {settings.name}: transforms: {error}"

    def check(self) -> None:
        """Raise ConfigError where the transforms can't be loaded: nothing may be decided about partitions then."""
        if self._problem is not None:
            raise ConfigError(self._problem)

    def holds_back(self, partition: TopicPartition) -> bool:
        """Whether the partition must not be copied: not yet, or not by the configuration's transforms."""
        record = self._state.record(partition)
        return record is not None and (self._changes(partition, record) or self._waits(partition))

    def _changes(self, partition: TopicPartition, record: PartitionRecord) -> bool:
        """Whether the record names other transforms than the configuration, or lies before the start of its route."""
        if record.transforms != self._chains.identity(partition.topic):
            return True
        # A route that was ended together with its flow has nothing to copy before its flow routes to it again; one that
        # went back by itself, because the source lost records, has.
        pair, begin = self._state.latest_pair(partition), self._route_start(partition, record)
        ended = pair is not None and record.aligned_at == pair.source_offset
        return ended and begin is not None and pair is not None and pair.source_offset < begin

    def _route_start(self, partition: TopicPartition, record: PartitionRecord | None) -> int | None:
        """The source offset before which a route gets nothing; None: this is no route, or its flow has not begun there.

        ``record``: the route's own; None where it has none.
        """
        live = self._live_state.record(partition) if self._live_state is not None else None
        if live is None or live.transforms != self._chains.identity(partition.topic):
            return None
        same = record is None or record.source_topic_id == live.source_topic_id
        return live.routes_from if same else None

    def _waits(self, partition: TopicPartition) -> bool:
        """Whether a route must not go on before its flow does."""
        if self._live_state is None:
            return False
        live = self._live_state.record(partition)
        behind = live is None or live.transforms != self._chains.identity(partition.topic)
        return behind or (live is not None and live.aligned_at is not None)

    def route_starts(self, numbers: Mapping[str, Sequence[int]]) -> dict[TopicPartition, int]:
        """Where a route's partitions without a record begin; those without a record of the flow are left out."""
        asked = (TopicPartition(topic, number) for topic, every in numbers.items() for number in every)
        return {partition: begin for partition in asked if (begin := self._route_start(partition, None)) is not None}

    def routes(self, topic: str) -> bool:
        """Whether records of a topic may go to other remote topics than its own."""
        chain = self._chains.chain(topic)
        return chain is not None and chain.routes

    def explain(self, partition: TopicPartition) -> str | None:
        """Why the partition is not copied, and what to do; None: not for this."""
        return self._stuck.get(partition)

    def waits(self, partition: TopicPartition) -> str | None:
        """What a route's partition waits for; None: not for its flow."""
        return f"until {self._flow.name.live} itself goes on" if self._waits(partition) else None

    def complete_record(self, topic: str, record: PartitionRecord) -> PartitionRecord:
        """A new partition's record, with its transforms."""
        chain = self._chains.chain(topic)
        if chain is None:
            return record
        record = replace(record, transforms=chain.identity)
        if chain.routes and self._live_state is None:
            record = replace(record, routes_from=record.source_offset)
        elif self._live_state is not None:
            record = replace(record, begins_at=record.source_offset)
        return record if chain.pure else _with_producer(record, _NO_PRODUCER)

    async def change(self, selected: Mapping[str, str]) -> bool:
        """Change the transforms of partitions that nobody has; whether some have to be tried again.

        Raises:
            MirrorError: The target can't be reached, or the state could not be written.
        """
        held = {
            partition: record
            for partition, record in self._state.records.partitions.items()
            if partition.topic in selected and self._changes(partition, record)
        }
        self._stuck = {partition: text for partition, text in self._stuck.items() if partition in held}
        ready = {
            partition: record
            for partition, record in held.items()
            if partition not in self._stuck and self._flow.is_unassigned(partition)
        }
        if not ready:
            return len(held) > len(self._stuck)
        there = {
            partition: TopicPartition(record.target_topic, partition.partition) for partition, record in ready.items()
        }
        ends = await self._flow.port.target_bounds(list(there.values()))
        changed: dict[TopicPartition, PartitionRecord] = {}
        for partition, record in ready.items():
            bounds, pair = ends.get(there[partition]), self._state.latest_pair(partition)
            if bounds is None or pair is None:
                continue
            begun = self._begun(partition, record, pair, bounds)
            if isinstance(begun, str):
                self._stop(partition, record, begun)
            elif begun is not None:
                changed[partition] = self.complete_record(partition.topic, begun)
        await self._rewrite(changed)
        return len(held) > len(changed) + len(self._stuck)

    def _begun(
        self,
        partition: TopicPartition,
        record: PartitionRecord,
        pair: OffsetPair,
        bounds: discovery_rules.TargetLogBounds,
    ) -> PartitionRecord | str | None:
        """The record from which the transforms of now go on; why they must not; None: not before its flow's do."""
        # What was ended together has left nothing behind its pair, whoever else writes there.
        clean = record.aligned_at == pair.source_offset
        if bounds.end != pair.target_offset and not (clean and record.shared):
            return (
                "others write to its remote topic, so whether all of them are accounted for can't be told"
                if record.shared
                else f"records up to target offset {bounds.end} were made by the earlier ones, and only those up to "
                f"{record.target_offset} are accounted for"
            )
        if self._live_state is not None:
            begin = self._route_start(partition, record)
            if begin is None:
                return None
            if pair.source_offset > begin:
                return f"it has come to source offset {pair.source_offset}, and those of its flow begin at {begin}"
            pair = replace(pair, source_offset=begin, source_epoch=-1)
        elif record.routes_from is not None and not clean:
            return "its routes have not come to the same source offset, and records would be in two topics or in none"
        # A new producer counts by the target's offsets, where nobody else writes.
        pair = pair if record.shared else replace(pair, sequence=None)
        return replace(
            record.at(pair).with_origin(pair),
            transforms="",
            transforms_source_offset=pair.source_offset,
            transforms_target_offset=pair.target_offset,
            routes_from=None,
            aligned_at=None,
        )

    async def _rewrite(self, changed: Mapping[TopicPartition, PartitionRecord]) -> None:
        """Persist changed records: exactly-once partitions get a new producer, shared ones each their own."""
        flow = self._state.records.flow
        if not changed or flow is None:
            return
        with_producer = {
            partition: record for partition, record in changed.items() if not self._at_least_once(partition)
        }
        if flow.producer_id < 0:
            producers = dict.fromkeys(with_producer, _THE_FLOWS)
        else:
            producers = await self._new_producers(with_producer)
        await self._state.rewrite(
            {
                partition: _with_producer(record, producers[partition]) if partition in producers else record
                for partition, record in changed.items()
            }
        )
        for partition, record in changed.items():
            text = f"copied by {record.transforms or 'no transforms'} from source offset {record.source_offset} on"
            self._flow.emit_of("info", partition, text)

    async def _new_producers(
        self, records: Mapping[TopicPartition, PartitionRecord]
    ) -> dict[TopicPartition, tuple[int | None, int]]:
        found: dict[TopicPartition, tuple[int | None, int]] = {}
        alone = [partition for partition, record in records.items() if not record.shared]
        if alone:
            found = dict.fromkeys(alone, await self._flow.port.new_producer())
        for partition in [partition for partition in records if partition not in found]:
            found[partition] = await self._flow.port.new_producer()
        return found

    def _stop(self, partition: TopicPartition, record: PartitionRecord, why: str) -> None:
        text = (
            f"its transforms changed from {record.transforms or 'none'} to "
            f"{self._chains.identity(partition.topic) or 'none'}, but {why}: put the earlier transforms back, let "
            "the flow catch up and end it with `mirror-ray down`, then change them"
        )
        self._stuck[partition] = text
        self._flow.emit_of("error", partition, text)

    def _at_least_once(self, partition: TopicPartition) -> bool:
        chain = self._chains.chain(partition.topic)
        return chain is not None and not chain.pure


def _with_producer(record: PartitionRecord, producer: tuple[int | None, int]) -> PartitionRecord:
    return replace(record, producer_id=producer[0], producer_epoch=producer[1])


def _nothing_is_copied_here() -> tuple[str, str]:
    raise NotImplementedError
