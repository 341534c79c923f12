"""One partition's transforms: what they make of its records, and what becomes of those that they fail on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mirror_ray.model.errors import CorruptBatchError
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import DecodedRecord, records_from
from mirror_ray.replication import faults
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.transforms.chain import TransformChain, TransformedRecords, TransformFailure
from mirror_ray.transforms.columns import columns_of

#: ``stop``: the partition stops at the record. ``skip``: it is left out. ``dead_letter``: it is left out, once it is in
#: the dead letter topic.
ErrorPolicy = Literal["stop", "skip", "dead_letter"]


class WaitingDeadLetters(NamedTuple):
    """Records to be written to the dead letter topic before more is fetched."""

    failures: list[TransformFailure]
    #: All that failed before this source offset are among them, or were written before.
    up_to: int


class DeadLettersWaitError(Exception):
    """Records have to be written to the dead letter topic first: of the first of ``batches``, perhaps of others."""

    def __init__(self, batches: Sequence[RecordBatch]) -> None:
        super().__init__()
        self.batches = batches


@dataclass(slots=True)
class PartitionTransforms:
    """The transforms of one partition, and which of their failures were written."""

    chain: TransformChain
    source: TopicPartition
    errors: ErrorPolicy = "stop"
    #: Ranges of source offsets, the end not included, whose records are left out: no transform gets them.
    skip: Sequence[tuple[int, int]] = ()
    #: Nothing is fetched before these are written.
    waiting: WaitingDeadLetters | None = None
    #: How many records were left out because they failed, and the last of them, for the event log.
    failed: int = 0
    last_failure: TransformFailure | None = None
    #: Failed records before this source offset are in the dead letter topic.
    _written_to: int = field(default=-1)

    @property
    def repeats(self) -> bool:
        """Whether transforms are pure; else what was copied can't be recognised in the source."""
        return self.chain.pure

    def copied(self, batch: RecordBatch, position: int) -> list[DecodedRecord]:
        """Return what the target has of a batch from ``position`` on once it was copied.

        Raises:
            CorruptBatchError: The batch does not parse.
        """
        records, kept, _ = self._transformed([batch], position)
        return records.decoded(kept)

    def take(self, batches: Sequence[RecordBatch], position: int) -> TransformedRecords:
        """Return what the target is to get of verified batches from ``position`` on; ``left_out`` is told, too.

        Raises:
            CorruptBatchError: A batch does not parse.
            ReplicationFault: transform_failed, where the policy is to stop.
            DeadLettersWaitError: See ``hold``.
        """
        transformed = self._transformed(batches, position)
        if transformed.failures:
            self._check(transformed.failures, batches)
        return transformed

    def _transformed(self, batches: Sequence[RecordBatch], position: int) -> TransformedRecords:
        return self.chain.run(self.source, columns_of(batches, position, self.skip))

    def _check(self, failures: Sequence[TransformFailure], batches: Sequence[RecordBatch]) -> None:
        if self.errors == "stop":
            first = failures[0]
            raise ReplicationFault(faults.transform_failed(self.source, first.record.offset, str(first)))
        if self.errors == "dead_letter" and failures[-1].record.offset >= self._written_to:
            raise DeadLettersWaitError(batches)

    def left_out(self, failures: Sequence[TransformFailure]) -> None:
        """Note that what was taken is without these."""
        if failures:
            self.failed += len(failures)
            self.last_failure = failures[-1]

    def hold(self, batches: Iterable[RecordBatch], position: int) -> None:
        """Have all records written that fail in verified batches with records, from ``position`` on.

        They are fetched again afterwards. What follows one that is corrupt is left for then.
        """
        found: list[TransformFailure] = []
        with suppress(CorruptBatchError):
            for batch in batches:
                found += self._transformed([batch], position).failures
                position = batch.next_offset
        self.waiting = WaitingDeadLetters(found, position)

    def written(self, letters: WaitingDeadLetters) -> None:
        """Note that the dead letter topic has these on all in-sync replicas."""
        if self.waiting is letters:
            self.waiting = None
            self._written_to = letters.up_to

    def begin(self) -> None:
        """Forget what was read of the source: the position is another one."""
        self.waiting, self._written_to = None, -1


def copied_of(
    batch: RecordBatch, position: int, skip: Sequence[tuple[int, int]], transforms: PartitionTransforms | None
) -> list[DecodedRecord]:
    """What the target got of a batch from ``position`` on, at its source offsets."""
    return records_from(batch, position, skip) if transforms is None else transforms.copied(batch, position)
