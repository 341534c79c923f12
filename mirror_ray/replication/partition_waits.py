"""What a partition may have to wait for before its next record is taken; what lies before it is sent meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mirror_ray.records.batch import RecordBatch
from mirror_ray.replication import faults
from mirror_ray.replication.faults import ReplicationFault, StopCause
from mirror_ray.replication.partition_data import PartitionData
from mirror_ray.replication.partition_states import CopyState, Recovery, StateEvent
from mirror_ray.replication.partition_transforms import WaitingDeadLetters
from mirror_ray.transforms.chain import SchemaIdsWait


@dataclass(slots=True, eq=False, repr=False)
class PartitionWaits(PartitionData):
    """Waits for dead letters, and for schema ids, and goes on with the source where it stopped."""

    @property
    def dead_letters(self) -> WaitingDeadLetters | None:
        """What is to be written to the dead letter topic before more is fetched."""
        return None if self.transforms is None else self.transforms.waiting

    def dead_letters_written(self, letters: WaitingDeadLetters) -> None:
        """Go on: the dead letter topic has these on all in-sync replicas."""
        if self.transforms is not None:
            self.transforms.written(letters)
            if self.state is CopyState.AWAITING_DEAD_LETTERS and self.transforms.waiting is None:
                self._on(StateEvent.DEAD_LETTERS_WRITTEN)

    @property
    def schema_ids_awaited(self) -> SchemaIdsWait | None:
        """What it waits for, where schema ids are translated."""
        awaits = self.transforms is not None and self.state is CopyState.AWAITING_SCHEMA_IDS
        return self.transforms.waits_for if awaits and self.transforms is not None else None

    def schema_ids_learned(self) -> None:
        """Go on, if what the record lacked is known by now."""
        if self.schema_ids_awaited is None or self.transforms is None or self.transforms.lacks:
            return
        self.transforms.waits_for = None
        known = self.position.known
        self._on(StateEvent.SCHEMA_IDS_KNOWN if known else StateEvent.SCHEMA_IDS_KNOWN_TO_REALIGN)
        self._recovered(Recovery.SCHEMA_IDS_KNOWN)

    def schema_ids_overdue(self) -> None:
        """Be shown as stopped, for it waits for long; it goes on as soon as it can all the same."""
        waits = self.schema_ids_awaited
        if waits is not None:
            fault = ReplicationFault(faults.schema_missing(self.source, waits))
            self.stop_cause = StopCause.of(fault, self.assignment.partition)

    def _await_dead_letters(self, batches: Iterable[RecordBatch]) -> None:
        """Go no further before the dead letters of these are written; then they are fetched again."""
        if self.transforms is not None:
            self.transforms.hold(batches, self.process_offset)
        self._fetch_again()
        self._on(StateEvent.RECORDS_FAILED)

    def _await_schema_ids(self, waits: SchemaIdsWait) -> None:
        """Go no further before it is known what a record's schema id becomes; then it is fetched again."""
        if self.transforms is not None:
            self.transforms.waits_for = waits
        self._fetch_again()
        self._on(StateEvent.SCHEMA_IDS_MISSING)

    def _fetch_again(self) -> None:
        self.fetch_offset = self.process_offset
        # Of what was passed over alone, the epoch is not kept.
        self.fetch_epoch = (self.pipeline.newest or self.acknowledged).source_epoch if self.position.known else -1
