"""What a flow has noted of a partition holds for the pair, and the logs, that it was noted of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror_ray.coordinator.assignment_rules import PartitionWeight, assign
from mirror_ray.model.fault import FaultPolicy, PartitionFault
from mirror_ray.model.names import FlowName, FlowPartition, TopicId, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.state.records import FaultResolution, Pause
from tests.support import fault_actions
from tests.support.fault_actions import CONTEXT, action, declined

RECORD = replace(fault_actions.RECORD, source_epoch=3, target_epoch=4, settled=True, recounting=True).with_origin(
    OffsetPair(10, 50)
)


def test_another_pair_has_its_own_notes() -> None:
    """Its leader epochs, its sequence; that nothing lies behind it, or that its place is looked for, is not known."""
    moved = RECORD.at(OffsetPair(110, 100, 7, 5, 6))
    assert (moved.pair.source_epoch, moved.pair.target_epoch, moved.sequence) == (5, 6, 7)
    assert not moved.settled
    assert not moved.recounting
    same = RECORD.at(RECORD.pair)
    assert same.settled
    assert same.recounting


def test_another_log_of_the_target_is_not_settled() -> None:
    """Nor is its leader epoch known."""
    cut = RECORD.of_cut_target(80)
    assert (cut.target_epoch, cut.settled) == (-1, False)


@pytest.mark.parametrize(("end", "reached"), [(None, 110), (110, 110), (109, 109)])
def test_what_lies_behind_the_copys_end_is_no_place(end: int | None, reached: int) -> None:
    """It was passed over, and belongs to the live copy."""
    pair = replace(RECORD, end_offset=end).up_to_end(OffsetPair(110, 95, None, 3))
    assert (pair.source_offset, pair.source_epoch) == (reached, 3 if reached == 110 else -1)


# ---- answers


def test_a_recreated_source_needs_a_new_producer_where_the_target_has_moved() -> None:
    """The broker knows other sequences than those of the pair."""
    context = replace(CONTEXT, source_topic_id=TopicId("s2"))
    assert not action("source_recreated", "skip", RECORD, context).new_producer
    assert action("source_recreated", "skip", RECORD, replace(context, target_end=95)).new_producer


@pytest.mark.parametrize("policy", ["skip", "resync"])
def test_a_copy_that_ends_is_not_taken_to_another_topic(policy: FaultPolicy) -> None:
    """Its end is an offset of the former one: a backfill would be done where it ends by chance."""
    context, ending = replace(CONTEXT, source_topic_id=TopicId("s2")), replace(RECORD, end_offset=500)
    reason = declined("source_recreated", policy, ending, context)
    assert "ends at source offset 500 of the former topic" in reason
    action("source_recreated", policy, RECORD, context)


def test_what_is_emptied_is_copied_whole() -> None:
    """Also what was left out; where nothing is left but the source has lost some, the same."""
    record = replace(RECORD, skip=((20, 21),))
    anew = action("copy_lost", "resync", record, CONTEXT)
    assert (anew.record.skip, anew.empty_to, anew.record.source_offset) == ((), 90, 5)
    gone = action("copy_lost", "resync", record, replace(CONTEXT, source_start=101, target_start=90))
    assert (gone.record.skip, gone.empty_to, gone.record.source_offset) == ((), 90, 101)


@pytest.mark.parametrize(("end", "again"), [(50, True), (49, False)])
def test_it_is_counted_again_from_an_origin_that_is_there(end: int, again: bool) -> None:
    """Otherwise the target is emptied."""
    record = replace(RECORD, recounting=False)
    found = action("target_truncated", "resync", record, replace(CONTEXT, target_end=end), target_from=end)
    assert (found.record.recounting, found.empty_to) == ((True, None) if again else (False, end))


def test_where_it_goes_on_it_has_a_new_origin() -> None:
    """What was removed can't be counted any more."""
    done = action("source_removed", "skip", RECORD, replace(CONTEXT, source_start=120), OffsetPair(120, 90))
    assert done.record.origin == OffsetPair(120, 90)


def test_a_range_inside_another_one_changes_nothing() -> None:
    """They are left out together."""
    record = replace(RECORD, skip=((100, 200),))
    found = action("record_refused", "skip", record, CONTEXT, source_from=120, source_to=121)
    assert found.record.skip == ((100, 200),)


def test_strangers_are_accepted_up_to_the_cut_and_no_further() -> None:
    """A log that has grown again holds others behind it."""
    found = action("target_truncated", "skip", replace(RECORD, foreign_to=80, shared=True), CONTEXT, target_from=60)
    assert found.record.foreign_to == 60


# ---- what else is kept, and who has what


def test_a_pause_is_of_its_own_topic_and_partition() -> None:
    """The others go on."""
    where = [TopicPartition(topic, number) for topic in "tu" for number in (0, 1)]
    assert [Pause("t").covers(partition) for partition in where] == [True, True, False, False]
    assert [Pause("t", 1).covers(partition) for partition in where] == [False, True, False, False]
    assert all(Pause().covers(partition) for partition in where)


def test_a_gap_says_what_its_trouble_said() -> None:
    """On both sides."""
    trouble = PartitionFault(kind="target_foreign", text="x", source_from=1, source_to=2, target_from=3, target_to=4)
    gap = FaultResolution(trouble=trouble, policy="skip", time_ms=5).skipped_range()
    assert (gap.source_from, gap.source_to, gap.target_from, gap.target_to) == (1, 2, 3, 4)


@pytest.mark.parametrize("owner", ["r0", "r1"])
def test_what_one_has_too_much_another_one_has_alone(owner: str) -> None:
    """Whichever comes first by name."""
    partitions = [FlowPartition(FlowName("A", "B"), "t", number) for number in range(6)]
    placed = assign(dict.fromkeys(partitions, PartitionWeight()), ["r0", "r1"], dict.fromkeys(partitions, owner))
    assert sorted(placed.values()) == ["r0"] * 3 + ["r1"] * 3
