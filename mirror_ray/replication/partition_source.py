"""The source side of a replicated partition: which batches are taken, and where the position is found among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from mirror_ray.model.assignment import NO_END
from mirror_ray.model.errors import CorruptBatchError, RecordTooLargeError
from mirror_ray.records.batch import RecordBatch, iter_batches, rewrite, verify
from mirror_ray.records.batch_run import BatchRun, iter_runs, single_batches
from mirror_ray.records.decode import reaching_into
from mirror_ray.records.read_committed import CommittedOnly
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.merge_rules import MERGE_BYTES, MergingBatches, is_merged, largest_in_runs
from mirror_ray.replication.outgoing_batch import OutgoingBatch, merged_batches, outgoing_batches
from mirror_ray.replication.partition_states import CopyState, Recovery, StateEvent
from mirror_ray.replication.partition_transforms import DeadLettersWaitError, SchemaIdsWaitError
from mirror_ray.replication.partition_waits import PartitionWaits
from mirror_ray.replication.realignment import CleanedError

#: A batch behind gaps waits in memory until they are filled, some hundred a second: other partitions want memory, too.
_MOST_BEHIND_GAPS_BYTES: Final = 1 << 20
_ASKED_BEHIND_GAPS_BYTES: Final = 64 << 10


@dataclass(slots=True, eq=False, repr=False)
class PartitionSource(PartitionWaits):
    """Takes what was fetched, and what the source's leader answered."""

    @property
    def wants_fetch(self) -> bool:
        """Whether the partition takes part in the next fetch: it may have as much room as it leaves to the others."""
        room_bytes = _MOST_BEHIND_GAPS_BYTES if self.has_gaps else max(self.buffer_limit_bytes, self.budget.free_bytes)
        return self.pipeline.size_bytes < room_bytes and self.state.fetches and not self.fetched_all

    @property
    def fetch_limit_bytes(self) -> int | None:
        """What to ask for at most; None: there is no limit of its own."""
        return _ASKED_BEHIND_GAPS_BYTES if self.has_gaps else None

    @property
    def fetched_all(self) -> bool:
        """Whether a backfill needs nothing more; while it realigns it does."""
        return self.fetch_offset >= self.assignment.end_offset and self.position.known

    @property
    def behind(self) -> bool:
        """Whether the source has more to fetch, as far as is known."""
        return self.source_end < 0 or self.fetch_offset < self.source_end

    def source_answered(self, source_end: int, high_watermark: int) -> None:
        """Note where the source ends, and that its leader has what was read."""
        self.source_end, self.high_watermark = source_end, high_watermark
        if self.tally is not None:
            self.tally.saw(source_end)
        self._recovered(Recovery.SOURCE_ANSWERED)
        if self.fault is None:
            self.reason = None

    def received(self, records: memoryview) -> Sequence[RecordBatch | BatchRun]:
        """Split fetched bytes and move the fetch offset on: the next fetch can go out before they are processed.

        Raises:
            CorruptBatchError: The bytes are no record batches.
        """
        batches = self._split(records) if len(records) else []
        if batches:
            self.fetch_offset = max(self.fetch_offset, batches[-1].next_offset)
            self.fetch_epoch = max(self.fetch_epoch, batches[-1].partition_leader_epoch)
        return batches

    def _split(self, records: memoryview) -> Sequence[RecordBatch | BatchRun]:
        transforms, assigned = self.transforms, self.assignment
        if (transforms is not None and transforms.chain.steps) or not (self.merge and self.position.known):
            return iter_batches(records)
        largest = largest_in_runs(
            assigned.max_message_bytes,
            assigned.compress_with,
            transformed=transforms is not None,
            preserved=assigned.preserve_offsets,
        )
        return iter_runs(records, largest, MERGE_BYTES)

    def process(
        self, batches: Sequence[RecordBatch | BatchRun], aborted: Sequence[tuple[int, int]] | CommittedOnly
    ) -> None:
        """Select, check and rewrite batches that ``received`` returned, and put them into ``pipeline.ready``.

        Raises:
            CorruptBatchError: A checksum is wrong; nothing of that batch was taken.
            ReplicationFault: A single record is larger than the target takes; or what the target holds is not in the
                source.
        """
        select = aborted
        if not isinstance(select, CommittedOnly):
            select = CommittedOnly(select if self.read_committed else ())
        following, merging = self._opened(batches, select), MergingBatches()
        self.has_gaps = False
        try:
            try:
                for batch in following:
                    if isinstance(batch, BatchRun):
                        merging.add(batch, self.process_offset)
                        self.process_offset = batch.next_offset
                        continue
                    if batch.next_offset <= self.process_offset:
                        select.copies(batch)
                        continue
                    verify(batch)
                    self._process(batch, merging, copied=select.copies(batch))
                    self.process_offset = batch.next_offset
            finally:
                self._merge(merging)
        except CleanedError:
            self._cleaned()
        except DeadLettersWaitError as waiting:
            # What came with them is looked at, too, if it follows them.
            later = single_batches(following) if waiting.batches[-1] is batch else ()
            self._await_dead_letters(chain(waiting.batches, _selected(later, select)))
        except SchemaIdsWaitError as waiting_for:
            self._await_schema_ids(waiting_for.waits)
        if 0 <= self.source_end <= self.process_offset:
            self._at_end()

    def _opened(
        self, batches: Iterable[RecordBatch | BatchRun], select: CommittedOnly
    ) -> Iterator[RecordBatch | BatchRun]:
        """The batches, one by one where they can't be merged as a run: by what holds when its turn has come."""
        for item in batches:
            if isinstance(item, BatchRun) and not (
                select.copies_all
                and item.base_offset >= self.process_offset
                and self._merges_here
                and not self.assignment.skip
            ):
                yield from iter_batches(item.view)
            else:
                yield item

    def _process(self, batch: RecordBatch, merging: MergingBatches, *, copied: bool) -> None:
        if not copied:
            if self.assignment.preserve_offsets:
                self._merge(merging)
            if not merging.skip_gap(batch):
                self._skip_gap(batch)
        elif self._is_merged(batch):
            merging.add(batch, self.process_offset)
        else:
            self._merge(merging)
            if self.position.known:
                self._take(batch, self.process_offset)
            else:
                self._realign(batch)

    def block(self, error: Exception) -> None:
        """Go on to this point and no further; what is queued is still sent."""
        self.blocked_by = error
        self._on(StateEvent.BATCH_UNUSABLE)

    def _at_end(self) -> None:
        if self.position.known and self.settled:
            self._recovered(Recovery.CAUGHT_UP)
        elif self.state is CopyState.REALIGNING:
            self._on(StateEvent.END_REACHED)

    def _take(self, batch: RecordBatch, position: int, up_to: int = NO_END) -> None:
        """Queue what lies at ``position`` or behind it, before ``up_to``.

        Where it is not known what a record's schema id becomes, what lies before that record alone.
        """
        queued_to = position
        singly = position < self._singly_to
        try:
            made = outgoing_batches(batch, position, self.assignment, self.transforms, singly=singly, up_to=up_to)
        except SchemaIdsWaitError as waiting:
            self._take(batch, position, waiting.waits.offset)
            self.process_offset = waiting.waits.offset
            raise
        for outgoing in made:
            outgoing.source_next = min(outgoing.source_next, up_to)
            self._queue(outgoing)
            queued_to = outgoing.source_next
        if queued_to < min(batch.next_offset, up_to):
            self._skip_gap(batch, up_to)

    @property
    def _merges_here(self) -> bool:
        position = self.process_offset
        return self.merge and self.position.known and position >= self._unmerged_to and position >= self._singly_to

    def _is_merged(self, batch: RecordBatch) -> bool:
        assignment, position = self.assignment, self.process_offset
        return (
            self._merges_here
            and not (assignment.preserve_offsets and batch.is_compacted)
            and is_merged(
                batch,
                position,
                assignment.max_message_bytes,
                assignment.compress_with,
                transformed=self.transforms is not None,
            )
            and not (assignment.skip and reaching_into(batch, position, assignment.skip))
        )

    def _merge(self, merging: MergingBatches) -> None:
        """Queue what waits to be merged; where that can't be, batch by batch, up to the one that is the cause."""
        batches, position, last = merging.take()
        if last is None:
            return
        several = len(batches) > 1 or any(isinstance(item, BatchRun) for item in batches)
        merged = self._merged(batches, position) if several else None
        if merged is None:
            self._take_each(list(single_batches(batches)), position)
        else:
            for outgoing in merged:
                self._queue(outgoing)
        self._skip_gap(last)
        self.process_offset = last.next_offset

    def _merged(self, batches: Sequence[RecordBatch | BatchRun], position: int) -> Sequence[OutgoingBatch] | None:
        """What becomes of batches together; None: one of them can't be taken as the others are."""
        try:
            merged = merged_batches(batches, position, self.assignment, self.transforms)
        except (CorruptBatchError, RecordTooLargeError, ReplicationFault, DeadLettersWaitError, SchemaIdsWaitError):
            return None
        gaps = any(len(outgoing.runs) > 1 for outgoing in merged)
        return None if gaps and self.assignment.preserve_offsets else merged

    def _take_each(self, batches: Sequence[RecordBatch], position: int) -> None:
        for number, batch in enumerate(batches):
            self.process_offset = position
            try:
                self._take(batch, position)
            except DeadLettersWaitError:
                raise DeadLettersWaitError(batches[number:]) from None
            position = batch.next_offset

    def _queue(self, outgoing: OutgoingBatch) -> None:
        assignment, newest, batch = self.assignment, self.pipeline.newest, outgoing.batch
        if newest is None:
            outgoing.target_offset, outgoing.sequence = self.acknowledged.target_offset, self.acknowledged.next_sequence
        else:
            outgoing.target_offset, outgoing.sequence = newest.target_offset + newest.count, newest.next_sequence
        if assignment.preserve_offsets:
            outgoing.behind_gap = outgoing.source_first > outgoing.target_offset
            self.has_gaps = self.has_gaps or outgoing.behind_gap
            outgoing.target_offset = outgoing.source_first
        sequence = outgoing.sequence if assignment.producer_id >= 0 else -1
        rewrite(batch, assignment.producer_id, assignment.producer_epoch, sequence)
        if self.tally is not None and not outgoing.uncompressed_bytes:
            outgoing.uncompressed_bytes = self.tally.sample(batch)
        self.pipeline.add(outgoing)

    def _skip_gap(self, batch: RecordBatch | BatchRun, up_to: int = NO_END) -> None:
        """Move the position over offsets without a record to copy, once what lies before them is acknowledged."""
        newest, next_offset = self.pipeline.newest, min(batch.next_offset, up_to)
        if newest is not None:
            if next_offset > newest.source_next:
                newest.source_next, newest.source_epoch = next_offset, batch.partition_leader_epoch
        elif self.position.known:
            self.position.skip_gap(next_offset, batch.partition_leader_epoch)
            if self.tally is not None:
                self.tally.passed(self.acknowledged.source_offset)

    def _realign(self, batch: RecordBatch) -> None:
        """Pass over what the target holds of a batch, and take what lies behind that."""
        if not self.position.passed(batch, self.process_offset):
            return
        self._position_found()
        self._on(StateEvent.REALIGNED)
        position = self.acknowledged.source_offset
        if position < batch.next_offset:
            # Should the batch wait for dead letters, it is fetched again and taken from here on.
            self.process_offset = max(self.process_offset, position)
            self._take(batch, position)

    def _cleaned(self) -> None:
        """Read the target again, for the source is not what was copied; at least once: copy all of it again."""
        self.position.cleaned(transformed=self.transforms is not None)
        if self.position.known:
            self._begin()
            self._fetch_from(self.acknowledged)
            self._on(StateEvent.REALIGNED)
        else:
            self._on(StateEvent.CLEANED)

    # ---- the source's leader

    def out_of_range(self) -> None:
        """The source does not have ``fetch_offset``."""
        self._on(StateEvent.OUT_OF_RANGE)

    @property
    def asks_source(self) -> bool:
        """Whether the source's leader is to be asked now for ``source_bounds``."""
        return self.state is CopyState.ASKING_SOURCE and self.settled

    def source_bounds(self, start: int, end: int, stable_end: int) -> None:
        """Go on within the source's log from ``start`` to ``end``; what may be copied ends at ``stable_end``.

        Raises:
            ReplicationFault: The position lies outside, or what the target holds is not in the source.
        """
        try:
            position = self.position.within(self.fetch_offset, start, end)
            if position > self.fetch_offset:
                self.fetch_offset = self.process_offset = position
            elif not self.position.known and self.process_offset >= stable_end:
                self._source_ended()
                return
        except CleanedError:
            self._cleaned()
        else:
            self._on(StateEvent.BOUNDS_FIT if self.position.known else StateEvent.BOUNDS_FIT_TO_REALIGN)

    def _source_ended(self) -> None:
        self.position.passed_all(self.process_offset, self.fetch_epoch)
        self._position_found()
        passed_over = self.acknowledged.source_offset < self.process_offset
        self._on(StateEvent.FETCH_AGAIN if passed_over else StateEvent.REALIGNED)

    def diverged(self, end: int) -> None:
        """From ``end`` on the source's log is another one than what was read; what is buffered of it must be dropped.

        Raises:
            ReplicationFault: What was copied is not in the source any more.
        """
        if self.settled and self.fetch_offset == self.acknowledged.source_offset:
            raise ReplicationFault(self.position.source_truncated(self.fetch_offset, end))

    def leader_moved(self) -> None:
        """Another broker is to be fetched from."""
        self._on(StateEvent.LEADER_MOVED)


def _selected(batches: Iterable[RecordBatch], select: CommittedOnly) -> Iterator[RecordBatch]:
    for batch in batches:
        verify(batch)
        if select.copies(batch):
            yield batch
