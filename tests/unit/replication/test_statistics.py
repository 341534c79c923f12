"""What acknowledgements add up to. Against a target that fails, see ``test_partition_model``."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.records.batch import CODECS, Codec, RecordBatch
from mirror_ray.records.repack import compress_batch
from mirror_ray.records.statistics import PartitionStatistics, latency_bucket
from mirror_ray.replication.outgoing_batch import OutgoingBatch
from mirror_ray.replication.statistics import StatisticsInterval, StatisticsTally, boundaries_ms, statistics_of
from tests.support.batches import batch
from tests.support.factories import assignment, outgoing_batch, parsed

MINUTE_MS = 60_000
#: A full hour.
HOUR_MS = 1_800_000_000_000 // 3_600_000 * 3_600_000

BATCHES = st.lists(
    st.tuples(
        st.integers(0, 20_000),  # ms after the one before
        st.integers(1, 50),  # records
        st.integers(61, 5000),  # bytes
        st.integers(-5_000, 10_000_000),  # ms from its newest record to its acknowledgement
    ),
    max_size=60,
)


class Life:
    """An assignment whose batches are acknowledged one by one."""

    def __init__(self, interval_ms: int = MINUTE_MS, *, now_ms: int = HOUR_MS, start: int = 0) -> None:
        self.now_ms = now_ms
        self.next = start
        self.tally = StatisticsTally(interval_ms, lambda: self.now_ms)
        self.tally.begin(OffsetPair(start, start), restarted=False)

    def batch(self, records: int = 1, size: int = 100, latency_ms: int = 5, codec: int = 0, unpacked: int = 0) -> None:
        """One more is acknowledged."""
        self.tally.acknowledged([self.outgoing(records, size, latency_ms, codec, unpacked)])

    def outgoing(self, records: int, size: int, latency_ms: int, codec: int = 0, unpacked: int = 0) -> OutgoingBatch:
        """The next one."""
        first, self.next = self.next, self.next + records
        batch = outgoing_batch(first, records, size_bytes=size, codec=codec, max_timestamp=self.now_ms - latency_ms)
        batch.uncompressed_bytes = unpacked
        return batch


@given(now_ms=st.integers(0, 2**42), interval_ms=st.integers(1, 3_600_000))
def test_no_interval_crosses_a_boundary(now_ms: int, interval_ms: int) -> None:
    """Not of its own length, nor a full minute, or hour."""
    begin, end = boundaries_ms(now_ms, interval_ms)
    assert begin <= now_ms < end
    assert end - begin <= interval_ms
    for length_ms in (interval_ms, MINUTE_MS if interval_ms <= MINUTE_MS else 3_600_000):
        assert begin // length_ms == (end - 1) // length_ms
    assert boundaries_ms(begin, interval_ms) == boundaries_ms(end - 1, interval_ms) == (begin, end)
    assert boundaries_ms(end, interval_ms)[0] == end


@given(batches=BATCHES, interval_ms=st.sampled_from((1000, 7000, MINUTE_MS, 100_000)), ticks=st.booleans())
def test_sums_are_those_of_the_batches(batches: list[tuple[int, int, int, int]], interval_ms: int, ticks: bool) -> None:
    """However time is cut, and whether or not somebody looks in between."""
    life = Life(interval_ms)
    told: list[StatisticsInterval] = []
    for after_ms, records, size, latency_ms in batches:
        life.now_ms += after_ms
        life.batch(records, size, latency_ms)
        if ticks:
            told += life.tally.take()
    told += life.tally.take(ended=True)
    assert life.tally.take(ended=True) == []
    assert sum(row.records for row in told) == sum(records for _, records, _, _ in batches)
    assert sum(row.batches for row in told) == len(batches)
    assert sum(row.wire_bytes for row in told) == sum(size for _, _, size, _ in batches)
    histogram, found = Counter[int](), Counter[int]()
    for _, records, _, latency_ms in batches:
        histogram[latency_bucket(latency_ms)] += records
    for row in told:
        assert sum(row.latency_ms.values()) == row.records == row.target_to - row.target_from
        begin, end = boundaries_ms(row.from_ms, interval_ms)
        assert begin <= row.from_ms <= row.to_ms <= end
        found.update(row.latency_ms)
    assert found == histogram
    for before, after in pairwise(told):
        assert (before.target_to, before.source_to) == (after.target_from, after.source_from)
        assert before.to_ms <= after.from_ms


@given(batches=BATCHES, ends=st.sets(st.integers(0, 60)), shared=st.booleans(), lag=st.sampled_from((0, 1000)))
def test_what_comes_after_the_end_is_told_once(
    batches: list[tuple[int, int, int, int]], ends: set[int], shared: bool, lag: int
) -> None:
    """Answers that arrive while the last intervals are being published, however often they are asked for."""
    life = Life()
    life.tally = StatisticsTally(MINUTE_MS, lambda: life.now_ms, shared=shared)
    life.tally.begin(OffsetPair(0, 0), restarted=False)
    life.tally.saw(1_000_000 + lag)
    told: list[StatisticsInterval] = []
    for number, (after_ms, records, size, latency_ms) in enumerate(batches):
        life.now_ms += after_ms
        life.batch(records, size, latency_ms)
        if number in ends:
            told += life.tally.take(ended=True)
            assert life.tally.take(ended=True) == []
    told += life.tally.take(ended=True)
    assert sum(row.records for row in told) == sum(records for _, records, _, _ in batches)
    assert sum(row.wire_bytes for row in told) == sum(size for _, _, size, _ in batches)
    for before, after in pairwise(told):
        assert before.target_to == after.target_from
        assert before.to_ms <= after.from_ms


def test_what_nobody_takes_is_bounded() -> None:
    """The oldest intervals are given up."""
    life = Life()
    for _ in range(10_000):
        life.batch()
        life.now_ms += MINUTE_MS
    told = life.tally.take(ended=True)
    assert 0 < len(told) < 1000
    assert told[-1].target_to == 10_000


def test_an_idle_partition_tells_nothing_but_its_beginning() -> None:
    """One record says where it began; an hour of nothing none."""
    life = Life()
    told: list[StatisticsInterval] = []
    for _ in range(60):
        life.now_ms += MINUTE_MS
        told += life.tally.take()
    assert [(row.first, row.records, row.from_ms, row.to_ms) for row in told] == [
        (True, 0, HOUR_MS, HOUR_MS + MINUTE_MS)
    ]
    assert told[0].lag_records is None
    life.batch()
    (one,) = life.tally.take(ended=True)
    assert (one.from_ms, one.first, one.records) == (HOUR_MS + 60 * MINUTE_MS, False, 1)


def test_a_partition_that_lags_tells_it() -> None:
    """Though nothing is copied; the time is that since the newest record that was; the largest lag is kept."""
    life = Life()
    life.tally.saw(500)
    life.batch(records=10, latency_ms=1000)
    life.tally.saw(30)
    life.now_ms += MINUTE_MS
    (first,) = life.tally.take()
    assert (first.lag_records, first.lag_records_max) == (20, 500)
    assert first.lag_ms == first.to_ms - (HOUR_MS - 1000)
    life.now_ms += MINUTE_MS
    (second,) = life.tally.take()
    assert (second.records, second.lag_records, second.lag_records_max) == (0, 20, 20)
    assert second.lag_ms == MINUTE_MS + (first.lag_ms or 0)
    life.tally.passed(30)
    (third,) = life.tally.take(ended=True)
    assert (third.lag_records, third.lag_ms, third.source_to, third.target_to) == (0, 0, 30, 10)


def test_restarts_are_counted_but_for_the_first_beginning() -> None:
    """Whether or not anything else happened."""
    life = Life()
    life.now_ms += MINUTE_MS
    life.tally.begin(OffsetPair(0, 0), restarted=True)
    life.tally.begin(OffsetPair(0, 0), restarted=False)
    life.tally.begin(OffsetPair(0, 0), restarted=True)
    first, second = life.tally.take(ended=True)
    assert (first.restarts, second.restarts) == (0, 2)


def test_what_was_not_counted_is_a_gap() -> None:
    """Where the copy goes on further than it was known to be, and where a batch lies further on."""
    life = Life(start=100)
    life.batch(records=10)
    life.tally.begin(OffsetPair(125, 125), restarted=True)
    life.next = 125
    life.batch(records=5)
    life.next = 140
    life.batch(records=1)
    told = life.tally.take(ended=True)
    rows = [(row.target_from, row.target_to, row.records) for row in told]
    assert rows == [(100, 110, 10), (125, 130, 5), (140, 141, 1)]


def test_others_records_in_a_shared_topic_are_no_gap() -> None:
    """They come between ours all the time."""
    life = Life()
    life.tally = StatisticsTally(MINUTE_MS, lambda: life.now_ms, shared=True)
    life.tally.begin(OffsetPair(0, 0), restarted=False)
    life.batch(records=10)
    life.next = 50
    life.batch(records=10)
    life.tally.begin(OffsetPair(60, 90), restarted=False)
    (told,) = life.tally.take(ended=True)
    assert (told.records, told.target_from, told.target_to, told.source_to) == (20, 0, 90, 60)


def test_a_clock_that_is_set_back_leaves_whole_intervals() -> None:
    """None crosses a boundary, and no record is lost."""
    life = Life(now_ms=HOUR_MS + 30_000)
    life.batch(records=2)
    life.now_ms -= 3_600_000
    life.batch(records=3)
    told = life.tally.take(ended=True)
    assert [row.records for row in told] == [2, 3]
    assert all(row.from_ms <= row.to_ms for row in told)
    assert told[1].from_ms == HOUR_MS - 3_600_000


def _compressed(codec: Codec, values: int = 500) -> tuple[RecordBatch, int]:
    plain = parsed(batch(0, [(n, b"value" * 10) for n in range(values)]))
    return (plain if codec == "none" else compress_batch(plain, codec)), plain.size_bytes


@pytest.mark.parametrize("codec", CODECS)
def test_one_compressed_batch_an_interval_is_a_sample(codec: Codec) -> None:
    """What it would take without compression; uncompressed ones are all known."""
    life = Life()
    data, size = _compressed(codec)
    unpacked = [life.tally.sample(data) for _ in range(3)]
    assert unpacked == ([size] * 3 if codec == "none" else [size, 0, 0])
    for row in unpacked:
        life.batch(500, data.size_bytes, codec=CODECS.index(codec), unpacked=row)
    life.now_ms += MINUTE_MS
    (told,) = life.tally.take()
    known = sum(map(bool, unpacked))
    assert told.sampled_wire_bytes == known * data.size_bytes
    assert told.sampled_uncompressed_bytes == known * size
    assert told.wire_bytes == 3 * data.size_bytes
    assert told.codec == CODECS.index(codec)
    assert life.tally.compression == size / data.size_bytes
    assert life.tally.sample(data) == size


def test_a_sample_that_is_not_granted_is_taken_later() -> None:
    """The flow's other partitions had theirs: of this one the next batch is asked for again."""
    granted = [False, True]
    tally = StatisticsTally(MINUTE_MS, lambda: HOUR_MS, may_sample=lambda: granted.pop(0))
    tally.begin(OffsetPair(0, 0), restarted=False)
    data, size = _compressed("zstd")
    assert [tally.sample(data) for _ in range(3)] == [0, size, 0]
    assert not granted


def test_what_does_not_unpack_is_no_sample() -> None:
    """Whatever is in it, whoever wrote it: rotten, of a codec that is not known, or very large."""
    data, _ = _compressed("zstd")
    rotten = data._replace(view=memoryview(bytes(len(data.view))))
    unknown = data._replace(attributes=7)
    large, _ = _compressed("lz4", 400_000)
    for record in (rotten, unknown, large):
        assert Life().tally.sample(record) == 0
    life = Life()
    life.batch(codec=7)
    assert statistics_of(_ASSIGNMENT, "r-0", life.tally.take(ended=True)[0]).codec is None


_ASSIGNMENT = assignment(partition=3, epoch=7, shared=True)


def test_an_interval_is_told_with_all_its_fields() -> None:
    """Every one of it, and the assignment's names."""
    life = Life()
    life.tally.saw(100)
    life.batch(5, 300, 12, codec=4, unpacked=900)
    (interval,) = life.tally.take(ended=True)
    told = statistics_of(_ASSIGNMENT, "r-0", interval)
    own = {field.name for field in fields(StatisticsInterval)} - {"first", "codec"}
    assert {name: getattr(told, name) for name in own} == {name: getattr(interval, name) for name in own}
    assert told == PartitionStatistics.model_validate_json(told.encode()[1])
    assert (told.flow, told.topic, told.partition, told.target_topic) == ("A->B", "t", 3, "A.t")
    assert (told.source_topic_id, told.target_topic_id, told.epoch) == ("s", "r", 7)
    assert (told.shared, told.replicator, told.codec, told.latency_ms) == (True, "r-0", "zstd", {13: 5})


def test_a_lag_that_comes_to_be_known_is_told_once() -> None:
    """Where no fetch came in the first interval and nothing happens after it, the lag would stay unknown for ever."""
    life = Life()
    life.now_ms += MINUTE_MS
    assert [row.lag_records for row in life.tally.take()] == [None]
    life.tally.saw(0)
    for expected in ([0], [], []):
        life.now_ms += MINUTE_MS
        assert [row.lag_records for row in life.tally.take()] == expected
