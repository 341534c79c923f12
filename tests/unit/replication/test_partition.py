"""A partition's copy by single calls: what it takes, remembers, asks for and believes."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from mirror_ray.model.assignment import Assignment
from mirror_ray.model.errors import CorruptBatchError, MirrorError
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.records.batch import iter_batches, rewrite
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.outgoing_batch import OutgoingBatch
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_states import CopyState
from mirror_ray.replication.target_log import TargetContents, TargetLog
from tests.support import batches
from tests.support.factories import assignment, establish, fetched, parsed, replication

ASSIGNMENT = assignment(anchor=OffsetPair(0, 0, source_epoch=3))
ONE = batches.batch(0, [(0, b"a"), (1, b"b")])
TWO = batches.batch(2, [(0, b"c"), (1, b"d")])
THREE = batches.batch(4, [(0, b"e"), (1, b"f")])


def copying(assigned: Assignment = ASSIGNMENT, *found: bytes) -> PartitionReplication:
    """A copy that stands at its anchor, with these batches of the source ready to be sent."""
    copy = replication(assigned)
    establish(copy, TargetLog(end=assigned.anchor.target_offset, epoch=8))
    fetch(copy, *found)
    return copy


def fetch(copy: PartitionReplication, *found: bytes, epoch: int = 4) -> None:
    """Batches come from a leader of that epoch."""
    fetched(copy, *(batch[:12] + struct.pack(">i", epoch) + batch[16:] for batch in found))


def tail(*values: bytes, at: int = 0, producer: int = 1) -> TargetLog:
    """The target ends with a batch of ours."""
    written = parsed(batches.batch(0, list(enumerate(values))))
    rewrite(written, producer, 0, at)
    struct.pack_into(">q", written.view, 0, at)
    return TargetLog(end=at + len(values), epoch=8, tail=iter_batches(written.view)[0])


def looking(*behind: bytes) -> PartitionReplication:
    """The target holds these records behind the anchor; the source has not been looked at yet."""
    copy = replication(ASSIGNMENT)
    establish(copy, tail(*behind))
    assert not copy.position.known
    return copy


def sent(copy: PartitionReplication, number: int) -> list[OutgoingBatch]:
    """So many batches are under way."""
    copy.pipeline.deep = True
    return [copy.take() for _ in range(number)]


# ---- answers


@pytest.mark.parametrize(("at", "kind"), [(3, "target_foreign"), (1, "copy_lost")])
def test_a_batch_that_is_elsewhere_than_it_was_meant_for(at: int, kind: str) -> None:
    """Somebody else writes, or one before it failed: nothing more counts."""
    copy = copying(ASSIGNMENT, ONE, TWO)
    copy.pipeline.deep = True
    first, second = copy.take(), copy.take()
    copy.answered(first.target_offset, committed=False)
    with pytest.raises(ReplicationFault) as raised:
        copy.answered(second.target_offset + at - 2)
    assert raised.value.fault.kind == kind
    assert copy.acknowledged == OffsetPair(0, 0)


def test_what_the_leader_alone_has_is_not_acknowledged() -> None:
    """The next batch that all replicas have brings it in."""
    copy = copying(ASSIGNMENT, ONE, TWO)
    for batch in sent(copy, 2):
        copy.answered(batch.target_offset, committed=batch.target_offset > 0)
        assert copy.acknowledged == (OffsetPair(4, 4) if batch.target_offset else OffsetPair(0, 0))


def test_what_is_taken_behind_a_refusal_does_not_count() -> None:
    """Another copier was there before us: the log's end tells, and the next batch counts again."""
    copy = copying(ASSIGNMENT, ONE, TWO)
    _, second = sent(copy, 2)
    copy.failed()
    copy.answered(second.target_offset)
    assert copy.acknowledged == OffsetPair(0, 0)
    establish(copy, TargetLog(end=0))
    fetch(copy, ONE)
    copy.answered(copy.take().target_offset)
    assert copy.acknowledged == OffsetPair(2, 2)


def test_only_the_first_refusal_blames_its_record() -> None:
    """What is behind it was refused for what is before."""
    copy = copying(ASSIGNMENT, batches.batch(0, [(0, b"a")]), batches.batch(1, [(0, b"b")]))
    sent(copy, 2)
    copy.failed()
    copy.failed("MESSAGE_TOO_LARGE")
    assert copy.state is CopyState.REFUSED


def test_a_batch_with_a_refused_record_goes_record_by_record() -> None:
    """So that the one is found."""
    copy = copying(ASSIGNMENT, ONE)
    sent(copy, 1)
    copy.failed("INVALID_RECORD")
    establish(copy, TargetLog(end=0))
    fetch(copy, ONE, TWO)
    assert [batch.count for batch in copy.pipeline.ready] == [1, 1, 2]


def test_one_batch_at_a_time_until_one_is_acknowledged() -> None:
    """The broker may have forgotten our producer; without one, never more."""
    copy = copying(ASSIGNMENT, ONE, TWO, THREE)
    first = copy.take()
    assert not copy.sendable
    copy.answered(first.target_offset)
    copy.take()
    assert copy.sendable
    alone = copying(replace(ASSIGNMENT, producer_id=-1), ONE, TWO, THREE)
    alone.answered(alone.take().target_offset)
    alone.take()
    assert not alone.sendable


def test_nothing_is_sent_while_the_end_is_read() -> None:
    """What is buffered then is not for the place that will be found."""
    copy = copying(ASSIGNMENT, ONE)
    copy.interrupt(None)
    assert not copy.pipeline.ready
    late = copying(ASSIGNMENT, ONE)
    late.state = CopyState.ESTABLISHING
    assert not late.sendable


# ---- the target's end


@pytest.mark.parametrize("state", ["establishing", "stopped"])
def test_the_end_is_not_read_before_all_answers_are_there(state: str) -> None:
    """What is under way may still be appended behind it."""
    copy = copying(ASSIGNMENT, ONE)
    sent(copy, 1)
    if state == "establishing":
        copy.interrupt(None)
    else:
        copy.stop(MirrorError("it is forbidden"))
    assert not copy.needs_end
    copy.lost()
    assert copy.needs_end


def test_when_the_last_batch_is_looked_at() -> None:
    """Where there is one more than was acknowledged; or, behind a refusal, at all."""
    copy = copying(ASSIGNMENT, ONE)
    assert not copy.needs_last_batch(0)
    assert copy.needs_last_batch(1)
    copy.answered(sent(copy, 1)[0].target_offset)
    assert not copy.needs_last_batch(2)
    fetch(copy, TWO)
    sent(copy, 1)
    copy.failed()
    assert copy.needs_last_batch(2)


@pytest.mark.parametrize("how", ["lost", "refused"])
def test_what_was_sent_is_found_again_without_the_source(how: str) -> None:
    """Its answer was lost, or it was appended and refused: the end says that it is there, with its leader's epoch."""
    copy = copying(ASSIGNMENT, ONE, TWO)
    first, _ = sent(copy, 2)
    copy.answered(first.target_offset, committed=False)
    if how == "lost":
        copy.lost()
    else:
        copy.failed()
    assert copy.pipeline.unanswered
    establish(copy, tail(b"c", b"d", at=2))
    assert copy.position.known
    assert (copy.acknowledged, copy.fetch_epoch) == (OffsetPair(4, 4), 4)
    assert (copy.fetch_offset, copy.process_offset) == (4, 4)


def test_what_only_the_leader_had_is_found_again() -> None:
    """It was answered, and not committed: the end may be behind it, or before it."""
    for end in (TargetLog(end=0), tail(b"a", b"b")):
        copy = copying(ASSIGNMENT, ONE, TWO)
        first, _ = sent(copy, 2)
        copy.answered(first.target_offset, committed=False)
        copy.lost()
        assert not copy.pipeline.uncommitted
        establish(copy, end)
        assert copy.position.known
        assert copy.acknowledged == OffsetPair(end.end, end.end)


def test_what_waits_for_its_commit_is_not_all() -> None:
    """The next batch goes behind it, and the source's leader is asked for nothing before."""
    copy = copying(ASSIGNMENT, ONE)
    copy.answered(sent(copy, 1)[0].target_offset, committed=False)
    assert not copy.settled
    fetch(copy, TWO)
    copy.out_of_range()
    assert copy.state is CopyState.ASKING_SOURCE
    assert not copy.asks_source
    assert copy.take().target_offset == 2


def test_the_targets_epoch_goes_with_the_pair() -> None:
    """By that its broker knows later whether the log lost its end."""
    copy = copying(ASSIGNMENT, ONE)
    assert copy.acknowledged.target_epoch == 8
    copy.answered(sent(copy, 1)[0].target_offset)
    assert copy.acknowledged.target_epoch == 8


# ---- the source


def test_the_sources_epoch_goes_with_what_is_fetched() -> None:
    """From the anchor's on: by that the source's broker knows whether its log is the one that was read."""
    copy = copying()
    assert copy.fetch_epoch == 3
    fetch(copy, ONE, epoch=5)
    assert (copy.fetch_offset, copy.fetch_epoch) == (2, 5)
    copy.answered(sent(copy, 1)[0].target_offset)
    assert copy.acknowledged.source_epoch == 5
    copy.interrupt(None)
    establish(copy, TargetLog(end=2, epoch=8))
    assert copy.fetch_epoch == 5


def test_a_batch_with_a_wrong_checksum_is_not_taken() -> None:
    """Rewritten it would have a right one."""
    copy = copying()
    rotten = ONE[:-1] + bytes([ONE[-1] ^ 1])
    with pytest.raises(CorruptBatchError):
        fetch(copy, rotten)
    assert not copy.pipeline.ready


def test_a_batch_is_taken_from_the_position_on() -> None:
    """What lies before it is on the target."""
    copy = copying(replace(ASSIGNMENT, anchor=OffsetPair(1, 1)), ONE)
    assert [(batch.source_first, batch.count, batch.sequence) for batch in copy.pipeline.ready] == [(1, 1, 1)]


def test_sequences_run_on() -> None:
    """One batch's begins where the one before it ends."""
    copy = copying(ASSIGNMENT, ONE, TWO, THREE)
    assert [batch.sequence for batch in copy.pipeline.ready] == [0, 2, 4]


def test_a_hole_moves_only_a_place_that_is_known() -> None:
    """While records are passed over, the pair stays: it says from where to count."""
    hole = batches.batch(0, [], 1)
    known, unknown = copying(ASSIGNMENT, hole), looking(b"c")
    fetch(unknown, hole)
    assert (known.acknowledged, unknown.acknowledged) == (OffsetPair(2, 0), OffsetPair(0, 0))
    fetch(unknown, TWO)
    assert unknown.acknowledged == OffsetPair(3, 1)


def test_a_hole_that_was_passed_already_does_not_put_the_pair_back() -> None:
    """It may be fetched again."""
    copy = copying(replace(ASSIGNMENT, anchor=OffsetPair(4, 0)))
    copy.position.skip_gap(2, 4)
    assert copy.acknowledged.source_offset == 4


def test_the_source_has_not_ended_while_more_is_stable() -> None:
    """A new leader's high watermark lags: what it showed was not all, and the walk goes on."""
    copy = looking(b"a", b"b", b"c")
    copy.source_answered(2, 2)
    fetch(copy, ONE)
    assert copy.asks_source
    copy.source_bounds(0, 4, 4)
    assert copy.state is CopyState.REALIGNING
    assert not copy.wants_contents
    fetch(copy, TWO)
    assert copy.acknowledged == OffsetPair(3, 3)


def test_the_source_has_ended_though_more_should_be_there() -> None:
    """Now it is compared by what records hold."""
    copy = looking(b"a", b"b", b"c")
    copy.source_answered(2, 2)
    fetch(copy, ONE)
    copy.source_bounds(0, 2, 2)
    assert copy.state is CopyState.ESTABLISHING
    assert copy.wants_contents


def test_a_source_that_is_another_log_stops_a_copy_that_has_its_end() -> None:
    """What is under way decides first."""
    copy = copying(ASSIGNMENT, ONE)
    copy.diverged(1)
    copy.answered(sent(copy, 1)[0].target_offset)
    with pytest.raises(ReplicationFault) as raised:
        copy.diverged(1)
    assert raised.value.fault.kind == "source_truncated"


def test_a_backfill_fetches_nothing_at_its_end() -> None:
    """The end itself is not in its range."""
    copy = copying(replace(ASSIGNMENT, end_offset=2))
    assert copy.wants_fetch
    fetch(copy, ONE)
    assert not copy.wants_fetch


def test_what_follows_the_last_match_is_fetched_again() -> None:
    """It was passed over while a record behind it might have matched, and is to be copied after all."""
    copy = replication(ASSIGNMENT)
    copy.position.wants_contents = True
    contents = TargetContents()
    contents.add(parsed(batches.batch(0, [(0, b"a"), (1, b"gone")])))
    establish(copy, tail(b"-", b"-", b"-"), contents)
    copy.source_answered(4, 4)
    fetch(copy, batches.batch(0, [(0, b"a")], 2), batches.batch(3, [(0, b"new")]))
    copy.source_bounds(0, 4, 4)
    assert (copy.acknowledged, copy.state) == (OffsetPair(3, 3), CopyState.ESTABLISHING)
    establish(copy, tail(b"-", b"-", b"-"))
    assert copy.fetch_offset == 3


def test_dead_letters_are_waited_for_with_the_epoch_of_what_is_queued() -> None:
    """What follows is fetched again from there."""
    copy = copying(ASSIGNMENT, ONE)
    copy.fetch_offset, copy.fetch_epoch = 9, 9
    copy._await_dead_letters((parsed(TWO),))
    assert (copy.fetch_offset, copy.fetch_epoch) == (2, 4)


def test_where_others_write_a_batch_counts_wherever_it_is() -> None:
    """Its sequence says that it is the next one."""
    copy = copying(replace(ASSIGNMENT, shared=True, anchor=OffsetPair(0, 0, 0)), ONE)
    copy.answered(sent(copy, 1)[0].target_offset + 7)
    assert copy.acknowledged == OffsetPair(2, 9, 2)
