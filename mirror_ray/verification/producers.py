"""Which producers may have written a remote partition, and whose the records are that are not compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.schema import FlowStateRecords
from mirror_ray.verification.difference import Difference, HashedRecord
from mirror_ray.verification.ranges import PositionPair, Span

#: Records of ours behind the acknowledged pair that are compared with the records that the source has next.
_MAX_IN_FLIGHT = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOwners:
    """Which producers may have written a partition of the target."""

    #: Producers of exactly this partition; empty: they are unknown.
    own: frozenset[int] = frozenset()
    #: In a shared topic: producers of any flow that copies to the cluster. Otherwise as ``own``.
    flows: frozenset[int] = frozenset()
    #: Whether records of other producers are a fault there.
    alone: bool = True
    #: Whether the state of some flow could not be read, so that an unknown producer may be that flow's.
    unsure: bool = False

    def may_write(self, producer_id: int) -> bool:
        """Whether a producer is a flow's, or may be one. Where the own producers are unknown, every producer may be."""
        return not self.own or self.unsure or producer_id in self.own or producer_id in self.flows


class WrittenBatch(NamedTuple):
    """A batch of the target that is not compared: its header, and its records' hashes if they are wanted."""

    producer_id: int
    offset: int
    records: int
    hashes: Sequence[HashedRecord] = ()


def producer_owners(
    state: FlowStateRecords, record: PartitionRecord | None, others: Iterable[FlowStateRecords], *, alone: bool
) -> ProducerOwners:
    """Which producers may write the remote partition of ``record``, by the flow's state and those of ``others``.

    ``alone``: records of other producers are a fault there.
    """
    own: set[int] = set()
    if record is not None and record.producer_id is not None:
        own.add(record.producer_id)
    if state.flow is not None and record is not None and record.producer_id != -1:
        own.add(state.flow.producer_id)
    flows = set(own)
    # Where the flow writes alone, another flow's records are as foreign as any.
    for known in (state, *others) if record is not None and record.shared else ():
        flows |= {found.producer_id for found in known.partitions.values() if found.producer_id is not None}
        flows |= {known.flow.producer_id} if known.flow is not None else set()
    return ProducerOwners(own=frozenset(own), flows=frozenset(flows), alone=alone)


@dataclass(slots=True, kw_only=True)
class RecordAttribution:
    """Attributes batches that are not compared to the producers that may have written them.

    Attributes:
        found: One difference for each record that should not be there, up to ``most``.
        ours: Hashes of our records behind ``reached``, in the order of the log.
    """

    owners: ProducerOwners
    reached: PositionPair
    #: Target offset before which nothing is ours: copying began there.
    copy_start: int
    #: Target offsets between which all of our records are compared, so that one that is not compared is surplus.
    compared: Span
    most: int
    found: list[Difference] = field(default_factory=list)
    ours: list[HashedRecord] = field(default_factory=list)
    foreign_records: int = 0
    not_ours: int = 0
    unattributed: int = 0
    in_flight: int = 0

    def needs_records(self, producer_id: int, last_offset: int) -> bool:
        """Whether the hashes of a batch's records are needed, and not only their number."""
        if producer_id in self.owners.own:
            behind = last_offset >= self.reached.target
            return len(self.ours) < _MAX_IN_FLIGHT if behind else last_offset >= self.compared[0]
        return self.owners.alone and not self.owners.may_write(producer_id) and len(self.found) < self.most

    def take(self, batch: WrittenBatch) -> None:
        """Attribute the next batch."""
        if batch.producer_id in self.owners.own:
            if batch.offset >= self.reached.target:
                self.in_flight += batch.records
                self.ours += batch.hashes
            elif self.compared[0] <= batch.offset < self.compared[1]:
                self._add_surplus(batch, None)
        elif batch.offset < self.copy_start or batch.producer_id in self.owners.flows:
            return
        elif not self.owners.alone or not self.owners.own:
            self.not_ours += batch.records
        elif self.owners.unsure:
            self.unattributed += batch.records
        else:
            self.foreign_records += batch.records
            self._add_surplus(batch, batch.producer_id)

    def _add_surplus(self, batch: WrittenBatch, producer_id: int | None) -> None:
        source_offset = self.reached.source if batch.offset >= self.reached.target else 0
        room = max(0, self.most - len(self.found))
        self.found += [
            Difference("extra", source_offset, record.offset, producer_id=producer_id) for record in batch.hashes[:room]
        ]
