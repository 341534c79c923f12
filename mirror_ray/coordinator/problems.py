"""What is wrong with the system now: lag trends, and the facts that alerts are judged by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.flow import FlowController
from mirror_ray.coordinator.observed import LagTrend, ObservedState
from mirror_ray.coordinator.replicator_pool import ReplicatorPool
from mirror_ray.coordinator.topic_sync import TopicSync
from mirror_ray.model.names import FlowName
from mirror_ray.observe.alerting import AlertFacts, judge
from mirror_ray.observe.events import GapStatus
from mirror_ray.observe.problems import Problem
from mirror_ray.observe.status import FlowStatus, PartitionStatus

_SAMPLE_S = 1.0


class ProblemWatch:
    """Samples the lags' trends, and judges on demand."""

    def __init__(
        self,
        flows: Mapping[FlowName, FlowController],
        syncs: Callable[[], Mapping[FlowName, TopicSync]],
        pool: ReplicatorPool,
        observed: ObservedState,
        *,
        catching_up: set[FlowName],
        audit: Callable[[], Mapping[str, str]],
    ) -> None:
        """``flows``, ``syncs`` and ``catching_up`` (flows whose windows have opened) are read anew in each call.

        ``audit``: why a flow's audit log lacks something.
        """
        self._flows, self._syncs, self._pool, self._observed = flows, syncs, pool, observed
        self._catching_up, self._audit = catching_up, audit
        self._trends: dict[FlowName, LagTrend] = {}
        self._sampled_s = 0.0

    def sample(self, now_s: float, settings: MirrorSettings | None) -> None:
        """Sample the lags, once a second at most."""
        if settings is None:
            return
        window_s = settings.alerts.lag_growing_s
        if now_s - self._sampled_s < min(_SAMPLE_S, window_s / 20):
            return
        self._sampled_s = now_s
        for name, lag in self._observed.lags().items():
            trend = self._trends.get(name)
            if trend is None or trend.window_s != window_s:
                trend = self._trends[name] = LagTrend(window_s)
            trend.sample(now_s, lag)
        for name in self._trends.keys() - self._flows.keys():
            del self._trends[name]

    def judge(
        self,
        settings: MirrorSettings | None,
        flows: Sequence[FlowStatus],
        partitions: Mapping[FlowName, Sequence[PartitionStatus]],
        gaps: Sequence[GapStatus],
        *,
        started_ms: int,
        now_ms: int,
    ) -> tuple[Problem, ...]:
        """What is wrong now."""
        if settings is None:
            return ()
        for flow in flows:
            if flow.lag_seconds is not None and flow.lag_seconds <= settings.alerts.lag_s:
                self._catching_up.discard(FlowName.parse(flow.flow))
        facts = AlertFacts(
            now_ms=now_ms,
            started_ms=started_ms,
            flows=flows,
            partitions={str(name): rows for name, rows in partitions.items()},
            gaps=gaps,
            deaths=tuple(self._pool.context.exits),
            missing=self._pool.missing(),
            drift={str(name): sync.problems() for name, sync in self._syncs().items()},
            down={str(name): why for name, flow in self._flows.items() if (why := flow.down) is not None},
            catching_up=frozenset(map(str, self._catching_up)),
            audit=self._audit(),
            growing=frozenset(str(name) for name, trend in self._trends.items() if trend.growing),
            heartbeats=frozenset(str(flow.name) for flow in settings.flows if flow.heartbeats.emit_enabled),
        )
        return judge(facts, settings.alerts)
