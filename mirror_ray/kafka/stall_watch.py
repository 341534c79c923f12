"""Notices that a broker leaves a connection's requests without an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class StallWatch:
    """Calls ``on_stall`` with the reason when the oldest request has waited too long.

    The time counts from when the broker last sent anything, so one that sends slowly is not given up; nor is one that
    is silent because it throttles us, or that still takes bytes of a large request.
    """

    def __init__(
        self,
        request_timeout_s: float,
        *,
        outstanding: Callable[[], tuple[int, float]],
        acknowledged_bytes: Callable[[], int],
        on_stall: Callable[[str], None],
    ) -> None:
        """Prepare; nothing is watched yet.

        Args:
            request_timeout_s: How long a request may take.
            outstanding: How many requests are unanswered, and the loop's time when the oldest was sent.
            acknowledged_bytes: How much of what we sent the peer's kernel has acknowledged.
            on_stall: Ends the connection.
        """
        self._request_timeout_s = request_timeout_s
        #: Give up sooner, where several requests are under way and the peer neither answers nor takes bytes.
        self.stall_timeout_s: float | None = None
        self._outstanding, self._acknowledged_bytes, self._on_stall = outstanding, acknowledged_bytes, on_stall
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
        return self._interval_s if self._outstanding()[0] > 1 else self._request_timeout_s

    @property
    def _interval_s(self) -> float:
        return min(self.stall_timeout_s or self._request_timeout_s, self._request_timeout_s)

    def _check(self) -> None:
        self._timer = None
        count, oldest_sent_at = self._outstanding()
        if not count:
            return
        now, patience_s = self._loop.time(), self.patience_s
        if patience_s < self._request_timeout_s and self._is_taking_bytes():
            self._last_byte_at = now
        deadline = max(oldest_sent_at, self._last_byte_at, self._silent_until) + patience_s
        if now >= deadline:
            self._on_stall(f"no answer within {patience_s:g} s")
        else:
            self._timer = self._loop.call_later(min(deadline - now, self._interval_s), self._check)

    def _is_taking_bytes(self) -> bool:
        """Whether the peer's kernel has acknowledged more of what we sent than at the last check."""
        before, self._seen_acknowledged = self._seen_acknowledged, self._acknowledged_bytes()
        return self._seen_acknowledged > before
