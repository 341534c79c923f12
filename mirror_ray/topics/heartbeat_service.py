"""Emits MM2's heartbeats for every pair of clusters, also for flows that are not enabled."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.audit_logs import AuditLogs
from mirror_ray.kafka.heartbeats import HeartbeatEmitter
from mirror_ray.model.names import FlowName

_log = logging.getLogger(__name__)


class Emitter(Protocol):
    """What the service needs of ``HeartbeatEmitter``."""

    @property
    def acknowledged(self) -> Mapping[FlowName, int]: ...  # noqa: D102
    def emit(self) -> None: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


#: From target cluster, flows into it, replication factor and audit log to an emitter.
EmitterFactory = Callable[[ClusterSettings, Sequence[FlowName], int | None, AuditLog], Emitter]


def real_emitter(
    target: ClusterSettings, flows: Sequence[FlowName], replication_factor: int | None, trail: AuditLog
) -> Emitter:
    """An emitter that writes to Kafka."""
    return HeartbeatEmitter(target, flows, trail, replication_factor=replication_factor)


@dataclass(frozen=True, slots=True)
class _Emission:
    """The settings of one emitter."""

    target: ClusterSettings
    interval_s: float
    replication_factor: int | None
    flows: tuple[FlowName, ...]
    trail: AuditLog


@dataclass(slots=True, eq=False)
class _RunningEmitter:
    emitter: Emitter
    thread: threading.Thread
    stop: threading.Event


class HeartbeatService:
    """Emits into every target cluster from a thread of its own, so that a cluster that hangs delays no other."""

    def __init__(
        self, settings: MirrorSettings, audit_logs: AuditLogs, *, emitter: EmitterFactory = real_emitter
    ) -> None:
        """Start to emit."""
        self._audit_logs = audit_logs
        self._make_emitter = emitter
        self._flows: tuple[FlowSettings, ...] = ()
        self._running: list[tuple[_Emission, _RunningEmitter]] = []
        self.configure(settings)

    def configure(self, settings: MirrorSettings) -> None:
        """Apply settings; emitters that they don't change go on."""
        self._flows = settings.flows
        wanted = _emissions(settings, self._audit_logs)
        ended = [running for emission, running in self._running if emission not in wanted]
        self._running = [(emission, running) for emission, running in self._running if emission in wanted]
        _end(ended)
        known = [emission for emission, _ in self._running]
        self._running += [(emission, self._start(emission)) for emission in wanted if emission not in known]

    def _start(self, emission: _Emission) -> _RunningEmitter:
        emitter = self._make_emitter(emission.target, emission.flows, emission.replication_factor, emission.trail)
        stop, target = threading.Event(), emission.target.alias
        arguments = (emitter, emission.interval_s, target, stop)
        thread = threading.Thread(target=self._run, args=arguments, name=f"heartbeats-{target}", daemon=True)
        thread.start()
        return _RunningEmitter(emitter, thread, stop)

    def __repr__(self) -> str:
        """For Ray's log lines; never the settings."""
        return f"Heartbeat({len(self._running)} targets)"

    def ages_s(self) -> dict[str, float | None]:
        """Seconds since each flow's last acknowledged heartbeat; None before the first."""
        now_ms = time.time() * 1000
        ages: dict[str, float | None] = {str(flow.name): None for flow in self._flows if flow.heartbeats.emit_enabled}
        for _, running in self._running:
            ages |= {str(name): max(0.0, (now_ms - ms) / 1000) for name, ms in running.emitter.acknowledged.items()}
        return ages

    def stop(self) -> None:
        """Stop emitting."""
        ended, self._running = [running for _, running in self._running], []
        _end(ended)

    @staticmethod
    def _run(emitter: Emitter, interval_s: float, target: str, stop: threading.Event) -> None:
        failing = False
        while not stop.is_set():
            began_s = time.monotonic()
            try:
                emitter.emit()
                failing = False
            except Exception as error:  # noqa: BLE001 - the next interval tries again, whatever it was
                if not failing:
                    _log.warning("heartbeats into %s: %s", target, error)
                failing = True
            stop.wait(max(0.0, interval_s - (time.monotonic() - began_s)))
        emitter.close()


def _end(ended: Sequence[_RunningEmitter]) -> None:
    for running in ended:
        running.stop.set()
    for running in ended:
        running.thread.join(timeout=2.0)


def _emissions(settings: MirrorSettings, audit_logs: AuditLogs) -> list[_Emission]:
    """One emitter for the flows that have target, interval and replication factor in common."""
    groups: dict[tuple[str, float, int | None], list[FlowName]] = {}
    for flow in settings.flows:
        beats = flow.heartbeats
        if beats.emit_enabled:
            key = (flow.name.target, beats.emit_interval_s, beats.replication_factor)
            groups.setdefault(key, []).append(flow.name)
    return [
        _Emission(settings.clusters[target], interval_s, factor, tuple(flows), audit_logs.of(settings, flows[0]))
        for (target, interval_s, factor), flows in groups.items()
    ]
