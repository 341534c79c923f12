"""What a partition has acknowledged, added up interval by interval.

Everything here runs once per batch at most. An interval ends at the next multiple of its length, and at each full
minute (each full hour, where it is longer than a minute), so that minutes and hours are sums of whole intervals.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from mirror_ray.model.assignment import Assignment
from mirror_ray.model.errors import CorruptBatchError
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.records.batch import CODEC_MASK, CODECS, HEADER_BYTES, RecordBatch
from mirror_ray.records.codecs import decompress
from mirror_ray.records.statistics import PartitionStatistics, latency_bucket
from mirror_ray.replication.outgoing_batch import OutgoingBatch

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
#: Larger batches, and those that unpack to more, are no sample: one holds up the loop for some milliseconds at most.
_SAMPLE_BYTES: Final = 1 << 20
_UNPACKED_BYTES: Final = 8 << 20
#: Intervals that are over and were not taken, about 1 KB each. Beyond, the oldest are given up: a reader sees that.
_CLOSED: Final = 256


def boundaries_ms(now_ms: int, interval_ms: int) -> tuple[int, int]:
    """Return begin and end of the interval that holds ``now_ms``."""
    whole_ms = _MINUTE_MS if interval_ms <= _MINUTE_MS else _HOUR_MS
    begin = max(now_ms // interval_ms * interval_ms, now_ms // whole_ms * whole_ms)
    end = min((now_ms // interval_ms + 1) * interval_ms, (now_ms // whole_ms + 1) * whole_ms)
    return begin, end


@dataclass(slots=True)
class StatisticsInterval:
    """Fields as in ``PartitionStatistics``."""

    from_ms: int
    #: Where it ends at the latest.
    to_ms: int
    source_from: int
    target_from: int
    source_to: int = -1
    target_to: int = -1
    records: int = 0
    batches: int = 0
    wire_bytes: int = 0
    source_bytes: int = 0
    sampled_wire_bytes: int = 0
    sampled_uncompressed_bytes: int = 0
    #: Of the last batch; -1: there was none.
    codec: int = -1
    latency_ms: dict[int, int] = field(default_factory=dict)
    lag_records: int | None = None
    lag_ms: int | None = None
    lag_records_max: int | None = None
    restarts: int = 0
    #: An assignment's first.
    first: bool = False

    @property
    def moved(self) -> bool:
        """Whether the copy did."""
        return self.records > 0 or self.source_to != self.source_from

    @property
    def tells(self) -> bool:
        """Whether anything happened."""
        return self.first or self.moved or self.restarts > 0 or bool(self.lag_records)


class StatisticsTally:
    """Counts for one assignment, from ``begin`` on; ``now_ms()`` is the wall clock; ``may_sample()`` grants a sample.

    Guarantees: every acknowledged batch is in one interval, also one that comes after the end; intervals follow each
    other, and where one does not begin at the target offset at which the one before ended, what lies between was not
    counted here.
    """

    __slots__ = (
        "_begun",
        "_closed",
        "_ended",
        "_interval_ms",
        "_lag_told",
        "_last_timestamp_ms",
        "_may_sample",
        "_now_ms",
        "_open",
        "_sampled",
        "_shared",
        "_source",
        "_source_end",
        "_target",
        "_unpacked_bytes",
        "_wire_bytes",
    )

    def __init__(
        self,
        interval_ms: int,
        now_ms: Callable[[], int],
        *,
        shared: bool = False,
        may_sample: Callable[[], bool] = lambda: True,
    ) -> None:
        self._interval_ms, self._now_ms, self._shared, self._may_sample = interval_ms, now_ms, shared, may_sample
        self._closed: deque[StatisticsInterval] = deque(maxlen=_CLOSED)
        self._begun = self._ended = self._sampled = self._lag_told = False
        self._source = self._target = self._source_end = self._last_timestamp_ms = -1
        self._wire_bytes = self._unpacked_bytes = 0
        self._open = StatisticsInterval(0, 0, -1, -1)

    def begin(self, pair: OffsetPair, *, restarted: bool) -> None:
        """Go on from ``pair``; ``restarted``: after something went wrong."""
        now_ms = self._now_ms()
        if not self._begun:
            self._source, self._target = pair.source_offset, pair.target_offset
            self._open = self._new(now_ms, boundaries_ms(now_ms, self._interval_ms)[1])
            self._begun = self._open.first = True
            return
        interval = self._turned(now_ms)
        if pair.target_offset != self._target and not self._shared:
            interval = self._jumped(now_ms, pair.source_offset, pair.target_offset)
        self._source, self._target = pair.source_offset, pair.target_offset
        interval.restarts += restarted

    def acknowledged(self, batches: Iterable[OutgoingBatch]) -> None:
        """Count batches that the target has, in order."""
        now_ms = self._now_ms()
        interval = self._turned(now_ms)
        for done in batches:
            count, size, target = done.count, done.size_bytes, done.target_offset
            if target != self._target and not self._shared:
                interval = self._jumped(now_ms, done.source_first, target)
            interval.records += count
            interval.batches += 1
            interval.wire_bytes += size
            interval.source_bytes += done.source_bytes
            if done.uncompressed_bytes:
                interval.sampled_wire_bytes += size
                interval.sampled_uncompressed_bytes += done.uncompressed_bytes
                self._wire_bytes += size
                self._unpacked_bytes += done.uncompressed_bytes
            interval.codec = done.codec
            newest_ms, histogram = done.max_timestamp, interval.latency_ms
            for newest_of_age_ms, records in done.ages:
                bucket = latency_bucket(now_ms - newest_of_age_ms)
                histogram[bucket] = histogram.get(bucket, 0) + records
            self._source, self._target = done.source_next, target + count
            self._last_timestamp_ms = max(self._last_timestamp_ms, newest_ms)

    def passed(self, source_offset: int) -> None:
        """Move over source offsets without a record to copy."""
        self._source = source_offset

    def saw(self, source_end: int) -> None:
        """Note where the source ends."""
        self._source_end = source_end
        self._lags(self._open)

    def sample(self, batch: RecordBatch) -> int:
        """Bytes of a batch that is about to be sent if it were not compressed; 0 where that is not looked at.

        Of compressed ones it is, once in an interval at most.
        """
        codec = batch.attributes & CODEC_MASK
        if not codec:
            return batch.size_bytes
        if self._sampled or codec >= len(CODECS) or batch.size_bytes > _SAMPLE_BYTES or not self._may_sample():
            return 0
        self._sampled = True
        try:
            return HEADER_BYTES + len(decompress(CODECS[codec], batch.view[HEADER_BYTES:], _UNPACKED_BYTES))
        except CorruptBatchError:
            return 0

    @property
    def compression(self) -> float | None:
        """Bytes before compression for each byte on the wire, of the samples since the assignment; None: no sample."""
        return self._unpacked_bytes / self._wire_bytes if self._wire_bytes else None

    def take(self, *, ended: bool = False) -> list[StatisticsInterval]:
        """The intervals that are over and in which something happened, or that are the first to know the lag.

        ``ended``: also the one that is open, for nothing more is expected. What is acknowledged all the same is in the
        next ones, of which only those are returned in which the position moved.
        """
        if self._begun:
            now_ms = self._now_ms()
            interval = self._turned(now_ms)
            if ended:
                end_ms = interval.to_ms
                self._close(interval, now_ms)
                self._open = self._new(now_ms, end_ms)
                self._ended = True
        taken = list(self._closed)
        self._closed.clear()
        return taken

    def _turned(self, now_ms: int) -> StatisticsInterval:
        """The open interval; a new one where that is over."""
        interval = self._open
        if interval.from_ms <= now_ms < interval.to_ms:
            return interval
        self._close(interval, now_ms)
        self._open = self._new(*boundaries_ms(now_ms, self._interval_ms))
        self._sampled = False
        return self._open

    def _jumped(self, now_ms: int, source: int, target: int) -> StatisticsInterval:
        """Begin an interval, for the target holds more than was counted: the gap must show between two intervals."""
        end_ms = self._open.to_ms
        self._close(self._open, now_ms)
        self._source, self._target = source, target
        self._open = self._new(now_ms, end_ms)
        return self._open

    def _new(self, from_ms: int, to_ms: int) -> StatisticsInterval:
        interval = StatisticsInterval(from_ms, to_ms, self._source, self._target)
        self._lags(interval)
        return interval

    def _close(self, interval: StatisticsInterval, now_ms: int) -> None:
        interval.to_ms = min(max(now_ms, interval.from_ms), interval.to_ms)
        interval.source_to, interval.target_to = self._source, self._target
        lag = interval.lag_records = self._lag()
        if lag == 0:
            interval.lag_ms = 0
        elif lag is not None and self._last_timestamp_ms >= 0:
            interval.lag_ms = max(0, interval.to_ms - self._last_timestamp_ms)
        news = interval.tells or (lag is not None and not self._lag_told)
        if interval.moved or (news and not self._ended):
            self._closed.append(interval)
            self._lag_told = self._lag_told or lag is not None

    def _lag(self) -> int | None:
        return max(0, self._source_end - self._source) if self._source_end >= 0 else None

    def _lags(self, interval: StatisticsInterval) -> None:
        lag = self._lag()
        if lag is not None and (interval.lag_records_max is None or lag > interval.lag_records_max):
            interval.lag_records_max = lag


def statistics_of(assignment: Assignment, replicator: str, interval: StatisticsInterval) -> PartitionStatistics:
    """Make the record of an interval that is over."""
    return PartitionStatistics(
        flow=str(assignment.partition.flow),
        topic=assignment.partition.topic,
        partition=assignment.partition.partition,
        target_topic=assignment.target.topic,
        target_partition=assignment.target.partition,
        source_topic_id=assignment.source_topic_id,
        target_topic_id=assignment.target_topic_id,
        shared=assignment.shared,
        replicator=replicator,
        epoch=assignment.epoch,
        from_ms=interval.from_ms,
        to_ms=interval.to_ms,
        source_from=interval.source_from,
        source_to=interval.source_to,
        target_from=interval.target_from,
        target_to=interval.target_to,
        records=interval.records,
        batches=interval.batches,
        wire_bytes=interval.wire_bytes,
        source_bytes=interval.source_bytes,
        sampled_wire_bytes=interval.sampled_wire_bytes,
        sampled_uncompressed_bytes=interval.sampled_uncompressed_bytes,
        codec=CODECS[interval.codec] if 0 <= interval.codec < len(CODECS) else None,
        latency_ms=interval.latency_ms,
        lag_records=interval.lag_records,
        lag_ms=interval.lag_ms,
        lag_records_max=interval.lag_records_max,
        restarts=interval.restarts,
    )
