"""Small batches of a partition that wait together become one: which, how, and what becomes of it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.errors import CorruptBatchError
from mirror_ray.model.latency import LatencyCounter
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.records.batch import iter_batches, verify
from mirror_ray.records.decode import records_of
from mirror_ray.replication import merge_rules
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.outgoing_batch import OutgoingBatch
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.statistics import StatisticsTally
from mirror_ray.replication.target_log import TargetLog
from tests.support import batches
from tests.support.factories import assignment, establish, fetched, parsed, replication, with_codec
from tests.support.kernels import needs_kernel

pytestmark = needs_kernel

ASSIGNMENT = assignment(anchor=OffsetPair(0, 0))
ONE = batches.batch(0, [(0, b"a"), (1, b"b")])
TWO = batches.batch(2, [(0, b"c"), (1, b"d")])
THREE = batches.batch(4, [(0, b"e"), (1, b"f")])
LARGE = batches.batch(4, [(0, bytes(merge_rules.LARGEST_SMALL_BYTES["none"]))])
COMMIT = batches.marker(6, 7, commit=True)


def merging(*found: bytes, **changes: object) -> PartitionReplication:
    """A copy that stands at its anchor and merges, with these batches of the source taken; ``changes`` are fields."""
    assigned = replace(ASSIGNMENT, **changes)  # type: ignore[arg-type]
    copy = replication(assigned, merge=True)
    establish(copy, TargetLog(end=assigned.anchor.target_offset))
    fetched(copy, *found)
    return copy


def of_epoch(batch: bytes, epoch: int) -> bytes:
    """The batch as a leader of that epoch appended it."""
    return batch[:12] + struct.pack(">i", epoch) + batch[16:]


def values(outgoing: Sequence[OutgoingBatch]) -> list[list[bytes | None]]:
    """What is sent, batch by batch; each is one that a broker takes."""
    for batch in outgoing:
        verify(parsed(batch.batch.view))
    return [[record.value for record in records_of(parsed(batch.batch.view))] for batch in outgoing]


def ready(copy: PartitionReplication) -> list[OutgoingBatch]:
    """What is to be sent."""
    return list(copy.pipeline.ready)


def test_what_waits_together_becomes_one_batch() -> None:
    """Its sequence and target offset are those of the first; once it is acknowledged, all of them are."""
    copy = merging(ONE, TWO, THREE)
    (merged,) = ready(copy)
    assert values([merged]) == [[b"a", b"b", b"c", b"d", b"e", b"f"]]
    assert (merged.source_first, merged.source_next, merged.runs) == (0, 6, ((0, 6),))
    assert (merged.target_offset, merged.sequence, merged.next_sequence) == (0, 0, 6)
    assert (merged.source_bytes, merged.merged) == (sum(map(len, (ONE, TWO, THREE))), True)
    fetched(copy, batches.batch(6, [(0, b"g")]))
    assert [batch.sequence for batch in ready(copy)] == [0, 6]


def test_one_alone_is_passed_on_as_it_is() -> None:
    """There is nothing to merge it with, and nothing waits for more."""
    (alone,) = ready(merging(ONE))
    assert bytes(alone.batch.view[61:]) == ONE[61:]
    assert not alone.merged


def test_nothing_is_merged_where_that_is_off() -> None:
    """By the flow's setting, or without the kernel."""
    copy = replication(ASSIGNMENT)
    establish(copy, TargetLog(end=0))
    fetched(copy, ONE, TWO)
    assert [batch.count for batch in ready(copy)] == [2, 2]


def test_a_large_batch_between_small_ones_stays_itself() -> None:
    """And the order is the source's."""
    found = ready(merging(ONE, TWO, LARGE, batches.batch(5, [(0, b"g")]), batches.batch(6, [(0, b"h")])))
    assert [(batch.source_first, batch.source_next, batch.merged) for batch in found] == [
        (0, 4, True),
        (4, 5, False),
        (5, 7, True),
    ]


def test_markers_and_aborted_batches_among_them_are_left_out() -> None:
    """Their offsets are gaps, and the position moves over those at the end, too."""
    aborted = batches.batch(4, [(0, b"x"), (1, b"y")], producer_id=7, attributes=0x10)
    copy = replication(ASSIGNMENT, merge=True)
    establish(copy, TargetLog(end=0))
    end = batches.batch(7, [(0, b"z")])
    rollback = batches.marker(6, 7, commit=False)
    last = batches.marker(8, 8, commit=True)
    fetched(copy, ONE, TWO, aborted, rollback, end, last, aborted=[(7, 4)])
    (merged,) = ready(copy)
    assert values([merged]) == [[b"a", b"b", b"c", b"d", b"z"]]
    assert (merged.runs, merged.source_next) == (((0, 4), (7, 1)), 9)


def test_compacted_batches_and_append_times_are_merged_too() -> None:
    """Each record has the timestamp that consumers of the source see."""
    holes = batches.batch(0, [(1, b"b"), (4, b"e")], 5, timestamp=5)
    appended = batches.batch(6, [(0, b"g")], attributes=0x08, timestamp=9)
    (merged,) = ready(merging(holes, appended))
    decoded = records_of(parsed(merged.batch.view))
    assert [(record.timestamp, record.value) for record in decoded] == [(5, b"b"), (5, b"e"), (9, b"g")]
    assert (merged.runs, merged.source_next, merged.batch.attributes) == (((1, 1), (4, 1), (6, 1)), 7, 0)


def test_what_lies_before_the_position_is_left_out() -> None:
    """The target has it."""
    assert values(ready(merging(ONE, TWO, anchor=OffsetPair(1, 1)))) == [[b"b"], [b"c", b"d"]]
    holes = batches.batch(0, [(0, b"a"), (2, b"c")], 3)
    assert values(ready(merging(holes, batches.batch(4, [(0, b"e")]), anchor=OffsetPair(1, 1)))) == [[b"c"], [b"e"]]
    appended = batches.batch(0, [(0, b"a"), (1, b"b")], attributes=0x08)
    assert values(ready(merging(appended, TWO, anchor=OffsetPair(1, 1)))) == [[b"b", b"c", b"d"]]


def test_batches_with_records_to_skip_are_not_merged() -> None:
    """An operator let the copy leave them out."""
    found = ready(merging(ONE, TWO, THREE, skip=((3, 4),)))
    assert values(found) == [[b"a", b"b"], [b"c"], [b"e", b"f"]]


def test_a_damaged_batch_is_not_taken_and_those_before_it_are() -> None:
    """The copy goes on to that point and no further."""
    copy = replication(ASSIGNMENT, merge=True)
    establish(copy, TargetLog(end=0))
    rotten = THREE[:-1] + bytes([THREE[-1] ^ 1])
    with pytest.raises(CorruptBatchError, match="CRC-32C"):
        fetched(copy, ONE, TWO, rotten)
    assert values(ready(copy)) == [[b"a", b"b", b"c", b"d"]]
    assert copy.process_offset == 4


def test_what_can_not_be_decoded_is_passed_on_as_it_is() -> None:
    """As it is without merging: a broker does not look into batches that are compressed."""
    payload = b"no records"
    opaque = batches.sealed(2, payload, 0, 1, -1, 0, 5)
    found = ready(merging(ONE, opaque, batches.batch(3, [(0, b"d")])))
    assert [(batch.source_first, batch.merged) for batch in found] == [(0, False), (2, False), (3, False)]
    assert bytes(found[1].batch.view[61:]) == payload


def test_a_record_that_is_too_large_stops_the_copy_at_its_batch() -> None:
    """The error names it; what lies before it is sent."""
    copy = replication(replace(ASSIGNMENT, max_message_bytes=400), merge=True)
    establish(copy, TargetLog(end=0))
    too_large = batches.batch(4, [(0, b"x"), (5, bytes(500))])
    with pytest.raises(ReplicationFault, match="source offset 9"):
        fetched(copy, ONE, TWO, too_large)
    assert [batch for found in values(ready(copy)) for batch in found] == [b"a", b"b", b"c", b"d"]
    assert copy.process_offset == 4


def test_a_merged_batch_is_no_larger_than_the_target_takes() -> None:
    """However many wait."""
    found = ready(merging(*(batches.batch(number, [(0, bytes(90))]) for number in range(30)), max_message_bytes=1000))
    assert max(batch.size_bytes for batch in found) <= 1000
    assert sum(batch.count for batch in found) == 30
    assert len(found) < 6


def test_a_refused_merged_batch_goes_as_the_sources_own_and_then_record_by_record() -> None:
    """So that the record is found; behind it all is merged again."""
    copy = merging(ONE, TWO, THREE)
    copy.take()
    copy.failed("INVALID_RECORD")
    establish(copy, TargetLog(end=0))
    later = [batches.batch(6, [(0, b"g")]), batches.batch(7, [(0, b"h")])]
    fetched(copy, ONE, TWO, THREE, *later)
    assert [(batch.count, batch.merged) for batch in ready(copy)] == [(2, False), (2, False), (2, False), (2, True)]
    copy.take()
    copy.answered(0)
    copy.take()
    copy.failed("INVALID_RECORD")
    establish(copy, TargetLog(end=2))
    fetched(copy, TWO, THREE, *later)
    assert [(batch.count, batch.merged) for batch in ready(copy)] == [(1, False), (1, False), (2, False), (2, True)]


def test_a_batch_of_the_source_that_was_refused_is_not_merged_with_others() -> None:
    """Its records go one by one."""
    copy = merging(ONE)
    copy.take()
    copy.failed("INVALID_RECORD")
    establish(copy, TargetLog(end=0))
    fetched(copy, ONE, TWO, THREE)
    assert [(batch.count, batch.merged) for batch in ready(copy)] == [(1, False), (1, False), (4, True)]


def test_nothing_is_merged_while_the_position_is_searched_for() -> None:
    """What is passed over is counted record by record; behind it all is merged."""
    copy = replication(ASSIGNMENT, merge=True)
    written = parsed(batches.batch(0, [(0, b"a"), (1, b"b"), (2, b"c")]))
    struct.pack_into(">qhi", written.view, 43, 1, 0, 0)
    establish(copy, TargetLog(end=3, tail=iter_batches(written.view)[0]))
    fetched(copy, ONE, TWO, THREE, batches.batch(6, [(0, b"g")]))
    assert copy.position.known
    assert values(ready(copy)) == [[b"d"], [b"e", b"f", b"g"]]


def test_a_merged_batch_is_of_one_leader_epoch() -> None:
    """A fetch says the epoch of what it goes on from."""
    found = ready(merging(of_epoch(ONE, 3), of_epoch(TWO, 3), of_epoch(THREE, 4)))
    assert [(batch.source_next, batch.source_epoch) for batch in found] == [(4, 3), (6, 4)]


def test_records_keep_their_own_ages() -> None:
    """Latency and statistics count each by its own batch's newest record, to within some milliseconds."""
    latencies = LatencyCounter(lambda: 10_000)
    tally = StatisticsTally(60_000, lambda: 10_000)
    copy = replication(ASSIGNMENT, merge=True, latencies=latencies, tally=tally)
    establish(copy, TargetLog(end=0))
    old, new = batches.batch(0, [(0, b"a")], timestamp=1000), batches.batch(1, [(0, b"b")], timestamp=9990)
    fetched(copy, old, new, batches.batch(2, [(0, b"c")], timestamp=9995))
    (merged,) = ready(copy)
    assert merged.ages == ((1000, 1), (9995, 2))
    copy.take()
    copy.answered(0)
    (interval,) = tally.take(ended=True)
    assert sorted(interval.latency_ms.values()) == [1, 2]
    assert (interval.records, interval.batches) == (3, 1)
    assert interval.source_bytes > interval.wire_bytes
    assert interval.sampled_uncompressed_bytes == interval.wire_bytes


@st.composite
def sources(draw: st.DrawFn) -> list[bytes]:
    """A source's log: batches of any codec, small and large, with holes and markers among them."""
    log, offset = [], 0
    for number in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["none", "zstd", "lz4", "holes", "marker", "appended", "large"]))
        if kind == "marker":
            log.append(batches.marker(offset, 7, commit=True))
            offset += 1
        elif kind == "holes":
            log.append(batches.batch(offset, [(1, b"%d" % number), (3, b"")], 4))
            offset += 5
        elif kind == "appended":
            log.append(batches.batch(offset, [(0, b"%d" % number)], attributes=0x08))
            offset += 1
        elif kind == "large":
            log.append(batches.batch(offset, [(0, bytes(17 << 10))]))
            offset += 1
        else:
            log.append(with_codec(kind, offset, *[b"%d" % number] * draw(st.integers(1, 3))))  # type: ignore[arg-type]
            offset += parsed(log[-1]).count
    return log


def chunked(log: list[bytes], cuts: list[int]) -> Iterator[list[bytes]]:
    """The log as several answers."""
    bounds = sorted({0, len(log), *(cut % (len(log) + 1) for cut in cuts)})
    yield from (log[begin:end] for begin, end in pairwise(bounds))


@given(sources(), st.lists(st.integers(0, 12), max_size=4), st.integers(0, 20), st.sampled_from([1000, 1 << 20]))
def test_merged_or_not_the_target_gets_the_same_records(
    log: list[bytes], cuts: list[int], position: int, max_message_bytes: int
) -> None:
    """From any position, in any answers: the same records at the same offsets, and every batch leads to the next."""
    assigned = replace(ASSIGNMENT, anchor=OffsetPair(position, 0), max_message_bytes=max(max_message_bytes, 18 << 10))
    found = []
    for merge in (True, False):
        copy = replication(assigned, merge=merge)
        establish(copy, TargetLog(end=0))
        for answer in chunked(log, cuts):
            fetched(copy, *answer)
        outgoing = ready(copy)
        target, at = [], 0
        for batch in outgoing:
            assert (batch.target_offset, batch.sequence) == (at, at)
            decoded = records_of(parsed(batch.batch.view))
            offsets = [first + number for first, count in batch.runs for number in range(count)]
            assert (offsets[0], len(offsets)) == (batch.source_first, batch.count)
            assert sum(count for _, count in batch.ages) == batch.count
            target += [(offset, r.timestamp, r.tail) for offset, r in zip(offsets, decoded, strict=True)]
            at += batch.count
        found.append((target, outgoing[-1].source_next if outgoing else copy.acknowledged.source_offset))
    assert found[0] == found[1]
