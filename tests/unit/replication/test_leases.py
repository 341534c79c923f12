"""Leases: what is shown by reads of the state topic, whoever reads it late, and whoever stands still meanwhile."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mirror_ray.model.lease_terms import LeaseTerms
from mirror_ray.model.names import TopicPartition
from mirror_ray.replication.leases import LeaseTable, Tenure

TERMS = LeaseTerms(4000)
P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


def _book(epoch: int = 1, offset: int = 10) -> LeaseTable:
    """That holds P, and has been shown its grant."""
    book = LeaseTable(TERMS)
    assert book.assign(P, Tenure(epoch, "a"), offset, 0.0)
    book.shown([(P, Tenure(epoch, "a"))])
    return book


def test_nothing_is_held_before_a_whole_read() -> None:
    """An assignment alone is no lease."""
    book = _book()
    assert not book.holds(P, 0.0)
    assert book.looked(0.0, 0.1)
    assert book.holds(P, 0.1)


def test_a_lease_counts_from_the_begin_of_the_read() -> None:
    """However late the answer is seen: a process that stood still in between has no lease."""
    book = _book()
    assert not book.looked(0.0, 60.0)
    assert not book.holds(P, 60.0)
    assert book.looked(60.0, 60.1)
    assert book.holds(P, 60.0 + TERMS.sending_s - 0.01)
    assert not book.holds(P, 60.0 + TERMS.sending_s)


def test_a_higher_epoch_ends_it_at_once() -> None:
    """The other partition goes on; what is handed out again with the highest epoch is held again."""
    book = _book()
    book.assign(Q, Tenure(1, "a"), 10, 0.0)
    book.shown([(Q, Tenure(1, "a"))])
    book.looked(0.0, 0.0)
    (given_up,) = book.shown([(P, Tenure(2, "a")), (Q, Tenure(1, "a"))])
    assert given_up == (P, "it was handed out with epoch 2, ours is 1")
    assert not book.holds(P, 0.1)
    assert book.holds(Q, 0.1)
    assert not book.assign(P, Tenure(1, "a"), 12, 0.1)
    book.shown([(P, Tenure(3, "a"))])
    assert book.assign(P, Tenure(3, "a"), 14, 0.1)
    assert book.holds(P, 0.1)


@pytest.mark.parametrize("first", ["a", "b"])
def test_two_coordinators_with_one_epoch_have_both_lost(first: str) -> None:
    """Whose grant is read first says nothing; the next epoch, of either, is good."""
    book = _book()
    book.looked(0.0, 0.0)
    (given_up,) = book.shown([(P, Tenure(2, first)), (P, Tenure(2, "b" if first == "a" else "a"))])
    assert given_up.partition == P
    assert not book.assign(P, Tenure(2, "a"), 12, 0.1)
    assert not book.assign(P, Tenure(2, "b"), 12, 0.1)
    book.shown([(P, Tenure(3, "b"))])
    assert book.assign(P, Tenure(3, "b"), 14, 0.1)


def test_the_same_epoch_of_another_coordinator_ends_it() -> None:
    """One that raised the epoch from an older state than ours was raised from."""
    book = _book()
    book.looked(0.0, 0.0)
    assert book.shown([(P, Tenure(1, "b"))]) == [(P, "another coordinator has handed it out, too, with epoch 1")]
    assert not book.holds(P, 0.1)
    assert not book.assign(P, Tenure(1, "a"), 12, 0.1)


def test_an_assignment_that_was_read_of_is_held_at_once() -> None:
    """The grant is in the topic before the assignment comes, and was read already."""
    book = _book()
    book.looked(0.0, 0.0)
    book.shown([(Q, Tenure(1, "a"))])
    book.assign(Q, Tenure(1, "a"), 12, 0.1)
    assert book.holds(Q, 0.1)


def test_an_assignment_whose_grant_was_not_read_yet_waits_for_it() -> None:
    """A whole read that began before the assignment came may have missed it; one that began later has not."""
    book = _book()
    book.looked(0.0, 0.0)
    book.assign(Q, Tenure(1, "a"), 12, 0.2)
    assert not book.holds(Q, 0.2)
    book.looked(0.1, 0.3)
    assert book.ungranted(0.1) == []
    assert not book.holds(Q, 0.3)
    book.shown([(Q, Tenure(1, "a"))])
    assert book.looked(0.2, 0.4)
    assert book.ungranted(0.2) == []
    assert book.holds(Q, 0.4)


def test_a_grant_that_the_topic_has_lost_is_none() -> None:
    """Whoever reads the state now does not know of it, and may hand out the same epoch."""
    book = _book()
    book.assign(Q, Tenure(7, "a"), 12, 0.2)
    book.looked(0.2, 0.3)
    assert book.ungranted(0.2) == [(Q, "the state topic does not hold its grant any more")]
    assert book.holds(P, 0.3)
    assert not book.holds(Q, 0.3)


def test_a_log_that_lost_its_end_is_read_again() -> None:
    """Nothing is held until then; afterwards what it still shows, and what it showed before counts no more."""
    book = _book()
    book.assign(Q, Tenure(1, "a"), 10, 0.0)
    book.shown([(Q, Tenure(1, "a"))])
    book.looked(0.0, 0.0)
    book.begin_anew(0.1)
    assert book.read_from == -1
    assert not book.lasts(0.1)
    assert not book.holds(P, 0.1)
    book.shown([(P, Tenure(1, "a"))])
    assert book.looked(0.2, 0.3)
    assert [given_up.partition for given_up in book.ungranted(0.2)] == [Q]
    assert book.holds(P, 0.3)
    assert book.assign(Q, Tenure(1, "b"), 30, 0.4)


def test_an_earlier_offset_needs_a_read_from_there() -> None:
    """What lies before the place that was read from so far may show a higher epoch."""
    book = _book(offset=10)
    book.looked(0.0, 0.0)
    assert book.assign(Q, Tenure(1, "a"), 5, 0.1)
    assert book.read_from == 5
    book.shown([(Q, Tenure(1, "a"))])
    assert book.holds(P, 0.1)
    assert not book.holds(Q, 0.1)
    assert book.looked(0.1, 0.2)
    assert book.holds(Q, 0.2)


def test_an_earlier_offset_needs_a_read_from_there_though_the_grant_was_seen() -> None:
    """As above: it is not the newest one for sure."""
    book = _book(offset=10)
    book.looked(0.0, 0.0)
    book.shown([(Q, Tenure(1, "a"))])
    assert book.assign(Q, Tenure(1, "a"), 5, 0.1)
    assert not book.holds(Q, 0.1)
    assert book.looked(0.1, 0.2)
    assert book.holds(Q, 0.2)


def test_terms_leave_nothing_on_its_way() -> None:
    """What is sent last is given up by the kernel before a takeover hands out."""
    assert TERMS.sending_s + TERMS.kernel_ms / 1000 <= TERMS.lease_ms / 1000 < TERMS.takeover_s
    assert 4 * TERMS.look_ms / 1000 < TERMS.sending_s


class Takeovers(RuleBasedStateMachine):
    """One partition, a coordinator that never sees anybody dead, and holders that stand still whenever they like."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.log: list[int] = []
        self.holders: list[LeaseTable] = []
        self.epochs: list[int] = []
        self.reading: dict[int, tuple[float, int]] = {}
        self.fenced_s: float | None = None
        #: When the kernel gives up what each holder has sent last.
        self.arrives_until_s: dict[int, float] = {}
        self._hand_out()

    def _hand_out(self) -> None:
        offset = len(self.log)
        self.log.append(len(self.log) + 1)
        book = LeaseTable(TERMS)
        book.assign(P, Tenure(self.log[-1]), offset, self.now_s)
        self.holders.append(book)
        self.epochs.append(self.log[-1])
        self.fenced_s = None

    @rule(seconds=st.floats(0.01, 3.0))
    def time_passes(self, seconds: float) -> None:
        """Nobody does anything."""
        self.now_s += seconds

    @rule()
    def take_over(self) -> None:
        """A higher epoch is written for the holder to see."""
        if self.fenced_s is None:
            self.log.append(len(self.log) + 1)
            self.fenced_s = self.now_s

    @rule()
    def hand_out(self) -> None:
        """Not before the lease is over."""
        if self.fenced_s is not None and self.now_s >= self.fenced_s + TERMS.takeover_s:
            self._hand_out()

    @rule(data=st.data())
    def begin_read(self, data: st.DataObject) -> None:
        """A holder's read sees the log as it is now."""
        holder = data.draw(st.integers(0, len(self.holders) - 1))
        self.reading.setdefault(holder, (self.now_s, len(self.log)))

    @rule(data=st.data())
    def end_read(self, data: st.DataObject) -> None:
        """The answer is looked at, however late."""
        if self.reading:
            holder = data.draw(st.sampled_from(sorted(self.reading)))
            began_s, end = self.reading.pop(holder)
            book = self.holders[holder]
            book.shown((P, Tenure(epoch)) for epoch in self.log[book.read_from or 0 : end])
            book.looked(began_s, self.now_s)
            assert book.ungranted(began_s) == []

    @rule(data=st.data())
    def send(self, data: st.DataObject) -> None:
        """Something goes to the kernel, if it may."""
        holder = data.draw(st.integers(0, len(self.holders) - 1))
        if self.holders[holder].holds(P, self.now_s):
            self.arrives_until_s[holder] = self.now_s + TERMS.kernel_ms / 1000

    @invariant()
    def only_the_newest_holder_writes(self) -> None:
        """Whatever an older one has sent has arrived, or never will."""
        newest = len(self.holders) - 1
        for holder in range(newest):
            assert self.arrives_until_s.get(holder, 0.0) <= self.now_s
            assert not self.holders[holder].holds(P, self.now_s)


TestTakeovers = Takeovers.TestCase
TestTakeovers.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)


def test_a_lease_is_over_at_its_end() -> None:
    """From that moment on somebody else may begin."""
    book = _book()
    assert book.looked(0.0, 0.0)
    assert book.lasts(TERMS.sending_s - 0.01)
    assert not book.lasts(TERMS.sending_s)


def test_an_older_grant_says_nothing_against_a_newer_one() -> None:
    """When the topic is read from further back."""
    book = _book(epoch=5)
    book.shown([(P, Tenure(7, "b")), (P, Tenure(5, "a"))])
    assert not book.assign(P, Tenure(6, "a"), 10, 0.1)
    assert book.assign(P, Tenure(8, "a"), 10, 0.1)
