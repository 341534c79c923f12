"""Notices that a broker leaves a connection's requests without an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple


class Unanswered(NamedTuple):
    """The requests of a connection that wait for their answers."""

    requests: int = 0
    #: The loop's time when the oldest one was sent.
    oldest_sent_at: float = 0.0
    #: Where it ends, in bytes, in all that was sent.
    oldest_end_bytes: int = 0


class StallWatch:
    """Calls ``on_stall`` with the reason when the oldest request has waited too long.

    The time counts from when the broker last sent anything, so one that sends slowly is not given up; nor is one that
    is silent because it throttles us, or that still takes bytes of the oldest request. Those of later ones say nothing:
    the kernel takes them for a process that is frozen.
    """

    def __init__(
        self,
        request_timeout_s: float,
        *,
        unanswered: Callable[[], Unanswered],
        acknowledged_bytes: Callable[[], int],
        on_stall: Callable[[str], None],
    ) -> None:
        """Prepare; nothing is watched yet.

        Args:
            request_timeout_s: How long a request may take.
            unanswered: What is under way now.
            acknowledged_bytes: How much of what we sent the peer's kernel has acknowledged.
            on_stall: Ends the connection.
        """
        self._request_timeout_s = request_timeout_s
        #: Give up sooner, where several requests are under way and the peer neither answers nor takes the oldest.
        self.stall_timeout_s: float | None = None
        self._unanswered, self._acknowledged_bytes, self._on_stall = unanswered, acknowledged_bytes, on_stall
        self._loop = asyncio.get_running_loop()
        self._last_byte_at = self._silent_until = 0.0
        self._seen_acknowledged = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Watch from now on, until all requests are answered; called when requests are sent."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._interval_s, self._check)

    def stop(self) -> None:
        """The connection has ended."""
        if self._timer is not None:
            self._timer.cancel()

    def on_bytes(self) -> None:
        """Bytes have come from the broker."""
        self._last_byte_at = self._loop.time()

    def expect_silence(self, seconds: float) -> None:
        """The broker has announced that it will not answer for so long (``throttle_time_ms``, KIP-219)."""
        self._silent_until = max(self._silent_until, self._loop.time() + seconds)

    @property
    def patience_s(self) -> float:
        """How long the broker may be silent, with as many requests as are outstanding now."""
        return self._interval_s if self._unanswered().requests > 1 else self._request_timeout_s

    @property
    def _interval_s(self) -> float:
        return min(self.stall_timeout_s or self._request_timeout_s, self._request_timeout_s)

    def _check(self) -> None:
        self._timer = None
        waiting = self._unanswered()
        if not waiting.requests:
            return
        now, patience_s = self._loop.time(), self.patience_s
        if patience_s < self._request_timeout_s and self._is_taking(waiting.oldest_end_bytes):
            self._last_byte_at = now
        deadline = max(waiting.oldest_sent_at, self._last_byte_at, self._silent_until) + patience_s
        if now >= deadline:
            self._on_stall(f"no answer within {patience_s:g} s")
        else:
            self._timer = self._loop.call_later(min(deadline - now, self._interval_s), self._check)

    def _is_taking(self, end_bytes: int) -> bool:
        """Whether the peer's kernel has acknowledged more, since the last check, of what was sent up to there."""
        before, self._seen_acknowledged = self._seen_acknowledged, self._acknowledged_bytes()
        return before < min(self._seen_acknowledged, end_bytes)
