"""One partition's transforms: what they make of its records, and what becomes of those that they fail on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mirror_ray.model.assignment import NO_END
from mirror_ray.model.errors import CorruptBatchError
from mirror_ray.model.names import TopicPartition
from mirror_ray.records import kernel
from mirror_ray.records.batch import Codec, RecordBatch
from mirror_ray.records.batch_run import BatchRun, single_batches
from mirror_ray.records.decode import DecodedRecord, records_from
from mirror_ray.records.repacked_batch import RepackedBatch
from mirror_ray.replication import faults
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.transforms.chain import SchemaIdsWait, TransformChain, TransformedRecords, TransformFailure
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


class SchemaIdsWaitError(Exception):
    """It is not known what the schema id of a record becomes; nothing was taken.

    ``before``: of what was copied, what lies before that record in its batch.
    """

    def __init__(self, waits: SchemaIdsWait, before: Sequence[DecodedRecord] = ()) -> None:
        super().__init__()
        self.waits, self.before = waits, before


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
    #: What the partition waits for, if anything, since schema ids are translated.
    waits_for: SchemaIdsWait | None = None
    #: How many records were left out because they failed, and the last of them, for the event log.
    failed: int = 0
    last_failure: TransformFailure | None = None
    #: Failed records before this source offset are in the dead letter topic.
    _written_to: int = field(default=-1)

    @property
    def repeats(self) -> bool:
        """Whether transforms are pure; else what was copied can't be recognised in the source."""
        return self.chain.pure

    @property
    def sends_parts(self) -> bool:
        """Whether a part of a batch may be sent, and the rest when it was fetched again."""
        return self.chain.schema_ids is not None

    def copied(self, batch: RecordBatch, position: int) -> list[DecodedRecord]:
        """Return what the target has of a batch from ``position`` on once it was copied.

        Raises:
            CorruptBatchError: The batch does not parse.
            SchemaIdsWaitError: What was copied is not known yet.
        """
        transformed = self._transformed([batch], position)
        if transformed.waits is not None:
            before = self._transformed([batch], position, transformed.waits.offset)
            raise SchemaIdsWaitError(transformed.waits, before.records.decoded(before.kept))
        return transformed.records.decoded(transformed.kept)

    def translated(
        self,
        batches: Sequence[RecordBatch | BatchRun],
        position: int,
        *,
        codec: Codec,
        max_batch_bytes: int,
        merge_bytes: int = 0,
    ) -> list[RepackedBatch] | None:
        """What the target is to get where nothing but schema ids is changed, in one pass by the record kernel.

        None: there are other transforms, or something is in the way of a record, which ``take`` says.

        Raises:
            CorruptBatchError: A batch does not parse.
            RecordTooLargeError: A record alone is over ``max_batch_bytes``.
        """
        ids = self.chain.schema_ids
        if self.chain.steps or ids is None or ids.known is None or not kernel.is_available():
            return None
        return kernel.repack_translated(
            batches,
            ids.known.native,
            key=ids.framing("key"),
            value=ids.framing("value"),
            codec=codec,
            merge_bytes=merge_bytes,
            max_batch_bytes=max_batch_bytes,
            from_offset=position,
            leave_out=self.skip,
        )

    def take(self, batches: Sequence[RecordBatch | BatchRun], position: int, up_to: int = NO_END) -> TransformedRecords:
        """Return what the target is to get of verified batches from ``position`` on; ``left_out`` is told, too.

        Raises:
            CorruptBatchError: A batch does not parse.
            ReplicationFault: transform_failed, where the policy is to stop.
            DeadLettersWaitError: See ``hold``.
            SchemaIdsWaitError: A record before ``up_to`` can't be translated yet; what lies before it can be taken.
        """
        transformed = self._transformed(batches, position, up_to)
        if transformed.failures:
            self._check(transformed.failures, batches)
        if transformed.waits is not None:
            raise SchemaIdsWaitError(transformed.waits)
        return transformed

    def _transformed(
        self, batches: Sequence[RecordBatch | BatchRun], position: int, up_to: int = NO_END
    ) -> TransformedRecords:
        leave_out = self.skip if up_to == NO_END else (*self.skip, (up_to, NO_END))
        return self.chain.run(self.source, columns_of(batches, position, leave_out))

    def _check(self, failures: Sequence[TransformFailure], batches: Sequence[RecordBatch | BatchRun]) -> None:
        if self.errors == "stop":
            first = failures[0]
            raise ReplicationFault(faults.transform_failed(self.source, first.record.offset, str(first)))
        if self.errors == "dead_letter" and failures[-1].record.offset >= self._written_to:
            raise DeadLettersWaitError(list(single_batches(batches)))

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
                transformed = self._transformed([batch], position)
                found += transformed.failures
                if transformed.waits is not None:
                    position = transformed.waits.offset
                    break
                position = batch.next_offset
        self.waiting = WaitingDeadLetters(found, position)

    def written(self, letters: WaitingDeadLetters) -> None:
        """Note that the dead letter topic has these on all in-sync replicas."""
        if self.waiting is letters:
            self.waiting = None
            self._written_to = letters.up_to

    @property
    def lacks(self) -> bool:
        """Whether what the partition waits for is not known yet."""
        ids, waits = self.chain.schema_ids, self.waits_for
        return ids is not None and waits is not None and ids.still_lacks(waits.lacks[0])

    def begin(self) -> None:
        """Forget what was read of the source: the position is another one."""
        self.waiting, self.waits_for, self._written_to = None, None, -1


def copied_of(
    batch: RecordBatch, position: int, skip: Sequence[tuple[int, int]], transforms: PartitionTransforms | None
) -> list[DecodedRecord]:
    """What the target got of a batch from ``position`` on, at its source offsets.

    Raises:
        SchemaIdsWaitError: Of the records of a batch that is not known.
    """
    return records_from(batch, position, skip) if transforms is None else transforms.copied(batch, position)
