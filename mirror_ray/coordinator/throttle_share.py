"""How much of the time flows stood still just now, from sums that only grow."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from mirror_ray.model.names import FlowName
from mirror_ray.model.quota import ThrottledTime

#: "Just now".
_RECENT_S: Final = 10.0


class ThrottleShare:
    """By flow."""

    def __init__(self) -> None:
        self._samples: dict[FlowName, deque[tuple[float, ThrottledTime]]] = {}

    def sample(self, now_s: float, totals: Mapping[FlowName, ThrottledTime]) -> None:
        """Remember the sums as of now."""
        for flow, held in totals.items():
            samples = self._samples.setdefault(flow, deque())
            samples.append((now_s, held))
            while len(samples) > 2 and samples[1][0] <= now_s - _RECENT_S:
                samples.popleft()

    def of(self, flow: FlowName) -> ThrottledTime:
        """Seconds of each second."""
        samples = self._samples.get(flow)
        if not samples or len(samples) < 2:
            return ThrottledTime()
        (begin_s, before), (end_s, after) = samples[0], samples[-1]
        grown, elapsed_s = after - before, max(end_s - begin_s, 0.001)
        return ThrottledTime(grown.limit_s / elapsed_s, grown.source_s / elapsed_s, grown.target_s / elapsed_s)
