"""Rates over a short window, from cumulative counters."""

from __future__ import annotations

from collections import deque

#: Long enough to smooth large requests, short enough to show a change while one looks.
WINDOW_S = 5.0


class RateMeter:
    """Records/s and bytes/s over the last ``window_s`` seconds."""

    __slots__ = ("_samples", "_window_s")

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._samples: deque[tuple[float, int, int]] = deque()

    def sample(self, now_s: float, records: int, bytes_: int) -> None:
        """Take the counters' values at ``now_s``. Counters that went backwards begin anew."""
        samples = self._samples
        if samples and records < samples[-1][1]:
            samples.clear()
        samples.append((now_s, records, bytes_))
        while len(samples) > 2 and samples[1][0] <= now_s - self._window_s:
            samples.popleft()

    def rates(self, now_s: float) -> tuple[float, float]:
        """(records/s, bytes/s); zero when nothing was sampled for a window's time."""
        samples = self._samples
        if len(samples) < 2 or samples[-1][0] <= now_s - self._window_s:
            return 0.0, 0.0
        (start_s, records, bytes_), (end_s, last_records, last_bytes) = samples[0], samples[-1]
        elapsed_s = end_s - start_s
        if elapsed_s <= 0:
            return 0.0, 0.0
        return (last_records - records) / elapsed_s, (last_bytes - bytes_) / elapsed_s
