"""A copy's place: where it is known at once, where it is looked for, and what is asked for then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror_ray.model.assignment import Assignment
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.records.batch import RecordBatch, iter_batches, rewrite
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.position import ReplicationPosition
from mirror_ray.replication.realignment import CleanedError
from mirror_ray.replication.target_log import TargetContents, TargetLog
from tests.support import batches
from tests.support.factories import assignment, parsed

OURS = 4711
ASSIGNMENT = assignment(producer_id=OURS, anchor=OffsetPair(10, 0))


def batch(first: int, values: list[bytes], gone: bytes | None = None) -> RecordBatch:
    """A batch of the source, or as the target holds it; without the value that cleaning took."""
    kept = [(delta, value) for delta, value in enumerate(values) if value != gone]
    return parsed(batches.batch(first, kept, len(values) - 1))


def copied(values: list[bytes]) -> TargetLog:
    """The target holds a batch of ours, as its first one."""
    written = batch(0, values)
    rewrite(written, OURS, 0, 0)
    return TargetLog(end=len(values), tail=iter_batches(written.view)[0])


def nothing_remembered(_: int) -> None:
    """Of what was sent before."""


def looking() -> ReplicationPosition:
    """Three records are on the target behind the pair that is known."""
    place = ReplicationPosition(ASSIGNMENT, ASSIGNMENT.anchor)
    place.find(copied([b"a", b"b", b"c"]), None, nothing_remembered, None)
    assert not place.known
    return place


def test_a_target_that_stands_where_it_was_left_is_the_place() -> None:
    """Nothing of the source has to be looked at."""
    place = ReplicationPosition(ASSIGNMENT, ASSIGNMENT.anchor)
    place.find(TargetLog(end=0), None, nothing_remembered, None)
    assert place.known
    assert place.acknowledged == OffsetPair(10, 0)


def test_what_was_sent_is_remembered_by_its_sequence() -> None:
    """Its answer was lost, but the source position behind it is known."""
    place = ReplicationPosition(ASSIGNMENT, ASSIGNMENT.anchor)
    place.find(copied([b"a", b"b", b"c"]), None, {3: (17, 5)}.get, None)
    assert place.known
    assert (place.acknowledged, place.acknowledged.source_epoch) == (OffsetPair(17, 3), 5)


def test_the_place_may_be_inside_a_batch_of_the_source() -> None:
    """Behind as many records as the target holds."""
    place = looking()
    assert place.passed(batch(10, [b"a", b"b", b"c", b"d"]), 10)
    assert place.acknowledged == OffsetPair(13, 3)


def test_until_it_is_known_the_pair_stays() -> None:
    """What is passed over was not acknowledged to us."""
    place = looking()
    assert not place.passed(batch(10, [b"a", b"b"]), 10)
    assert place.acknowledged == OffsetPair(10, 0)


def test_a_source_that_was_cleaned_is_compared_by_what_its_records_hold() -> None:
    """Of three records that were copied the source has two left; the first that was not copied follows them."""
    values = [b"a", b"b", b"c"]
    cleaned = batch(10, [*values, b"d"], gone=b"b")
    place = looking()
    with pytest.raises(CleanedError):
        place.passed(cleaned, 10)
    place.cleaned(transformed=False)
    assert place.wants_contents
    contents = TargetContents()
    contents.add(batch(0, values))
    place.find(copied(values), contents, nothing_remembered, None)
    assert place.passed(cleaned, 10)
    assert place.acknowledged == OffsetPair(13, 3)
    assert not place.wants_contents


def test_what_is_not_recognised_is_not_looked_for_again() -> None:
    """It would end the same way."""
    place = looking()
    place.cleaned(transformed=False)
    with pytest.raises(ReplicationFault) as raised:
        place.cleaned(transformed=False)
    assert raised.value.fault.kind == "copy_lost"


def test_at_least_once_copies_again_from_the_pair() -> None:
    """Behind all that the target holds."""
    place = ReplicationPosition(replace(ASSIGNMENT, producer_id=-1), ASSIGNMENT.anchor)
    place.find(TargetLog(end=3, tail=batch(0, [b"a", b"b", b"c"])), None, nothing_remembered, None)
    assert not place.known
    place.cleaned(transformed=False)
    assert place.known
    assert place.acknowledged == OffsetPair(10, 3, 3)


def test_at_least_once_copies_again_where_the_targets_end_was_removed() -> None:
    """All of it was deleted, or its last record cleaned: nobody knows whose it was, so no record is passed over."""
    emptied = ReplicationPosition(replace(ASSIGNMENT, producer_id=-1), ASSIGNMENT.anchor)
    emptied.find(TargetLog(end=3), None, nothing_remembered, None)
    assert emptied.known
    assert (emptied.acknowledged.source_offset, emptied.acknowledged.target_offset) == (10, 3)
    cleaned = ReplicationPosition(replace(ASSIGNMENT, producer_id=-1), ASSIGNMENT.anchor)
    cleaned.find(TargetLog(end=3, tail=batch(0, [b"a", b"b", b"c"], gone=b"c")), None, nothing_remembered, None)
    with pytest.raises(CleanedError):
        cleaned.passed(batch(10, [b"a", b"b", b"c", b"d"]), 10)


@pytest.mark.parametrize(("start", "end", "kind"), [(11, 20, "source_removed"), (0, 9, "source_truncated")])
def test_a_position_out_of_bounds_is_a_trouble_that_says_where_to_go_on(start: int, end: int, kind: str) -> None:
    """At the bound that it has passed, with the target as it is."""
    place = ReplicationPosition(ASSIGNMENT, ASSIGNMENT.anchor)
    with pytest.raises(ReplicationFault) as raised:
        place.within(10, start, end)
    trouble = raised.value.fault
    assert trouble.kind == kind
    assert trouble.resume == OffsetPair(start if kind == "source_removed" else end, 0)


def test_what_was_removed_while_it_was_passed_over_can_not_be_counted() -> None:
    """So the records have to be compared; within its bounds nothing happens."""
    place = looking()
    assert place.within(10, 10, 20) == 10
    with pytest.raises(CleanedError):
        place.within(10, 11, 20)


@pytest.mark.parametrize(
    ("settled", "unanswered", "kind"),
    [(True, False, "target_foreign"), (True, True, "copy_lost"), (False, False, "copy_lost")],
)
def test_what_was_removed_is_somebody_elses_only_where_nothing_was_sent(
    settled: bool, unanswered: bool, kind: str
) -> None:
    """Neither by this copier, whose answers all came, nor by whoever copied before it."""
    place = ReplicationPosition(replace(ASSIGNMENT, settled=settled), ASSIGNMENT.anchor)
    with pytest.raises(ReplicationFault) as raised:
        place.find(TargetLog(end=3), None, nothing_remembered, None, unanswered=unanswered)
    assert raised.value.fault.kind == kind


def test_once_it_is_known_nothing_but_what_is_sent_is_behind_it() -> None:
    """Whoever copied before."""
    place = ReplicationPosition(ASSIGNMENT, ASSIGNMENT.anchor)
    place.find(TargetLog(end=0), None, nothing_remembered, None)
    with pytest.raises(ReplicationFault) as raised:
        place.find(TargetLog(end=3), None, nothing_remembered, None, unanswered=False)
    assert raised.value.fault.kind == "target_foreign"


def comparing(ours: int, *kept: bytes, assigned: Assignment = ASSIGNMENT) -> ReplicationPosition:
    """So many records were copied; of these the target still has the contents."""
    place = ReplicationPosition(assigned, assigned.anchor)
    place.wants_contents = True
    contents = TargetContents()
    contents.add(batch(0, list(kept)))
    place.find(copied([b"x"] * ours), contents, nothing_remembered, None)
    return place


def test_a_target_that_was_cleaned_too_may_match_further_on() -> None:
    """A record of the source that is not there any more may have been copied: what matches last decides."""
    place = comparing(3, b"a", b"z")
    assert not place.passed(batch(10, [b"a", b"y"]), 10)
    assert not place.passed(batch(12, [b"z"]), 12)
    assert place.passed(batch(13, [b"w"]), 13)
    assert place.acknowledged == OffsetPair(13, 3)


def test_what_follows_the_last_match_is_to_be_copied() -> None:
    """Also where the source has ended; the epoch there is not known."""
    place = comparing(3, b"a", b"z")
    assert not place.passed(batch(10, [b"a", b"-", b"-"], gone=b"-"), 10)
    assert not place.passed(batch(13, [b"w"]), 13)
    place.passed_all(14, 6)
    assert (place.acknowledged, place.acknowledged.source_epoch) == (OffsetPair(13, 3), -1)


def test_a_place_at_the_sources_end_has_its_epoch() -> None:
    """By that it is seen whether the log was cut since."""
    place = comparing(2, b"a", b"b")
    assert not place.passed(batch(10, [b"a", b"b"]), 10)
    place.passed_all(12, 6)
    assert (place.acknowledged, place.acknowledged.source_epoch) == (OffsetPair(12, 2), 6)


def test_fewer_source_offsets_than_records_that_were_copied() -> None:
    """The source has lost its end, and grown again."""
    place = comparing(3, b"a", b"b", b"c")
    with pytest.raises(ReplicationFault) as raised:
        place.passed(batch(10, [b"a", b"new"]), 10)
    trouble = raised.value.fault
    assert (trouble.kind, trouble.resume) == ("source_truncated", OffsetPair(11, 3))


@pytest.mark.parametrize("shared", [False, True])
def test_contents_that_can_not_be(shared: bool) -> None:
    """More of them than records; or fewer where others write, for theirs may be newer."""
    assigned = replace(ASSIGNMENT, shared=shared, anchor=OffsetPair(10, 0, 0))
    with pytest.raises(ReplicationFault) as raised:
        comparing(3, *([b"a"] if shared else [b"a"] * 4), assigned=assigned)
    assert raised.value.fault.kind == "copy_lost"


def test_behind_what_was_removed_one_must_match() -> None:
    """Otherwise nothing says that what is left was not copied, too."""
    place = comparing(3, b"a", b"b", b"c")
    assert place.within(10, 11, 20) == 11
    with pytest.raises(CleanedError):
        place.passed(batch(13, [b"x"]), 13)


def test_records_that_were_left_out_are_not_looked_for() -> None:
    """They were never copied."""
    place = comparing(2, b"a", b"c", assigned=replace(ASSIGNMENT, skip=((11, 12),)))
    assert place.passed(batch(10, [b"a", b"left out", b"c", b"d"]), 10)
    assert place.acknowledged == OffsetPair(13, 2)


def test_where_others_write_a_batch_may_be_anywhere() -> None:
    """Its sequence counts, and not its offset."""
    place = ReplicationPosition(replace(ASSIGNMENT, shared=True), ASSIGNMENT.anchor)
    assert not place.exclusive
    assert not ReplicationPosition(replace(ASSIGNMENT, producer_id=-1), ASSIGNMENT.anchor).exclusive
    assert ReplicationPosition(ASSIGNMENT, ASSIGNMENT.anchor).exclusive
