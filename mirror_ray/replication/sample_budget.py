"""How many batches a flow unpacks to know how well its records compress: no more for many partitions than for few."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

#: Batches a second in the long run: a hundredth of a core, where each takes half a millisecond.
_PER_S: Final = 20.0
#: As many at once: a flow of few partitions knows all of them from its first batches on.
_AT_ONCE: Final = 100.0


class SampleBudget:
    """Grants samples to the partitions of one flow; those that get none are sampled in a later interval."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        """``now_s``: monotonic seconds."""
        self._now_s = now_s
        self._left, self._filled_s = _AT_ONCE, now_s()

    def take(self) -> bool:
        """Whether a batch may be unpacked now."""
        now_s = self._now_s()
        self._left, self._filled_s = min(_AT_ONCE, self._left + (now_s - self._filled_s) * _PER_S), now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True
