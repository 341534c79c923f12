"""How long to wait before another attempt."""

from __future__ import annotations

from dataclasses import dataclass

#: After so many doublings any wait is beyond its limit, and still a number: 2.0 ** 1024 would raise OverflowError.
_MOST_DOUBLINGS = 64


def backoff_s(attempt: int, first_s: float, last_s: float) -> float:
    """Return ``first_s`` doubled ``attempt`` times, at most ``last_s``, in seconds."""
    return min(first_s * 2.0 ** min(attempt, _MOST_DOUBLINGS), last_s)


@dataclass(slots=True)
class Backoff:
    """Waits that double with each failure in a row."""

    first_s: float
    last_s: float
    failures: int = 0

    def failed(self) -> float:
        """Count a failure; returns the seconds to wait."""
        self.failures += 1
        return backoff_s(self.failures - 1, self.first_s, self.last_s)

    def succeeded(self) -> None:
        """Begin with the shortest wait again."""
        self.failures = 0
