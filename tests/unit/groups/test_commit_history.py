"""The commit history tells what held at any moment that somebody looked at, and else that it is not known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.groups.commit_history import READING_VALID_MS, CommitHistory, CommitRecorder, UnknownHistory
from mirror_ray.groups.offset_state import GroupOffsetState
from mirror_ray.model.committed_offset import Commits, CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.commit_record import SNAPSHOT_MS, CommitRecord

START_MS = 1_700_000_000_000
PARTITIONS = [TopicPartition("orders", number) for number in range(3)]

State = Mapping[str, Mapping[TopicPartition, CommittedOffset]]

OFFSETS = st.dictionaries(
    st.sampled_from(PARTITIONS), st.builds(CommittedOffset, st.integers(0, 50), st.integers(-1, 1)), max_size=3
)
#: A group, and all that it has committed; milliseconds until the next look.
STEPS = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), OFFSETS, st.sampled_from([1, 2_000, 15_000, 55_000])),
    min_size=1,
    max_size=30,
)


class Watcher:
    """A checkpoint actor, its clock, and what groups really had committed at each of its looks."""

    def __init__(self, number: int = 0, of: int = 1, life: int = 1, at_ms: int = START_MS) -> None:
        self.recorder = CommitRecorder(life.to_bytes(16, "big"), number, of)
        self.offsets = GroupOffsetState()
        self.at_ms = at_ms
        self.state: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self.truth: list[tuple[int, State]] = []
        self.records: list[CommitRecord] = []

    def look(self, after_ms: int = 2_000, /, **groups: Mapping[TopicPartition, CommittedOffset]) -> list[CommitRecord]:
        """The next look, at which these groups have committed this and no more."""
        self.at_ms += after_ms
        for group, offsets in groups.items():
            self.offsets.committed(group, offsets)
            self.state[group] = dict(offsets)
        self.truth.append((self.at_ms, {group: dict(offsets) for group, offsets in self.state.items() if offsets}))
        records = [CommitRecord.decode(record.encode()[1]) for record in self.recorder.record(self.offsets, self.at_ms)]
        self.records += records
        return records


def ask(records: Iterable[CommitRecord], at_ms: int) -> Commits | UnknownHistory:
    """What a reader of these records says."""
    history = CommitHistory(at_ms)
    for record in records:
        history.take(record)
    return history.commits()


@given(STEPS, st.data())
def test_the_state_at_any_moment_is_the_true_one(
    steps: list[tuple[str, dict[TopicPartition, CommittedOffset], int]], data: st.DataObject
) -> None:
    """Between two looks, that of the one before; groups that come, go, lose offsets and come back."""
    watcher = Watcher()
    for group, offsets, after_ms in steps:
        watcher.look(after_ms, **{group: offsets})
    at_ms = data.draw(st.integers(watcher.truth[0][0], watcher.truth[-1][0]))
    expected = next(state for seen_ms, state in reversed(watcher.truth) if seen_ms <= at_ms)
    assert ask(watcher.records, at_ms) == expected
    again = data.draw(st.integers(0, len(watcher.records)))
    twice = watcher.records[:again] + watcher.records[max(0, again - 3) :]
    assert ask(twice, at_ms) == expected


@given(STEPS, st.data())
def test_a_reader_that_begins_later_knows_from_the_next_snapshot_on(
    steps: list[tuple[str, dict[TopicPartition, CommittedOffset], int]], data: st.DataObject
) -> None:
    """Wherever the topic begins by now: what is told is true, and behind a snapshot it is told."""
    watcher = Watcher()
    for group, offsets, after_ms in steps:
        watcher.look(after_ms, **{group: offsets})
    watcher.look(SNAPSHOT_MS)
    begin = data.draw(st.integers(0, len(watcher.records) - 1))
    at_ms = data.draw(st.sampled_from([seen_ms for seen_ms, _ in watcher.truth]))
    found = ask(watcher.records[begin:], at_ms)
    if not isinstance(found, UnknownHistory):
        assert found == dict(watcher.truth)[at_ms]
    assert ask(watcher.records[begin:], watcher.at_ms) == watcher.truth[-1][1]


def many(value: int) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    """More than one record holds."""
    offsets = {TopicPartition("t", number): CommittedOffset(value, metadata="m" * 4000) for number in range(60)}
    return {f"g{number}": offsets for number in range(3)}


def test_a_snapshot_that_was_cut_off_is_ignored() -> None:
    """A crash in the middle of it: the one before it holds, with the changes up to there."""
    watcher = Watcher()
    watcher.look(**many(1))
    at_ms = watcher.at_ms + 4_000
    watcher.look(4_000, g0={PARTITIONS[0]: CommittedOffset(5)})
    whole = list(watcher.records)
    watcher.at_ms = START_MS + SNAPSHOT_MS
    cut = watcher.look(**many(3))
    assert len(cut) > 2
    assert {record.kind for record in cut} == {"snapshot"}
    found = ask([*whole, *cut[:-1]], at_ms)
    assert not isinstance(found, UnknownHistory)
    assert found["g0"] == {PARTITIONS[0]: CommittedOffset(5)}
    assert found["g1"] == many(1)["g1"]
    assert isinstance(ask(cut[1:], watcher.at_ms), UnknownHistory)
    assert ask(cut, watcher.at_ms) == many(3)


def test_what_is_missing_is_not_guessed() -> None:
    """A record that is lost makes all unknown up to the next snapshot."""
    watcher = Watcher()
    for number in range(5):
        watcher.look(a={PARTITIONS[0]: CommittedOffset(number)})
    assert isinstance(ask(watcher.records[:2] + watcher.records[3:], watcher.at_ms), UnknownHistory)


def test_a_time_in_which_nobody_looked_is_not_known() -> None:
    """The actor was dead, and what it finds afterwards says nothing about the time between."""
    first = Watcher()
    first.look(a={PARTITIONS[0]: CommittedOffset(1)})
    second = Watcher(life=2, at_ms=first.at_ms + 10 * READING_VALID_MS)
    second.look(a={PARTITIONS[0]: CommittedOffset(2)})
    records = [*first.records, *second.records]
    assert ask(records, first.at_ms + READING_VALID_MS) == first.state
    between = ask(records, first.at_ms + READING_VALID_MS + 1)
    assert between == UnknownHistory(oldest_ms=first.at_ms, before_ms=first.at_ms)
    assert ask(records, second.at_ms) == second.state
    assert ask(records, first.at_ms - 1) == UnknownHistory(oldest_ms=first.at_ms, before_ms=None)
    assert ask([], 0) == UnknownHistory(oldest_ms=None, before_ms=None)


def test_a_quiet_time_is_one_in_which_somebody_looked() -> None:
    """Nothing changes for an hour, and every moment of it can be asked."""
    watcher = Watcher()
    watcher.look(a={PARTITIONS[0]: CommittedOffset(1)})
    for _ in range(1000):
        watcher.look(2_000)
    assert len(watcher.records) < 250
    for at_ms in range(START_MS + 2_000, watcher.at_ms, 7_777):
        assert ask(watcher.records, at_ms) == watcher.state


def test_all_shares_must_be_known() -> None:
    """Two checkpoint actors: both, or nothing; afterwards three, which count when all of them have looked."""
    two = [Watcher(number, 2, life=number) for number in range(2)]
    two[0].look(a={PARTITIONS[0]: CommittedOffset(1)})
    assert isinstance(ask(two[0].records, two[0].at_ms), UnknownHistory)
    two[1].look(3_000, b={PARTITIONS[1]: CommittedOffset(2)})
    records = [*two[0].records, *two[1].records]
    both = {**two[0].state, **two[1].state}
    assert ask(records, two[1].at_ms) == both
    three = [Watcher(number, 3, life=10 + number, at_ms=two[1].at_ms) for number in range(3)]
    for moment in three[:2]:
        moment.look(a={PARTITIONS[2]: CommittedOffset(9)})
    records += [*three[0].records, *three[1].records]
    assert ask(records, three[0].at_ms) == both
    three[2].look(5_000)
    assert ask([*records, *three[2].records], three[2].at_ms) == three[0].state


def test_of_two_lives_the_newer_one_knows() -> None:
    """An actor that was given up for dead, and its successor, both write."""
    old, new = Watcher(life=1), Watcher(life=2, at_ms=START_MS + 1)
    old.look(a={PARTITIONS[0]: CommittedOffset(1)})
    new.look(a={PARTITIONS[0]: CommittedOffset(2)})
    records = [*old.records, *new.records, *old.look(5_000, a={PARTITIONS[0]: CommittedOffset(3)})]
    assert ask(records, new.at_ms + 3_000) == new.state


def test_what_is_lost_after_the_moment_changes_nothing() -> None:
    """Not what was known of the moment; and where it may have been from before, nothing is guessed."""
    watcher = Watcher()
    for number in range(6):
        watcher.look(a={PARTITIONS[0]: CommittedOffset(number)})
    without = watcher.records[:4] + watcher.records[5:]
    for seen_ms, state in watcher.truth[:3]:
        assert ask(without, seen_ms + 1) == state
    assert isinstance(ask(without, watcher.truth[4][0]), UnknownHistory)
    assert isinstance(ask(without, watcher.truth[3][0] + 1), UnknownHistory)
    watcher.look(SNAPSHOT_MS)
    assert ask([*without, watcher.records[-1]], watcher.truth[1][0]) == watcher.truth[1][1]
