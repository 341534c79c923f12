"""The clock of a copy: when its first and its last records were there, and how long nothing came."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_ray.lab.bench import environment
from mirror_ray.lab.bench.environment import CopyGrowth
from mirror_ray.model.errors import MirrorError

#: A poll is at most so late.
_LATE_S = environment._POLL_S


class Copy:
    """A copy that grows by a clock: it is the clock, the ends that are asked for, and the contender."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, grows: dict[float, int]) -> None:
        """``grows``: how many records there are from each time on; -1: the topic does not exist yet."""
        self.now_s = 0.0
        self.grows = grows
        #: When the contender's process ends.
        self.dies_s = float("inf")
        monkeypatch.setattr(environment, "time", self)

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def total(self) -> int:
        return next((records for since_s, records in reversed(self.grows.items()) if since_s <= self.now_s), -1)

    def check(self) -> None:
        if self.now_s >= self.dies_s:
            raise MirrorError("it has ended")

    def progress(self) -> CopyGrowth:
        both: Any = self
        return CopyGrowth(both, both)


def test_the_first_and_the_last_records_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before the remote topic is there; and the first poll may find many."""
    progress = Copy(monkeypatch, {3.0: 0, 5.0: 400, 6.0: 900, 7.5: 1000}).progress()
    assert progress.until(1000, limit_s=60)
    assert (progress.first_total, progress.total) == (400, 1000)
    assert progress.first_s == pytest.approx(5.0, abs=_LATE_S)
    assert progress.last_s == pytest.approx(7.5, abs=_LATE_S)


def test_the_limit_begins_with_the_first_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a contender takes to start is not counted against it, and what is there when the time is over is known."""
    copy = Copy(monkeypatch, {50.0: 10, 55.0: 20, 70.0: 30})
    progress = copy.progress()
    assert not progress.until(30, limit_s=10)
    assert copy.now_s == pytest.approx(60.0, abs=2 * _LATE_S)
    assert progress.total == 20


def test_a_later_limit_begins_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first record came long before, as it does where a contender is killed in between."""
    copy = Copy(monkeypatch, {1.0: 10, 125.0: 20})
    progress = copy.progress()
    assert progress.until(10, limit_s=10)
    copy.now_s = 120.0
    assert progress.until(20, limit_s=10)


def test_a_copy_that_never_comes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """After two minutes without a record, however long the limit."""
    copy = Copy(monkeypatch, {1.0: 10})
    with pytest.raises(MirrorError, match="nothing arrived for 120 s after 10 records"):
        copy.progress().until(20, limit_s=1000)
    assert copy.now_s == pytest.approx(121.0, abs=2 * _LATE_S)


def test_a_contender_that_ends_ends_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once."""
    copy = Copy(monkeypatch, {1.0: 10})
    copy.dies_s = 2.0
    with pytest.raises(MirrorError, match="it has ended"):
        copy.progress().until(20, limit_s=1000)
    assert copy.now_s == pytest.approx(2.0, abs=_LATE_S)


def test_a_standstill_is_counted_from_the_mark_to_the_record_that_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was before the mark is no part of it, nor is the silence behind the last record."""
    copy = Copy(monkeypatch, {0.0: 10, 30.0: 20, 47.0: 30, 48.0: 40})
    progress = copy.progress()
    assert progress.until(20, limit_s=60)
    copy.now_s = 40.0
    progress.mark()
    assert (progress.marked_total, progress.standstill_s) == (20, 0.0)
    assert progress.until(40, limit_s=60)
    assert progress.standstill_s == pytest.approx(7.0, abs=_LATE_S)
    copy.now_s = 100.0
    progress.poll()
    assert progress.standstill_s == pytest.approx(7.0, abs=_LATE_S)


def test_it_has_settled_when_nothing_came_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record that still comes begins the while anew."""
    copy = Copy(monkeypatch, {0.0: 10, 3.0: 20, 6.0: 21, 12.0: 22})
    progress = copy.progress()
    progress.settle(quiet_s=4)
    assert progress.total == 21
    assert copy.now_s == pytest.approx(10.0, abs=2 * _LATE_S)
