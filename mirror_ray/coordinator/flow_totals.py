"""What all replicators count by flow, summed so that it only grows: processes come and go, what they counted stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Protocol, Self, TypeVar

from mirror_ray.model.assignment import ReplicatorReport
from mirror_ray.model.names import FlowName


class FlowCounters(Protocol):
    """What a process counts; it only grows while the process lives."""

    def __add__(self, other: Self, /) -> Self: ...
    def __sub__(self, before: Self, /) -> Self: ...


_C = TypeVar("_C", bound=FlowCounters)


class FlowTotals(Generic[_C]):
    """By flow, since the coordinator began."""

    def __init__(self, counts: Callable[[ReplicatorReport], Iterable[tuple[FlowName, _C]]], nothing: _C) -> None:
        """``counts``: where it is in a report; ``nothing``: what is counted at first."""
        self._counts, self._nothing = counts, nothing
        self._totals: dict[FlowName, _C] = {}

    def take(self, before: ReplicatorReport | None, report: ReplicatorReport, *, adopted: bool) -> None:
        """Add what a process counted since its report ``before``; None: this is its first.

        ``adopted``: what it counted until then was before our time.
        """
        same = before is not None and before.pid == report.pid
        known = dict(self._counts(before)) if before is not None and same else {}
        for flow, counted in self._counts(report):
            growth = self._nothing if adopted and not same else counted - known.get(flow, self._nothing)
            self._totals[flow] = self._totals.get(flow, self._nothing) + growth

    def by_flow(self) -> Mapping[FlowName, _C]:
        """The sums so far."""
        return dict(self._totals)

    def of(self, flow: FlowName) -> _C:
        """One flow's."""
        return self._totals.get(flow, self._nothing)
