"""Whether a lag grows: not for a moment, which every burst does, but slice after slice of a window of time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

_SLICES: Final = 6


@dataclass(slots=True)
class _Slice:
    began_s: float
    least: int


class LagTrend:
    """The least lag of each of the last slices: where even that grows each time, copying falls behind."""

    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self._slices: deque[_Slice] = deque(maxlen=_SLICES + 1)

    def sample(self, now_s: float, lag: int) -> None:
        """The lag is so many records. Times only grow."""
        length_s = self.window_s / _SLICES
        last = self._slices[-1] if self._slices else None
        if last is not None and now_s - last.began_s > 2 * length_s:
            # Nothing was seen for a while: what was before says nothing of now.
            self._slices.clear()
            last = None
        if last is None or now_s - last.began_s >= length_s:
            self._slices.append(_Slice(now_s, lag))
        else:
            last.least = min(last.least, lag)

    @property
    def growing(self) -> bool:
        """Whether it has grown through the whole window. The slice that has just begun counts too."""
        least = [each.least for each in self._slices]
        full = len(least) == _SLICES + 1
        return full and all(before < after for before, after in pairwise(least))
