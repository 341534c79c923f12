"""Finds the cut of a partition: the offset pair behind the last record that both sides have.

A pair that is settled is the cut. Of another one, what the flow had written behind it is read on the target, and found
again on the source, record by record.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.partition_reader import read_between
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS, OffsetPair
from mirror_ray.offsets.translation import ReadableBounds
from mirror_ray.records.decode import DecodedRecord
from mirror_ray.records.filler import is_filler
from mirror_ray.replication.target_log import TargetContents, content_of
from mirror_ray.reversal.cut import DivergedRecords
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.verification.partition_log import PartitionLog, RemovedError


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCut:
    """The cut, or why it can't be told, and what only the source has."""

    pair: OffsetPair | None
    diverged: DivergedRecords = field(default_factory=DivergedRecords)
    why: str = ""


class _Written(NamedTuple):
    """What a flow wrote behind a pair, and the target offset behind that."""

    contents: TargetContents
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CutReader:
    """Reads both sides of one partition."""

    source: PartitionLog
    source_range: ReadableBounds
    target: ClusterConnections
    remote: TopicPartition
    remote_id: TopicId
    target_range: ReadableBounds
    record: PartitionRecord
    #: Of the flow, or of the partition alone.
    producer_id: int

    async def find(self) -> FoundCut:
        """Find the cut.

        Raises:
            MirrorError: One side can't be read.
        """
        record = self.record
        if self.target_range.end < record.target_offset:
            lost = record.target_offset - self.target_range.end
            return FoundCut(pair=None, why=f"the target has lost {lost} offsets that were copied")
        if record.source_offset > self.source_range.end:
            return FoundCut(pair=record.pair)
        written = _Written(TargetContents(), record.target_offset) if record.settled else await self._written()
        try:
            return await self._found(written)
        except RemovedError as error:
            why = f"the source begins at {error.start}, behind {record.source_offset}, where copying was left off"
            return FoundCut(pair=None, why=why)

    async def _written(self) -> _Written:
        """What the flow wrote behind the pair, up to where others began."""
        record, contents, end = self.record, TargetContents(), self.record.target_offset
        begin = max(end, self.target_range.start)
        batches = read_between(
            self.target, self.remote, self.remote_id, begin, self.target_range.end, purpose="reversal"
        )
        async for fetched, _ in batches:
            for batch in fetched:
                if batch.producer_id == self.producer_id and batch.next_offset > record.target_offset:
                    contents.add(batch)
                    end = batch.next_offset
                elif record.preserve_offsets and (batch.is_control or is_filler(batch)):
                    end = max(end, batch.next_offset)
                elif record.preserve_offsets or not batch.is_control:
                    return _Written(contents, end)
        return _Written(contents, end)

    async def _found(self, written: _Written) -> FoundCut:
        """Pass over what was written, and read what is left."""
        begin, wanted, timed = self.record.source_offset, written.contents.records, written.contents.timed
        passed, position, diverged = 0, begin, DivergedRecords()
        async for records in self._source_records():
            rest = records
            if passed < len(wanted):
                known = records[: len(wanted) - passed]
                if [content_of(record, timed=timed) for record in known] != wanted[passed : passed + len(known)]:
                    return FoundCut(pair=None, why=f"behind {position} it holds other records than were copied")
                passed += len(known)
                position, rest = known[-1].offset + 1, records[len(known) :]
            diverged = diverged.followed_by(rest)
        if passed < len(wanted):
            return FoundCut(pair=None, why=f"{len(wanted) - passed} records are missing that were copied")
        return FoundCut(pair=self._pair(position, written.end, passed), diverged=diverged)

    async def _source_records(self) -> AsyncIterator[list[DecodedRecord]]:
        begin = self.record.source_offset
        if begin < self.source_range.start:
            raise RemovedError(self.source_range.start)
        async for records in self.source.records(begin, self.source_range.end):
            if records:
                yield records

    def _pair(self, position: int, end: int, records: int) -> OffsetPair:
        pair = self.record.pair
        if not records and end == pair.target_offset:
            return pair
        if self.record.preserve_offsets:
            # Up to there each offset is the same.
            position = max(position, min(end, self.source_range.end))
        sequence = (pair.next_sequence + records) % SEQUENCE_MODULUS
        return replace(pair, source_offset=position, target_offset=end, sequence=sequence, source_epoch=-1)
