"""Keeps flows to their limits: windows open and close, and replicators share what a flow may read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.assignment import PartitionAssigner
from mirror_ray.coordinator.flow import FlowController
from mirror_ray.coordinator.limit_rules import FlowLimits, TopicReader, shares, uncounted
from mirror_ray.coordinator.observed import ObservedState
from mirror_ray.coordinator.ports import Emit
from mirror_ray.model.assignment import PartitionReport
from mirror_ray.model.names import FlowName, FlowPartition
from mirror_ray.model.quota import QuotaShare

#: How often limits are shared anew.
_SHARE_S: Final = 1.0
#: Somebody who reads without a backlog may read so much faster before he is counted again.
_HEADROOM: Final = 1.25


class LimitController:
    """Of the flows that have limits; a flow's routes and backfills share them with it."""

    def __init__(
        self,
        flows: Mapping[FlowName, FlowController],
        assigner: PartitionAssigner,
        observed: ObservedState,
        *,
        wall_ms: Callable[[], int],
        emit: Emit,
    ) -> None:
        """``flows`` is looked at anew in each call."""
        self._flows = flows
        self._assigner = assigner
        self._observed = observed
        self._wall_ms = wall_ms
        self._emit = emit
        self._limits: dict[FlowName, FlowLimits] = {}
        self._allowances: Mapping[tuple[str, FlowName], QuotaShare] = {}
        self._counted: dict[FlowPartition, int] = {}
        self._shared_s = 0.0
        #: Flows whose windows have opened, and that had lag for that reason ever since.
        self.catching_up: set[FlowName] = set()

    def configure(self, settings: MirrorSettings) -> None:
        """The limits that hold from now on."""
        before = self._limits
        self._limits = {
            flow.name: FlowLimits(flow.limits) for flow in settings.flows if flow.enabled and flow.limits.on
        }
        for name, limits in self._limits.items():
            if limits.settings.windows and name not in before:
                self.catching_up.add(name)
        self._shared_s = 0.0

    def step(self, now_s: float) -> None:
        """Open and close windows; share limits anew where it is time."""
        now = self._now()
        closed = {name: limits.closed(now) for name, limits in self._limits.items()}
        for name, flow in self._flows.items():
            self._close(flow, closed.get(name.live))
        for gone in self.catching_up - self._limits.keys():
            self.catching_up.discard(gone)
        elapsed_s = now_s - self._shared_s
        if self._limits and elapsed_s >= _SHARE_S:
            self._shared_s = now_s
            self._share(now, elapsed_s)
        elif not self._limits:
            self._allowances, self._counted = {}, {}

    def allowances(self, replicator: str) -> tuple[QuotaShare, ...]:
        """What a replicator may read, of each flow that is limited."""
        now = self._now()
        return tuple(
            self._allowances.get((replicator, name)) or uncounted(limits, name, tuple(flow.topics), now)
            for name, flow in self._flows.items()
            if (limits := self._limits.get(name.live)) is not None
        )

    def rate(self, flow: FlowName) -> int | None:
        """Bytes a second that the flow may read now; None: no limit."""
        limits = self._limits.get(flow)
        return None if limits is None else limits.rate(self._now())

    def _close(self, flow: FlowController, why: str | None) -> None:
        was = flow.closed
        if why == was:
            return
        flow.close(why)
        if (why is None) != (was is None):
            self._emit("info", str(flow.name), why or "inside limits.windows again: copying goes on")
            if why is None:
                self.catching_up.add(flow.name.live)

    def _share(self, now: datetime, elapsed_s: float) -> None:
        readers: dict[FlowName, dict[tuple[str, FlowName, str], float]] = defaultdict(lambda: defaultdict(float))
        counted: dict[FlowPartition, int] = {}
        for partition, owner in self._assigner.owners.items():
            if partition.flow.live in self._limits:
                counted[partition] = self._observed.totals(partition)[1]
                grown = max(0, counted[partition] - self._counted.get(partition, counted[partition]))
                wish = grown / elapsed_s * _HEADROOM + _waiting_bytes(self._observed.reports.get(partition)) / _SHARE_S
                readers[partition.flow.live][owner.replicator, partition.flow, partition.topic] += wish
        self._counted = counted
        found: dict[tuple[str, FlowName], QuotaShare] = {}
        for name, there in readers.items():
            found |= shares(self._limits[name], [TopicReader(*key, wish) for key, wish in there.items()], now)
        self._allowances = found

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._wall_ms() / 1000, UTC)


def _waiting_bytes(report: PartitionReport | None) -> float:
    """What could be read at once; endless where that is not known."""
    if report is None or report.source_end < 0 or report.position < 0:
        return float("inf")
    lag = max(0, report.source_end - report.position)
    if lag and not report.bytes_per_record:
        return float("inf")
    return lag * report.bytes_per_record
