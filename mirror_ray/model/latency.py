"""How long records took from their timestamp to the target's acknowledgement, counted in buckets."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

#: Upper bounds, inclusive, of all buckets but the last, which has none. From a link's milliseconds to a day's catch-up.
LATENCY_BOUNDS_MS: Final = (
    *(1, 2, 5, 10, 25, 50, 100, 250, 500),
    *(1_000, 2_500, 5_000, 10_000, 30_000),
    *(60_000, 300_000, 900_000, 3_600_000, 86_400_000),
)


@dataclass(frozen=True, slots=True)
class LatencyHistogram:
    """Counts of records by bucket, and the sum of their latencies in ms. Only ever grows while its counter lives."""

    counts: tuple[int, ...] = (0,) * (len(LATENCY_BOUNDS_MS) + 1)
    sum_ms: int = 0

    def __add__(self, other: LatencyHistogram) -> LatencyHistogram:
        return LatencyHistogram(tuple(map(int.__add__, self.counts, other.counts)), self.sum_ms + other.sum_ms)

    def __sub__(self, before: LatencyHistogram) -> LatencyHistogram:
        return LatencyHistogram(tuple(map(int.__sub__, self.counts, before.counts)), self.sum_ms - before.sum_ms)

    @property
    def records(self) -> int:
        """All of them."""
        return sum(self.counts)


class LatencyCounter:
    """Counts as records are acknowledged; once per batch, whose newest record stands for all of them."""

    __slots__ = ("_counts", "_now_ms", "_sum_ms")

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """``now_ms``: the wall clock, ms since the epoch."""
        self._now_ms = now_ms
        self._counts = list(LatencyHistogram().counts)
        self._sum_ms = 0

    def acknowledged(self, timestamp_ms: int, records: int) -> None:
        """The target has a batch; a timestamp ahead of our clock counts as no latency."""
        latency_ms = self._now_ms() - timestamp_ms
        self._counts[bisect_left(LATENCY_BOUNDS_MS, latency_ms)] += records
        if latency_ms > 0:
            self._sum_ms += latency_ms * records

    def so_far(self) -> LatencyHistogram:
        """All that was counted."""
        return LatencyHistogram(tuple(self._counts), self._sum_ms)
