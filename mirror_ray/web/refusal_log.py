"""What strangers do again and again, reported now and then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

#: Addresses that one report names; the others are counted together.
_ADDRESSES: Final = 5


class RefusalLog:
    """Counts, and says so in one bounded line: soon at first, ever more rarely while it goes on."""

    def __init__(self, what: str, *, clock: Callable[[], float], first_s: float, last_s: float) -> None:
        """``what`` is counted, for ``first_s`` to ``last_s`` before it is reported. ``clock``: monotonic seconds."""
        self._what, self._clock = what, clock
        self._first_s, self._last_s = first_s, last_s
        self._wait_s = first_s
        self._counted: Counter[str] = Counter()
        self._others = 0
        self._since_s = clock()

    def count(self, address: str) -> None:
        """One more from there."""
        if not self._counted:
            quiet_s = self._clock() - self._since_s
            self._wait_s = self._first_s if quiet_s > 2 * self._wait_s else self._wait_s
            self._since_s = self._clock()
        if address in self._counted or len(self._counted) < _ADDRESSES:
            self._counted[address] += 1
        else:
            self._others += 1

    def due(self) -> str | None:
        """What is to be reported now, if anything."""
        if not self._counted or self._clock() - self._since_s < self._wait_s:
            return None
        parts = [f"{count} from {address}" for address, count in self._counted.most_common()]
        parts += [f"{self._others} from elsewhere"] if self._others else []
        self._counted.clear()
        self._others = 0
        self._since_s, self._wait_s = self._clock(), min(2 * self._wait_s, self._last_s)
        return f"{self._what}: {', '.join(parts)}"
