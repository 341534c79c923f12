"""Which transforms a flow's partitions are copied by, and the change from one to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from actors.ledger import FlowLedger
from actors.ports import Emit, FlowPort
from mirror_ray.config.settings import FlowSettings
from mirror_ray.coordination import discovery
from mirror_ray.coordination.state import PartitionRecord
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.names import FlowPartition, TopicPartition
from mirror_ray.transforms.loading import Chains
from mirror_ray.transforms.of_flow import flow_chains

_NO_PRODUCER: Final = (-1, -1)
_THE_FLOWS: Final = (None, 0)


class Transformations:
    """Says in each partition's record what its copy is made by, and changes that only where nothing is under way.

    Guarantees: what lies on the target behind a record's pair was made by the transforms that the record names. They
    change when nobody has the partition and the target ends at the pair, and then it gets a producer of its own, so
    that what an earlier copier may still write is known for somebody else's.
    """

    def __init__(
        self,
        settings: FlowSettings,
        port: FlowPort,
        ledger: FlowLedger,
        *,
        emit: Emit,
        free: Callable[[FlowPartition], bool],
    ) -> None:
        """``free``: whether no replicator has the partition or may still have it."""
        self._name = settings.name
        self._port = port
        self._ledger = ledger
        self._emit = emit
        self._free = free
        self._stuck: dict[TopicPartition, str] = {}
        self._chains = Chains(())
        self._problem: str | None = None
        try:
            self._chains = flow_chains(settings, _nothing_is_copied_here)
        except ValueError as error:
            self._problem = f"flow {settings.name}: transforms: {error}"

    def check(self) -> None:
        """Nothing may be decided about partitions before this returns.

        Raises:
            ConfigError: A transform can't be loaded here.
        """
        if self._problem is not None:
            raise ConfigError(self._problem)

    def holds_back(self, partition: TopicPartition) -> bool:
        """Whether the partition must not be copied: its record names other transforms than the configuration."""
        record = self._ledger.record(partition)
        return record is not None and record.transforms != self._chains.identity(partition.topic)

    def explain(self, partition: TopicPartition) -> str | None:
        """Why the partition is not copied, and what to do; None: not for this."""
        return self._stuck.get(partition)

    def first(self, topic: str, record: PartitionRecord) -> PartitionRecord:
        """The record of a partition of which nothing was copied yet."""
        chain = self._chains.chain(topic)
        if chain is None:
            return record
        record = replace(record, transforms=chain.identity)
        return record if chain.pure else _with_producer(record, _NO_PRODUCER)

    async def change(self, selected: Mapping[str, str]) -> bool:
        """Change the transforms of partitions that nobody has; whether some have to be tried again.

        Raises:
            MirrorError: The target can't be reached, or the state could not be written.
        """
        held = {
            TopicPartition(topic, number): record
            for topic, records in self._ledger.by_topic().items()
            if topic in selected
            for number, record in records.items()
            if self.holds_back(TopicPartition(topic, number))
        }
        self._stuck = {each: text for each, text in self._stuck.items() if each in held}
        free = {each: record for each, record in held.items() if each not in self._stuck and self._is_free(each)}
        if not free:
            return len(held) > len(self._stuck)
        there = {each: TopicPartition(record.target_topic, each.partition) for each, record in free.items()}
        ends = await self._port.target_bounds(list(there.values()))
        changed: dict[TopicPartition, PartitionRecord] = {}
        for partition, record in free.items():
            bounds, anchor = ends.get(there[partition]), self._ledger.latest_anchor(partition)
            if bounds is None or anchor is None:
                continue
            if bounds.end == anchor.target_offset:
                # A new producer counts by the target's offsets, where nobody else writes.
                anchor = anchor if record.shared else replace(anchor, sequence=None)
                begun = replace(
                    record.at(anchor).with_origin(anchor),
                    transforms="",
                    transforms_source_offset=anchor.source_offset,
                    transforms_target_offset=anchor.target_offset,
                )
                changed[partition] = self.first(partition.topic, begun)
            else:
                self._stop(partition, record, bounds)
        await self._rewrite(changed)
        return len(held) > len(changed) + len(self._stuck)

    async def _rewrite(self, changed: Mapping[TopicPartition, PartitionRecord]) -> None:
        """Persist them, those that are copied exactly once with one new producer for all."""
        flow = self._ledger.flow
        if not changed or flow is None:
            return
        producer = _THE_FLOWS if flow.producer_id < 0 else await self._port.new_producer()
        await self._ledger.rewrite(
            {
                each: record if self._at_least_once(each) else _with_producer(record, producer)
                for each, record in changed.items()
            }
        )
        for partition, record in changed.items():
            text = f"copied by {record.transforms or 'no transforms'} from source offset {record.source_offset} on"
            self._emit("info", str(self._of(partition)), text)

    def _stop(self, partition: TopicPartition, record: PartitionRecord, bounds: discovery.LogBounds) -> None:
        others = (
            "others write to its remote topic, so whether all of them are accounted for can't be told"
            if record.shared
            else f"records up to target offset {bounds.end} were made by the earlier ones, and only those up to "
            f"{record.target_offset} are accounted for"
        )
        text = (
            f"its transforms changed from {record.transforms or 'none'} to "
            f"{self._chains.identity(partition.topic) or 'none'}, but {others}: put the earlier transforms back, let "
            "the flow catch up and end it with `mirror-ray down`, then change them"
        )
        self._stuck[partition] = text
        self._emit("error", str(self._of(partition)), text)

    def _at_least_once(self, partition: TopicPartition) -> bool:
        chain = self._chains.chain(partition.topic)
        return chain is not None and not chain.pure

    def _is_free(self, partition: TopicPartition) -> bool:
        return self._free(self._of(partition))

    def _of(self, partition: TopicPartition) -> FlowPartition:
        return FlowPartition(self._name, partition.topic, partition.partition)


def _with_producer(record: PartitionRecord, producer: tuple[int | None, int]) -> PartitionRecord:
    return replace(record, producer_id=producer[0], producer_epoch=producer[1])


def _nothing_is_copied_here() -> tuple[str, str]:
    raise NotImplementedError
