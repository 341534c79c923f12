"""When a broker's silence ends a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from mirror_ray.kafka.stall_watch import StallWatch, Unanswered

LIMIT_S = 30.0


class Loop:
    """A clock that a test moves on, with one timer."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due: tuple[float, Callable[[], None]] | None = None

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Loop:
        self._due = self.now_s + delay_s, callback
        return self

    def cancel(self) -> None:
        """See ``asyncio.TimerHandle``."""
        self._due = None

    def advance(self, to_s: float) -> None:
        """Let the timer go off as often as it is due until then."""
        while self._due is not None and self._due[0] <= to_s:
            self.now_s, callback = self._due
            self._due = None
            callback()
        self.now_s = to_s


class Watched:
    """A connection's side of a watch."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.sent_at: list[float] = []
        self.acknowledged_bytes = 0
        #: Where the oldest request ends.
        self.oldest_end_bytes = 1_000_000
        self.stalls: list[str] = []
        self.watch = StallWatch(
            LIMIT_S,
            unanswered=lambda: Unanswered(len(self.sent_at), min(self.sent_at, default=0.0), self.oldest_end_bytes),
            acknowledged_bytes=lambda: self.acknowledged_bytes,
            on_stall=self._stalled,
        )

    def send(self) -> None:
        """A request goes out."""
        self.sent_at.append(self.loop.now_s)
        self.watch.start()

    def _stalled(self, reason: str) -> None:
        self.stalls.append(reason)
        self.sent_at.clear()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Nothing is under way, and it is 100 s."""
    loop = Loop()
    loop.now_s = 100.0
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: cast("asyncio.AbstractEventLoop", loop))
    return Watched(loop)


def test_a_request_may_take_its_time_and_no_more(watched: Watched) -> None:
    """Answered ones count for nothing."""
    watched.send()
    watched.loop.advance(129.0)
    assert watched.stalls == []
    watched.loop.advance(131.0)
    assert watched.stalls == ["no answer within 30 s"]
    watched.send()
    watched.sent_at.clear()
    watched.loop.advance(1000.0)
    assert len(watched.stalls) == 1


def test_requests_behind_each_other_stall_sooner(watched: Watched) -> None:
    """One alone may take as long as it takes."""
    watched.watch.stall_timeout_s = 1.5
    watched.send()
    assert watched.watch.patience_s == LIMIT_S
    watched.loop.advance(110.0)
    watched.send()
    assert watched.watch.patience_s == 1.5
    watched.loop.advance(112.0)
    assert watched.stalls == ["no answer within 1.5 s"]


def test_a_peer_that_takes_bytes_or_sends_some_is_no_stall(watched: Watched) -> None:
    """Nor is one that has announced its silence."""
    watched.watch.stall_timeout_s = 1.0
    watched.send()
    watched.send()
    for second in range(101, 105):
        watched.acknowledged_bytes += 1000
        watched.loop.advance(float(second))
    watched.watch.on_bytes()
    watched.watch.expect_silence(5.0)
    watched.loop.advance(109.5)
    assert watched.stalls == []
    watched.loop.advance(111.0)
    assert watched.stalls == ["no answer within 1 s"]


def test_bytes_behind_the_oldest_request_say_nothing(watched: Watched) -> None:
    """The kernel of a process that is frozen takes them while its buffer has room, and the process when it wakes."""
    watched.watch.stall_timeout_s = 1.0
    watched.send()
    watched.send()
    watched.oldest_end_bytes = 1500
    for tenth in range(1005, 1050, 5):
        watched.acknowledged_bytes += 1000
        watched.loop.advance(tenth / 10)
    assert watched.stalls == ["no answer within 1 s"]
    assert watched.loop.now_s < 105


def test_the_end_of_the_connection_ends_the_watch(watched: Watched) -> None:
    """Its requests have failed by then."""
    watched.send()
    watched.watch.stop()
    watched.loop.advance(1000.0)
    assert watched.stalls == []
