"""Where a copy goes on: what the target's log says, walked or matched on the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.assignment import Assignment
from mirror_ray.model.fault import FaultKind
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS, OffsetPair
from mirror_ray.records.batch import RecordBatch
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.realignment import CleanedError, ContentMatch, Realignment, SourceWalk
from mirror_ray.replication.target_log import TargetContents, TargetLog, copied_since, to_be_scanned
from tests.support import batches
from tests.support.factories import assignment, parsed, produced

OURS = 4711
STAMPED_BY_THE_BROKER = 0x08


def _assignment(**changes: Any) -> Assignment:
    return assignment(**({"producer_id": OURS} | changes))


def _batch(
    first: int, values: Sequence[bytes], *, last: int | None = None, attributes: int = 0, timestamp: int = 1
) -> RecordBatch:
    return parsed(batches.batch(first, list(enumerate(values)), last, attributes=attributes, timestamp=timestamp))


def _tail(base_sequence: int, count: int, *, producer_id: int = OURS) -> RecordBatch:
    return produced(batches.batch(0, [(n, b"%d" % n) for n in range(count)]), producer_id, base_sequence)


def _trouble(anchor: OffsetPair, log: TargetLog, assigned: Assignment) -> FaultKind:
    with pytest.raises(ReplicationFault) as raised:
        copied_since(anchor, log, assigned)
    return raised.value.fault.kind


# ---- how many records of ours the target holds


@given(anchor=st.integers(0, 3 * SEQUENCE_MODULUS), ours=st.integers(1, 500), last=st.integers(1, 500))
def test_the_last_batch_accounts_for_all_behind_the_anchor(anchor: int, ours: int, last: int) -> None:
    """Its sequences say how many were written since, also where sequences begin again at 0."""
    last = min(last, ours)
    log = TargetLog(end=anchor + ours, tail=_tail((anchor + ours - last) % SEQUENCE_MODULUS, last))
    assert copied_since(OffsetPair(0, anchor), log, _assignment()) == ours


def test_nothing_was_written_since() -> None:
    """Then there is no batch to look at."""
    assert copied_since(OffsetPair(7, 5), TargetLog(end=5), _assignment()) == 0


def test_an_end_that_is_as_it_was_with_another_batch_before_it() -> None:
    """A log that lost its end and took a later batch instead is not the one that was left."""
    anchor = OffsetPair(9, 1)
    assert copied_since(anchor, TargetLog(end=1, tail=_tail(0, 1)), _assignment()) == 0
    assert copied_since(anchor, TargetLog(end=1, tail=_tail(6, 1, producer_id=9)), _assignment()) == 0
    assert _trouble(anchor, TargetLog(end=1, tail=_tail(6, 1)), _assignment()) == "copy_lost"


def test_a_tail_that_retention_took_is_counted_by_what_the_broker_remembers() -> None:
    """An empty log that ends further on has been written to there."""
    assert copied_since(OffsetPair(0, 5), TargetLog(end=12, remembered=12), _assignment()) == 7


def test_an_end_before_the_anchor_is_a_loss() -> None:
    """What was acknowledged is gone."""
    assert _trouble(OffsetPair(9, 9), TargetLog(end=8), _assignment()) == "target_truncated"


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        (TargetLog(end=10, tail=_tail(0, 10, producer_id=1)), "target_foreign"),
        (TargetLog(end=10, tail=_tail(4, 2)), "target_foreign"),
        (TargetLog(end=10, tail=_tail(8, 5)), "copy_lost"),
    ],
    ids=["the last batch is another's", "more offsets than ours", "more sequences than offsets"],
)
def test_what_does_not_add_up_is_told(log: TargetLog, kind: FaultKind) -> None:
    """Offsets and sequences of a topic that one flow writes are the same number."""
    assert _trouble(OffsetPair(0, 0), log, _assignment()) == kind


def test_at_least_once_believes_the_end() -> None:
    """Without a producer nothing tells who wrote; in a shared topic nothing is known, and all is copied again."""
    log = TargetLog(end=10, tail=_tail(-1, 2, producer_id=-1))
    assert copied_since(OffsetPair(0, 4), log, _assignment(producer_id=-1)) == 6
    assert copied_since(OffsetPair(0, 4), log, _assignment(producer_id=-1, shared=True)) == 0


def test_at_least_once_does_not_believe_what_was_removed() -> None:
    """Records of somebody else, that were deleted, would be taken for ours, and as many of the source passed over."""
    assert copied_since(OffsetPair(0, 4), TargetLog(end=10), _assignment(producer_id=-1)) == 0


def test_ours_are_looked_for_only_where_others_write() -> None:
    """In a shared topic always; below accepted foreign records until the anchor is behind them."""
    anchor = OffsetPair(3, 10)
    assert to_be_scanned(_assignment(shared=True), anchor)
    assert to_be_scanned(_assignment(foreign_to=11), anchor)
    assert not to_be_scanned(_assignment(foreign_to=10), anchor)
    assert not to_be_scanned(_assignment(shared=True, producer_id=-1), anchor)


def test_ours_among_others_are_counted_by_sequence() -> None:
    """However many offsets lie between them."""
    anchor, shared = OffsetPair(3, 10, sequence=SEQUENCE_MODULUS - 2), _assignment(shared=True)
    assert copied_since(anchor, TargetLog(end=99, tail=_tail(1, 4)), shared) == 7
    assert copied_since(anchor, TargetLog(end=99), shared) == 0
    assert _trouble(anchor, TargetLog(end=99, complete_from=11), shared) == "copy_lost"


def test_a_stranger_behind_those_that_were_accepted() -> None:
    """Accepting foreign records once is no leave for all time; in a shared topic there are no strangers."""
    log = TargetLog(end=30, tail=_tail(0, 4), foreign=_tail(0, 1, producer_id=9))
    assert _trouble(OffsetPair(0, 0), log, _assignment(foreign_to=20)) == "target_foreign"
    assert copied_since(OffsetPair(0, 0), log, _assignment(foreign_to=20, shared=True)) == 4


# ---- the place on the source, by number


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=8), data=st.data())
def test_a_walk_ends_behind_as_many_records(sizes: list[int], data: st.DataObject) -> None:
    """Whatever the batches, and wherever in one it begins or ends."""
    source, offset = [], 0
    for size in sizes:
        source.append(_batch(offset, [b"%d" % (offset + n) for n in range(size)]))
        offset += size
    begin = data.draw(st.integers(0, offset - 1))
    end = data.draw(st.integers(begin + 1, offset))
    walk = SourceWalk(end - begin, _batch(50, [b"%d" % (end - 1)]))
    places = (walk.passed(batch, begin) for batch in source if batch.next_offset > begin)
    assert next(place for place in places if place is not None) == end


def test_a_walk_passes_over_a_hole_behind_its_last_record() -> None:
    """Cleaned offsets at the end of a batch hold nothing to copy."""
    assert SourceWalk(2, None).passed(_batch(0, [b"a", b"b"], last=9), 0) == 10


@pytest.mark.parametrize("timestamp", [1, 2])
def test_a_walk_that_ends_at_another_record_says_so(timestamp: int) -> None:
    """Another value or another timestamp: the source was cleaned since, and the numbers no longer fit."""
    with pytest.raises(CleanedError):
        SourceWalk(2, _batch(0, [b"b" if timestamp == 2 else b"c"], timestamp=timestamp)).passed(
            _batch(0, [b"a", b"b"]), 0
        )


def test_timestamps_of_the_target_itself_are_not_compared() -> None:
    """A topic that stamps what it appends has its own."""
    tail = _batch(0, [b"b"], timestamp=99, attributes=STAMPED_BY_THE_BROKER)
    assert SourceWalk(2, tail).passed(_batch(0, [b"a", b"b", b"c"]), 0) == 2


def test_a_source_that_ends_before_the_walk_was_cleaned() -> None:
    """It holds fewer records than were copied from it."""
    walk = SourceWalk(3, None)
    assert walk.passed(_batch(0, [b"a", b"b"]), 0) is None
    with pytest.raises(CleanedError):
        walk.ended(2)


# ---- the place on the source, by contents


def _copied(*values: bytes) -> TargetContents:
    contents = TargetContents()
    contents.add(_batch(40, values))
    return contents


@given(
    copied=st.lists(st.binary(max_size=2), min_size=1, max_size=8, unique=True),
    more=st.lists(st.binary(min_size=3, max_size=4), max_size=3),
    data=st.data(),
)
def test_matching_finds_the_first_record_that_was_not_copied(
    copied: list[bytes], more: list[bytes], data: st.DataObject
) -> None:
    """Whichever of those copied the source was cleaned of."""
    left = [value for value in copied if data.draw(st.booleans())]
    match = ContentMatch(_copied(*copied))
    if left or more:
        place = match.passed(_batch(0, left + more), 0)
        assert place == (len(left) if more else None)
    if not more:
        assert match.ended(len(left)) == len(left)


def test_records_that_are_equal_are_matched_in_their_order() -> None:
    """The second of two equal ones stands for itself; a third was not copied."""
    match = ContentMatch(_copied(b"x", b"y", b"x"))
    assert match.passed(_batch(0, [b"x", b"x"]), 0) is None
    assert match.passed(_batch(2, [b"x"]), 0) == 2


def test_order_is_part_of_a_match() -> None:
    """What comes before a record that was matched already was not copied from here."""
    assert ContentMatch(_copied(b"a", b"b")).passed(_batch(0, [b"b", b"a"]), 0) == 1


def test_the_first_record_behind_removed_ones_must_match() -> None:
    """Else those removed may not have been copied at all."""
    late = ContentMatch(_copied(b"a", b"b"))
    late.late = True
    with pytest.raises(CleanedError):
        late.passed(_batch(5, [b"c"]), 5)
    assert replace(late).passed(_batch(5, [b"b", b"c"]), 5) == 6


def test_contents_leave_out_the_timestamps_that_the_target_set() -> None:
    """They are compared by everything else."""
    contents = TargetContents()
    contents.add(_batch(40, [b"a"], timestamp=99, attributes=STAMPED_BY_THE_BROKER))
    assert ContentMatch(contents).passed(_batch(0, [b"a", b"b"], timestamp=1), 0) == 1


@given(keys=st.lists(st.integers(0, 3), min_size=1, max_size=30), data=st.data())
def test_a_match_finds_the_place_where_both_sides_were_cleaned(keys: list[int], data: st.DataObject) -> None:
    """The first record that was not copied, whatever cleaning took of the others on either side."""
    count = data.draw(st.integers(1, len(keys)), "copied")
    source = _cleaned(keys, data.draw(st.integers(0, len(keys)), "source cleaned up to"))
    there = _cleaned(keys[:count], data.draw(st.integers(0, count - 1), "target cleaned up to"))
    match = ContentMatch(_copied(*(b"%d" % offset for offset in there)), sparse=len(there) < count)
    expected = next((offset for offset in source if offset >= count), len(keys))
    found: int | None = None
    for offset in source:
        found = match.passed(_batch(offset, [b"%d" % offset]), 0)
        if found is not None:
            break
    assert (match.ended(len(keys)) if found is None else found) == expected


def _cleaned(keys: Sequence[int], end: int) -> list[int]:
    """Offsets that cleaning below ``end`` leaves: of each key the newest there, and all behind it."""
    newest = {key: offset for offset, key in enumerate(keys[:end])}
    return [*sorted(newest.values()), *range(end, len(keys))]


@pytest.mark.parametrize("tail", [None, _batch(40, [b"x"], last=2)], ids=["gone", "without its last record"])
def test_a_walk_whose_end_can_t_be_compared_needs_a_source_without_holes(tail: RecordBatch | None) -> None:
    """Else it would pass over records that were never copied, instead of those that cleaning took."""
    whole = [_batch(0, [b"a", b"b"]), _batch(2, [b"c", b"d"])]
    walk = SourceWalk(3, tail)
    assert [walk.passed(batch, batch.base_offset) for batch in whole] == [None, 3]
    for cleaned in ([_batch(0, [b"a"], last=1), whole[1]], [_batch(0, [b"a"]), whole[1]]):
        walk, position = SourceWalk(3, tail), 0
        with pytest.raises(CleanedError):  # noqa: PT012 - the last one of the batches
            for batch in cleaned:
                walk.passed(batch, position)
                position = batch.next_offset
            walk.ended(position)


def test_contents_say_nothing_where_others_values_may_have_replaced_ours() -> None:
    """A record of ours that cleaning took need not have a successor on the source."""
    shared = _assignment(shared=True)
    with pytest.raises(ReplicationFault) as raised:
        Realignment.over(shared, OffsetPair(0, 0, 0), OffsetPair(0, 9, 3), 3, _copied(b"a", b"b"))
    assert raised.value.fault.kind == "copy_lost"
    assert Realignment.over(_assignment(), OffsetPair(0, 0), OffsetPair(0, 3), 3, _copied(b"a", b"b")).records == 3


@pytest.mark.parametrize(
    "source",
    [
        [_batch(0, [b"a"], last=1), _batch(2, [b"c", b"d"])],
        [_batch(0, [b"a"]), _batch(2, [b"c", b"d"])],
        [_batch(0, [b"a", b"b"]), parsed(batches.batch(2, [(1, b"c")]))],
    ],
    ids=["in a batch", "between batches", "in the last batch"],
)
def test_a_walk_over_holes_ends_at_no_record_that_can_t_be_compared(source: list[RecordBatch]) -> None:
    """The one that has the number is not the one that was copied last."""
    walk = SourceWalk(3, None)
    assert walk.passed(source[0], 0) is None
    with pytest.raises(CleanedError):
        walk.passed(source[1], source[0].next_offset)


def test_a_walk_leaves_out_what_was_left_out() -> None:
    """It is not among those that were copied."""
    walk = SourceWalk(3, _batch(40, [b"d"]), skip=((1, 2),))
    assert walk.passed(_batch(0, [b"a", b"left out"]), 0) is None
    assert walk.passed(_batch(2, [b"c", b"d", b"e"]), 2) == 4


def test_of_a_cleaned_target_something_must_match_or_follow() -> None:
    """A source that has nothing there has lost it: cleaning keeps the newest record of each key."""
    match = ContentMatch(_copied(b"a"), sparse=True)
    with pytest.raises(CleanedError):
        match.ended(1)
    assert match.passed(_batch(1, [b"x"]), 1) is None
    assert match.ended(2) == 1


def test_another_record_at_an_offset_that_was_copied_is_no_cleaning() -> None:
    """Cleaning leaves offsets empty; the source was truncated, or made anew, and written to since."""
    over = Realignment.over(_assignment(), OffsetPair(0, 0), OffsetPair(0, 3), 3, _copied(b"a"))
    assert over.passed(_batch(2, [b"x"]), 0) is None
    with pytest.raises(ReplicationFault) as raised:
        over.ended(3)
    assert raised.value.fault.kind == "source_truncated"
