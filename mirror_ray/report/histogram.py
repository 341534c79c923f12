"""Histograms as statistics hold them: how many by the upper bound of their bucket."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

Histogram = Mapping[int, int]


def merged(histograms: Iterable[Histogram]) -> dict[int, int]:
    """What one histogram of everything would have been."""
    total: Counter[int] = Counter()
    for each in histograms:
        total.update(each)
    return dict(sorted(total.items()))


def percentile(histogram: Histogram, percent: int) -> int | None:
    """The bound that so many percent of the values are not above; None where there are no values.

    It is the bucket of the exact percentile (nearest rank), so the exact one is at most this, and above the bound
    before it.
    """
    number = sum(histogram.values())
    if not number:
        return None
    rank = max(1, -(-number * percent // 100))
    seen = 0
    for bound in sorted(histogram):
        seen += histogram[bound]
        if seen >= rank:
            return bound
    raise AssertionError("the ranks end with the last bucket")
