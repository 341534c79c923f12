"""How many records of ours a target holds, where its batches alone don't say it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.assignment import Assignment
from mirror_ray.model.fault import PartitionFault
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS, OffsetPair
from mirror_ray.records.batch import RecordBatch
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.target_log import (
    SentRecords,
    TargetContents,
    TargetLog,
    TargetScan,
    copied_since,
    last_copied,
    wants_producer_state,
)
from tests.support import batches
from tests.support.factories import assignment, produced

OURS, OTHERS = 4711, 9
#: The pair was acknowledged at target offset 100; the next sequence of ours is 40.
ANCHOR = OffsetPair(500, 100, 40, target_epoch=3)

ALONE = assignment(producer_id=OURS, anchor=ANCHOR)
SHARED = replace(ALONE, shared=True)


def batch(first: int, count: int, sequence: int = 0, producer_id: int = OURS) -> RecordBatch:
    """A batch as the target holds it."""
    return produced(batches.batch(first, [(n, b"%d" % n) for n in range(count)]), producer_id, sequence)


def scanned(end: int, *found: RecordBatch, agrees_to: int = 10**9) -> TargetLog:
    """What a scan makes of these batches."""
    scan = TargetScan(SHARED, ANCHOR, min(agrees_to, ANCHOR.target_offset))
    scan.add(found)
    return scan.describe(TargetLog(end=end, agrees_to=agrees_to))


def trouble(log: TargetLog, assigned: Assignment = SHARED, sent: SentRecords | None = None) -> PartitionFault:
    """What is wrong with it."""
    with pytest.raises(ReplicationFault) as raised:
        copied_since(ANCHOR, log, assigned, sent or SentRecords())
    return raised.value.fault


# ---- a topic whose offsets are preserved


@pytest.mark.parametrize(
    ("found", "end", "wrong"),
    [
        ((batch(100, 4, 40), batch(104, 2, 44)), 106, None),
        ((batch(100, 4, 40), batch(104, 2, 48)), 106, "room for 6 records .* its producer say 10"),
        ((batch(100, 4, 40), batch(104, 4, 40)), 108, "room for 8 records .* its producer say 4"),
        ((batch(104, 2, 44),), 106, None),
    ],
    ids=["as it should be", "a batch is missing", "a batch is there twice", "removed by its cleaner"],
)
def test_our_records_take_the_offsets_that_there_are(
    found: tuple[RecordBatch, ...], end: int, wrong: str | None
) -> None:
    """A broker that has forgotten us takes any sequence: what it took in a wrong place is not passed over."""
    preserved = replace(ALONE, preserve_offsets=True)
    log = scanned(end, *found)
    if wrong is None:
        assert copied_since(ANCHOR, log, preserved) == 6
    else:
        told = trouble(log, preserved)
        assert told.kind == "copy_lost"
        assert re.search(wrong, told.text)


# ---- a topic that others write to


def test_half_of_all_sequences_count_forward_where_there_is_room() -> None:
    """A recount from the first pair on may meet as many records; where there is less room, they were lost."""
    many = SEQUENCE_MODULUS // 2 + 5
    log = TargetLog(end=3 * many, tail=batch(3 * many - 10, 10, 40 + many - 10), complete_from=0, agrees_to=10**12)
    assert copied_since(ANCHOR, log, SHARED) == many
    assert trouble(replace(log, end=ANCHOR.target_offset + many - 1)).kind == "target_truncated"


def test_a_log_without_holes_says_it_by_itself() -> None:
    """Whatever others have written, before ours, between and behind."""
    log = scanned(120, batch(100, 5, 7, OTHERS), batch(105, 10, 40), batch(115, 5, 12, OTHERS))
    assert not wants_producer_state(ANCHOR, log, SHARED)
    assert copied_since(ANCHOR, log, SHARED) == 10
    others = scanned(105, batch(100, 5, 7, OTHERS))
    assert not wants_producer_state(ANCHOR, others, SHARED)
    assert copied_since(ANCHOR, others, SHARED) == 0


def test_holes_before_our_newest_batch_don_t_matter() -> None:
    """Its sequences say what was before it."""
    log = scanned(120, batch(112, 8, 52))
    assert not wants_producer_state(ANCHOR, log, SHARED)
    assert copied_since(ANCHOR, log, SHARED) == 20


@pytest.mark.parametrize(
    "log",
    [
        scanned(120, batch(100, 5, 40), batch(110, 10, 0, OTHERS)),
        scanned(120, batch(100, 5, 40)),
        scanned(120, batch(110, 10, 0, OTHERS)),
        scanned(120),
    ],
    ids=["between", "at the end", "at the anchor", "everything"],
)
def test_behind_our_newest_batch_the_broker_s_memory_decides(log: TargetLog) -> None:
    """Cleaning, retention or DeleteRecords may have taken newer ones of ours; nothing is guessed."""
    assert wants_producer_state(ANCHOR, log, SHARED)
    assert copied_since(ANCHOR, replace(log, remembered=52), SHARED) == 12
    assert trouble(log).kind == "copy_lost"
    found = 5 if log.tail else 0
    assert copied_since(ANCHOR, log, SHARED, SentRecords(nothing=True)) == found


def test_acknowledged_records_that_an_unclean_election_took() -> None:
    """Others have written on past the anchor, and our newest batch that is left is an older one."""
    log = scanned(130, batch(60, 10, 20), batch(70, 60, 3, OTHERS), agrees_to=60)
    told = trouble(log)
    assert (told.kind, told.target_from, told.target_to) == ("target_truncated", 70, 80)
    assert "lost 10 records" in told.text
    forgotten = scanned(130, batch(60, 70, 3, OTHERS), agrees_to=60)
    assert wants_producer_state(ANCHOR, forgotten, SHARED)
    assert trouble(replace(forgotten, remembered=25)).target_to == 60 + 15
    unknown = trouble(forgotten)
    assert (unknown.kind, unknown.target_from, unknown.target_to) == ("target_truncated", 60, 100)
    assert trouble(forgotten, sent=SentRecords(nothing=True)).kind == "target_truncated"


def test_a_leader_that_went_and_came_back_has_lost_nothing() -> None:
    """Its epoch ended before the anchor; what is ours behind that shows that the anchor is true."""
    log = scanned(130, batch(80, 20, 20), batch(100, 30, 3, OTHERS), agrees_to=80)
    assert copied_since(ANCHOR, log, SHARED) == 0
    assert copied_since(ANCHOR, scanned(140, batch(90, 50, 30), agrees_to=80), SHARED) == 40
    assert copied_since(ANCHOR, replace(scanned(130, agrees_to=80), remembered=40), SHARED) == 0


def test_a_scan_from_before_the_anchor_takes_no_contents_from_there() -> None:
    """What is compared with the source is what was copied behind the anchor."""
    scan = TargetScan(SHARED, ANCHOR, 80, TargetContents())
    scan.add([batch(80, 20, 20), batch(100, 3, 40)])
    assert scan.contents is not None
    assert len(scan.contents.records) == 3


# ---- a topic that one flow writes


@given(first=st.integers(0, 3 * SEQUENCE_MODULUS), count=st.integers(1, 3 * SEQUENCE_MODULUS))
def test_an_emptied_log_is_all_ours_where_the_broker_says_so(first: int, count: int) -> None:
    """However often sequences have begun again at 0."""
    log = TargetLog(end=first + count, remembered=(first + count) % SEQUENCE_MODULUS)
    assert wants_producer_state(OffsetPair(0, first), replace(log, remembered=None), ALONE)
    assert copied_since(OffsetPair(0, first), log, ALONE) == count


def test_strangers_in_an_emptied_log_are_told() -> None:
    """Fewer sequences than offsets, and be there no record left to see."""
    log = TargetLog(end=120)
    for known in (40, 45, 59):
        told = trouble(replace(log, remembered=known), ALONE)
        assert (told.kind, told.target_from, told.target_to) == ("target_foreign", 100, 120)
    assert trouble(replace(log, remembered=61), ALONE).kind == "copy_lost"
    assert trouble(replace(log, remembered=39), ALONE).kind == "copy_lost"
    assert trouble(log, ALONE, SentRecords(nothing=True)).kind == "target_foreign"


def test_where_nobody_knows_who_wrote_what_is_gone_nothing_is_guessed() -> None:
    """Unless a batch was sent that would end just there."""
    log = TargetLog(end=120)
    assert trouble(log, ALONE).kind == "copy_lost"
    assert copied_since(ANCHOR, log, ALONE, SentRecords(up_to_end=True)) == 20


def test_a_newest_batch_that_is_not_our_last_one_is_not_compared() -> None:
    """What the broker remembers goes beyond it: the last record that was copied is gone."""
    log = replace(scanned(120, batch(100, 5, 40), batch(110, 10, 0, OTHERS)), remembered=52)
    assert last_copied(log, SHARED, OffsetPair(0, 120, 52)) is None
    assert last_copied(log, SHARED, OffsetPair(0, 120, 45)) is log.tail


def test_one_offset_behind_our_newest_batch_is_a_hole() -> None:
    """A batch of one record of ours may have been there."""
    log = scanned(120, batch(100, 5, 40), batch(106, 14, 0, OTHERS))
    assert wants_producer_state(ANCHOR, log, SHARED)
    assert trouble(log).kind == "copy_lost"


def test_a_batch_that_was_cleaned_has_its_sequences_all_the_same() -> None:
    """Its header keeps the last record's offset."""
    cleaned = produced(batches.batch(100, [(1, b"kept")], 9), OURS, 40)
    assert copied_since(ANCHOR, TargetLog(end=110, tail=cleaned), ALONE) == 10
    assert copied_since(ANCHOR, scanned(110, cleaned), SHARED) == 10


def test_sequences_begin_again_behind_the_last_one() -> None:
    """Forward over the end, and back over it."""
    last = OffsetPair(500, 100, SEQUENCE_MODULUS - 4)
    assert copied_since(last, scanned(110, batch(100, 10, SEQUENCE_MODULUS - 4)), SHARED) == 10
    with pytest.raises(ReplicationFault) as raised:
        copied_since(OffsetPair(500, 100, 2), scanned(110, batch(60, 50, SEQUENCE_MODULUS - 55)), SHARED)
    assert raised.value.fault.target_to == 110 + 7
