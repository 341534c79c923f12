"""Keeps flows within their limits: opens and closes their windows, and shares out what they may read."""

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

#: Between two sharings of the limits.
_SHARE_S: Final = 1.0
#: A reader without a backlog may become so much faster before it is measured again.
_HEADROOM: Final = 1.25


class LimitController:
    """The limits of all flows; a flow's routes and backfills share its limits with it."""

    def __init__(
        self,
        flows: Mapping[FlowName, FlowController],
        assigner: PartitionAssigner,
        observed: ObservedState,
        *,
        wall_ms: Callable[[], int],
        emit: Emit,
    ) -> None:
        """``flows`` is read anew in each call; ``wall_ms``: milliseconds since the epoch."""
        self._flows, self._assigner, self._observed = flows, assigner, observed
        self._wall_ms, self._emit = wall_ms, emit
        self._limits: dict[FlowName, FlowLimits] = {}
        self._allowances: dict[tuple[str, FlowName], QuotaShare] = {}
        self._counted: dict[FlowPartition, int] = {}
        self._shared_s = 0.0
        #: Flows that have lag because a window was closed until a while ago.
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
        self.catching_up.intersection_update(self._limits)
        elapsed_s = now_s - self._shared_s
        if self._limits and elapsed_s >= _SHARE_S:
            self._shared_s = now_s
            self._share(now, elapsed_s)
        elif not self._limits:
            self._allowances, self._counted = {}, {}

    def allowances(self, replicator: str) -> tuple[QuotaShare, ...]:
        """What a replicator may read of each flow with limits."""
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

    def _close(self, flow: FlowController, reason: str | None) -> None:
        before = flow.closed
        if reason == before:
            return
        flow.close(reason)
        if (reason is None) != (before is None):
            self._emit("info", str(flow.name), reason or "inside limits.windows again: copying goes on")
            if reason is None:
                self.catching_up.add(flow.name.live)

    def _share(self, now: datetime, elapsed_s: float) -> None:
        readers: dict[FlowName, dict[tuple[str, FlowName, str], float]] = defaultdict(lambda: defaultdict(float))
        counted: dict[FlowPartition, int] = {}
        for partition, owner in self._assigner.owners.items():
            if partition.flow.live in self._limits:
                counted[partition] = self._observed.totals(partition)[1]
                growth = max(0, counted[partition] - self._counted.get(partition, counted[partition]))
                backlog = _backlog_bytes(self._observed.reports.get(partition))
                reader = owner.replicator, partition.flow, partition.topic
                readers[partition.flow.live][reader] += growth / elapsed_s * _HEADROOM + backlog / _SHARE_S
        self._counted = counted
        self._allowances = {}
        for name, demands in readers.items():
            topics = [TopicReader(*reader, demand) for reader, demand in demands.items()]
            self._allowances |= shares(self._limits[name], topics, now)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._wall_ms() / 1000, UTC)


def _backlog_bytes(report: PartitionReport | None) -> float:
    """Bytes of the backlog; infinite where that is not known."""
    if report is None or report.source_end < 0 or report.position < 0:
        return float("inf")
    lag = max(0, report.source_end - report.position)
    if lag and not report.bytes_per_record:
        return float("inf")
    return lag * report.bytes_per_record
