"""For how long flows stood still in all replicators together, and how much of that was just now."""

from __future__ import annotations

from collections import deque
from typing import Final

from mirror_ray.model.allowance import Held
from mirror_ray.model.assignment import ReplicatorReport
from mirror_ray.model.names import FlowName

#: "Just now".
_RECENT_S: Final = 10.0


class HeldTotals:
    """By flow, since the coordinator began."""

    def __init__(self) -> None:
        self._totals: dict[FlowName, Held] = {}
        self._samples: dict[FlowName, deque[tuple[float, Held]]] = {}

    def take(self, before: ReplicatorReport | None, report: ReplicatorReport, *, adopted: bool) -> None:
        """Add what a process counted since its report ``before``; None: this is its first.

        ``adopted``: what it counted until then was before our time.
        """
        same = before is not None and before.pid == report.pid
        known = dict(before.held) if before is not None and same else {}
        for flow, counted in report.held:
            growth = Held() if adopted and not same else counted - known.get(flow, Held())
            self._totals[flow] = self._totals.get(flow, Held()) + growth

    def of(self, flow: FlowName) -> Held:
        """The sums so far."""
        return self._totals.get(flow, Held())

    def sample(self, now_s: float) -> None:
        """Remember the sums as of now, for ``recent``."""
        for flow, held in self._totals.items():
            samples = self._samples.setdefault(flow, deque())
            samples.append((now_s, held))
            while len(samples) > 2 and samples[1][0] <= now_s - _RECENT_S:
                samples.popleft()

    def recent(self, flow: FlowName) -> Held:
        """Seconds of each second, lately."""
        samples = self._samples.get(flow)
        if not samples or len(samples) < 2:
            return Held()
        (begin_s, before), (end_s, after) = samples[0], samples[-1]
        grown, elapsed_s = after - before, max(end_s - begin_s, 0.001)
        return Held(grown.limit_s / elapsed_s, grown.source_s / elapsed_s, grown.target_s / elapsed_s)
