"""Latencies of all replicators, summed so that they only grow: processes come and go, what they counted stays."""

from __future__ import annotations

from collections.abc import Mapping

from mirror_ray.model.assignment import ReplicatorReport
from mirror_ray.model.latency import Latencies
from mirror_ray.model.names import FlowName


class LatencyTotals:
    """By flow, since the coordinator began."""

    def __init__(self) -> None:
        self._totals: dict[FlowName, Latencies] = {}

    def take(self, before: ReplicatorReport | None, report: ReplicatorReport, *, adopted: bool) -> None:
        """Add what a process counted since its report ``before``; None: this is its first.

        ``adopted``: what it counted until then was before our time.
        """
        same = before is not None and before.pid == report.pid
        known = dict(before.latencies) if before is not None and same else {}
        for flow, counted in report.latencies:
            growth = Latencies() if adopted and not same else counted - known.get(flow, Latencies())
            self._totals[flow] = self._totals.get(flow, Latencies()) + growth

    def by_flow(self) -> Mapping[FlowName, Latencies]:
        """The sums so far."""
        return dict(self._totals)
