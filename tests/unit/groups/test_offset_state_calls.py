"""A group's entry by single calls: which place is taken, what counts as ours, and what is said before it is done."""

from __future__ import annotations

from mirror_ray.groups.commit_rules import ACTIVE, WriteOffset
from mirror_ray.groups.offset_state import GroupOffset, GroupOffsetState
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.translation import Translation
from mirror_ray.records.mm2_records import CheckpointRecord

SOURCE, REMOTE, ALL = TopicPartition("orders", 3), TopicPartition("A.orders", 3), TopicPartition("all", 3)


def standing(state: GroupOffsetState, offset: int, place: int) -> GroupOffset:
    """The group has committed on the source, and its place is known."""
    state.committed("g", {SOURCE: CommittedOffset(offset)})
    entry = state.entry("g", SOURCE)
    state.translated(entry, offset, 1, Translation(offset=place))
    return entry


def synced(state: GroupOffsetState, offset: int, place: int, on_target: int | None) -> GroupOffset:
    """And it was written on the target."""
    entry = standing(state, offset, place)
    assert state.compare(entry, on_target) == WriteOffset(place)
    state.emitted(entry, state.checkpoint(entry, REMOTE), entry.written)
    state.wrote(entry, None)
    return entry


def test_a_place_for_an_offset_that_was_replaced_is_none() -> None:
    """The answer came too late."""
    state = GroupOffsetState()
    state.committed("g", {SOURCE: CommittedOffset(5)})
    entry = state.entry("g", SOURCE)
    state.committed("g", {SOURCE: CommittedOffset(9)})
    state.translated(entry, 5, 1, Translation(offset=105))
    assert entry.translation is None
    assert entry in state.untranslated


def test_going_back_is_a_lower_offset() -> None:
    """Other metadata is none; and once it is synced, it is over."""
    state = GroupOffsetState()
    entry = synced(state, 5, 105, None)
    state.committed("g", {SOURCE: CommittedOffset(5, metadata="again")})
    assert not entry.went_back
    state.committed("g", {SOURCE: CommittedOffset(4)})
    assert entry.went_back
    state.translated(entry, 4, 2, Translation(offset=104))
    assert state.compare(entry, 105) == WriteOffset(104)
    state.wrote(entry, None)
    assert not entry.went_back


def test_what_is_to_be_written_is_said_first() -> None:
    """With what stands there, which is ours until the new one is seen."""
    state = GroupOffsetState()
    entry = synced(state, 5, 105, None)
    standing(state, 9, 109)
    state.emitted(entry, state.checkpoint(entry, REMOTE), entry.written)
    assert state.compare(entry, 105) == WriteOffset(109)
    assert entry in state.unemitted
    assert entry.written == (109, 105)
    state.wrote(entry, None)
    assert entry.to_commit == (109, "")
    assert len(entry.written) == 1
    assert entry not in state.unsynced


def test_what_an_active_group_refused_is_not_ours() -> None:
    """It may commit the same offset itself; it is looked at again."""
    state = GroupOffsetState()
    entry = synced(state, 5, 105, None)
    standing(state, 9, 109)
    state.compare(entry, 105)
    state.unemitted.clear()
    state.wrote(entry, ACTIVE)
    assert entry.written == (105,)
    assert entry in state.unemitted
    assert entry in state.unsynced


def test_what_was_refused_is_tried_again() -> None:
    """And may have been taken all the same."""
    state = GroupOffsetState()
    entry = standing(state, 9, 109)
    state.compare(entry, None)
    state.wrote(entry, "REQUEST_TIMED_OUT")
    assert entry in state.unsynced
    assert (entry.written, entry.reason) == ((109,), "REQUEST_TIMED_OUT")


def test_a_group_that_is_gone_is_not_put_on() -> None:
    """On the target it stays where it is."""
    state = GroupOffsetState()
    entry = standing(state, 9, 109)
    state.forget(["g"])
    assert entry.source is None
    assert entry not in state.unsynced
    assert state.checkpoint(entry, REMOTE) is None
    state.recheck()
    assert entry not in state.unsynced


def test_a_merged_place_goes_back_with_any_of_its_topics() -> None:
    """By what an earlier life has told of them, too."""
    state = GroupOffsetState()
    checkpoint = CheckpointRecord(group="g", partition=ALL, upstream_offset=7, downstream_offset=30)
    state.restore_merged(checkpoint, (30,), {"a": 7, "b": 9})
    state.merge("g", ALL, CommittedOffset(7), Translation(offset=30), {"a": 7, "b": 9})
    entry = state.merged_entry("g", ALL)
    assert not entry.went_back
    state.merge("g", ALL, CommittedOffset(7), Translation(offset=20), {"a": 7, "b": 8})
    assert entry.went_back
