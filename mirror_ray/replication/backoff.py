"""How long to wait before another attempt. Pure."""

from __future__ import annotations

#: Doubled so often any wait is beyond its limit, and still a number: 2.0 ** 1024 would raise OverflowError.
_MOST_DOUBLINGS = 64


def backoff_s(attempt: int, first_s: float, last_s: float) -> float:
    """Seconds: ``first_s`` doubled ``attempt`` times, ``last_s`` at most, however many attempts there were."""
    return min(first_s * 2.0 ** min(attempt, _MOST_DOUBLINGS), last_s)
