"""A partition whose offsets are preserved: its gaps, and what shows that the target's log is not as it was left."""

from __future__ import annotations

import struct

import pytest

from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.offset_gaps import OffsetGap, fillers_of
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.target_log import TargetLog, TargetScan
from tests.support.batches import batch, marker
from tests.support.factories import assignment, establish, fetched, parsed, produced, replication
from tests.support.kernels import needs_kernel


@pytest.fixture
def copy() -> PartitionReplication:
    """Of a source that begins at offset 10, where the target does, too."""
    assigned = assignment(anchor=OffsetPair(10, 10), preserve_offsets=True, transactional_id="replicator")
    found = replication(assigned)
    establish(found, TargetLog(end=10))
    return found


def test_nothing_passes_a_gap_before_it_is_filled(copy: PartitionReplication) -> None:
    """Neither the gap before what is committed, nor what lies behind the gap."""
    fetched(copy, batch(10, [(0, b"a")]), batch(13, [(0, b"b")]))
    assert copy.take().target_offset == 10
    assert copy.open_gap is None
    copy.answered(10, committed=False)
    assert copy.open_gap is None
    assert not copy.sendable
    copy.pipeline.deep = True
    assert not copy.sendable


def test_a_gap_is_filled_bit_by_bit(copy: PartitionReplication) -> None:
    """Each transaction brings the log end nearer; then the next batch goes out, with the sequence that is next."""
    fetched(copy, batch(10, [(0, b"a")]), batch(13, [(0, b"b")]))
    copy.take()
    copy.answered(10)
    for start in (11, 12):
        gap = copy.open_gap
        assert gap == OffsetGap(start, 13)
        copy.fill(gap)
        assert copy.open_gap is None
        copy.gap_filled(start + 1)
    sent = copy.take()
    assert (sent.target_offset, sent.sequence) == (13, 11)


@pytest.mark.parametrize("in_full", [True, False])
def test_behind_a_gap_the_sources_epoch_is_that_of_what_follows(copy: PartitionReplication, *, in_full: bool) -> None:
    """The leader may have changed in the gap: the epoch before it then ends before the position, as in a cut log."""
    fetched(copy, of_epoch(3, batch(10, [(0, b"a")])), of_epoch(5, batch(13, [(0, b"b")])))
    copy.take()
    copy.answered(10)
    assert copy.acknowledged.source_epoch == 3
    gap = copy.open_gap
    assert gap == OffsetGap(11, 13)
    copy.fill(gap)
    end = 13 if in_full else 12
    copy.gap_filled(end)
    copy.interrupt(None)
    establish(copy, TargetLog(end=end))
    assert (copy.fetch_offset, copy.fetch_epoch) == (end, 5)


def test_behind_a_gap_that_was_forgotten_the_sources_epoch_is_not_known(copy: PartitionReplication) -> None:
    """What follows was dropped while the gap was filled."""
    fetched(copy, of_epoch(3, batch(10, [(0, b"a")])), of_epoch(5, batch(13, [(0, b"b")])))
    copy.take()
    copy.answered(10)
    gap = copy.open_gap
    assert gap is not None
    copy.fill(gap)
    copy.interrupt(None)
    copy.gap_filled(13)
    establish(copy, TargetLog(end=13))
    assert (copy.fetch_offset, copy.fetch_epoch) == (13, -1)


def test_a_gap_at_the_end_is_filled_too(copy: PartitionReplication) -> None:
    """Both logs end alike, so that the way back can begin there."""
    fetched(copy, batch(10, [(0, b"a")]), marker(11, 5, commit=True))
    copy.take()
    copy.answered(10)
    gap = copy.open_gap
    assert gap == OffsetGap(11, 12)
    copy.fill(gap)
    copy.interrupt(None)
    assert not copy.needs_end
    copy.gap_filled(12)
    assert copy.needs_end
    establish(copy, TargetLog(end=12))
    fetched(copy, batch(12, [(0, b"b")]))
    sent = copy.take()
    assert (sent.target_offset, sent.sequence) == (12, 11)


@pytest.mark.parametrize("between", ["record", "marker"])
def test_what_somebody_else_has_written_is_seen(copy: PartitionReplication, between: str) -> None:
    """A record of another producer, and a marker where the source has a record."""
    theirs = batch(10, [(0, b"x")], producer_id=99) if between == "record" else marker(10, 99, commit=False)
    scan = TargetScan(copy.assignment, copy.acknowledged, 10)
    scan.add([parsed(theirs)])
    copy.interrupt(None)
    if between == "record":
        with pytest.raises(ReplicationFault, match="producer 99"):
            establish(copy, scan.describe(TargetLog(end=11)))
        return
    establish(copy, scan.describe(TargetLog(end=11)))
    with pytest.raises(ReplicationFault, match="offset 10"):
        fetched(copy, batch(10, [(0, b"a")]))


def test_a_source_that_holds_another_record_now_is_seen(copy: PartitionReplication) -> None:
    """It was truncated and has grown again: the last record on the target is compared."""
    _read_ours(copy)
    with pytest.raises(ReplicationFault, match="another one on the source"):
        fetched(copy, batch(10, [(0, b"b")]))


def test_a_source_that_begins_behind_the_target_has_lost_records(copy: PartitionReplication) -> None:
    """They are not filled as if they were a gap: that is decided by the policy."""
    fetched(copy, batch(10, [(0, b"a")]))
    copy.take()
    copy.answered(10)
    copy.out_of_range()
    with pytest.raises(ReplicationFault) as raised:
        copy.source_bounds(20, 30, 30)
    fault = raised.value.fault
    assert (fault.kind, fault.source_from, fault.source_to) == ("source_removed", 11, 20)
    assert fault.resume is not None
    assert (fault.resume.source_offset, fault.resume.target_offset) == (20, 11)


def test_a_source_that_has_lost_what_the_target_lacks(copy: PartitionReplication) -> None:
    """Also where the log end was just read, and was to be compared with the source."""
    _read_ours(copy)
    copy.out_of_range()
    with pytest.raises(ReplicationFault, match="from 11 on were removed"):
        copy.source_bounds(20, 30, 30)


def test_a_log_whose_batches_were_removed_is_gone_on_with() -> None:
    """Its end is the position; the broker that has forgotten our producer takes any sequence."""
    copy = replication(assignment(anchor=OffsetPair(10, 10), preserve_offsets=True, transactional_id="replicator"))
    establish(copy, TargetLog(end=15, complete_from=15))
    fetched(copy, batch(10, [(n, b"a") for n in range(5)]), batch(15, [(0, b"b")]))
    assert copy.take().target_offset == 15


@needs_kernel
def test_small_batches_are_merged_up_to_a_gap() -> None:
    """On each side of a marker, and of a batch that was compacted."""
    assigned = assignment(preserve_offsets=True, transactional_id="replicator")
    found = replication(assigned, merge=True)
    establish(found, TargetLog(end=0))
    small = [batch(n, [(0, b"%d" % n)]) for n in range(10)]
    fetched(found, *small[:4], marker(4, 7, commit=True), *small[5:8], batch(8, [(1, b"9")], 2))
    fetched(found, *(batch(11 + n, [(0, b"x")]) for n in range(4)))
    sizes = [(outgoing.target_offset, outgoing.count) for outgoing in found.pipeline.ready]
    assert sizes == [(0, 4), (5, 3), (9, 1), (11, 4)]


def test_fillers_are_for_gaps_that_markers_alone_would_take_too_long_for() -> None:
    """One filler less than offsets, for the marker takes one."""
    assert [fillers_of(OffsetGap(5, 5 + length), 3) for length in (1, 3, 4, 1000)] == [0, 0, 3, 999]
    assert [fillers_of(OffsetGap(5, 5 + length), 3, 8) for length in (3, 4, 1000)] == [0, 1, 991]
    assert fillers_of(OffsetGap(0, 5_000_000), 3) == 100_000


def of_epoch(epoch: int, data: bytes) -> bytes:
    """The batch as a leader of that epoch has it."""
    return data[:12] + struct.pack(">i", epoch) + data[16:]


def _read_ours(copy: PartitionReplication) -> None:
    """The target's log has a record of ours at offset 10, which the pair does not know of."""
    scan = TargetScan(copy.assignment, copy.acknowledged, 10)
    scan.add([produced(batch(10, [(0, b"a")]), 1, 10)])
    copy.interrupt(None)
    establish(copy, scan.describe(TargetLog(end=11)))


def test_a_partition_with_gaps_leaves_memory_to_the_others(copy: PartitionReplication) -> None:
    """What waits behind gaps waits long: little is asked for at once, and not much held. Without gaps as ever."""
    fetched(copy, batch(10, [(0, b"a"), (1, b"b")]))
    assert copy.fetch_limit_bytes is None
    copy.budget.limit_bytes = 64 << 20
    offset = 14
    while copy.wants_fetch:
        fetched(copy, *(batch(offset + 2 * number, [(0, b"c" * 60)]) for number in range(100)))
        offset += 200
        assert copy.fetch_limit_bytes == 64 << 10
    assert copy.budget.used_bytes < 2 << 20
    without = replication(assignment(anchor=OffsetPair(10, 10)))
    assert without.fetch_limit_bytes is None
