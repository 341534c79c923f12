"""The heartbeat actor: MM2's heartbeats for every pair of clusters, also for flows that are not enabled."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror_ray.kafka.heartbeats import HeartbeatEmitter
from mirror_ray.model.names import FlowName

_log = logging.getLogger(__name__)


class Emitter(Protocol):
    """What the actor needs of ``HeartbeatEmitter``."""

    @property
    def acknowledged(self) -> Mapping[FlowName, int]: ...  # noqa: D102
    def emit(self) -> None: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


#: (target cluster, the flows into it, replication factor) to an emitter.
EmitterFactory = Callable[[ClusterSettings, Sequence[FlowName], int | None], Emitter]


def real_emitter(target: ClusterSettings, flows: Sequence[FlowName], replication_factor: int | None) -> Emitter:
    """An emitter that writes to Kafka."""
    return HeartbeatEmitter(target, flows, replication_factor=replication_factor)


class Heartbeat:
    """Emits into each target cluster from a thread of its own, so that one that hangs holds up no other."""

    def __init__(self, settings: MirrorSettings, *, emitter: EmitterFactory = real_emitter) -> None:
        """Begin to emit."""
        self._make_emitter = emitter
        self._settings: MirrorSettings | None = None
        self._stop = threading.Event()
        self._emitters: list[Emitter] = []
        self._threads: list[threading.Thread] = []
        self.configure(settings)

    def configure(self, settings: MirrorSettings) -> None:
        """Emit by these settings from now on; nothing happens when they are the same."""
        if settings == self._settings:
            return
        self.stop()
        self._settings = settings
        self._stop, self._emitters, self._threads = threading.Event(), [], []
        for (target, interval_s, factor), flows in _groups(settings.flows).items():
            each = self._make_emitter(settings.clusters[target], flows, factor)
            thread = threading.Thread(
                target=self._run, args=(each, interval_s, target, self._stop), name=f"heartbeats-{target}", daemon=True
            )
            self._emitters.append(each)
            self._threads.append(thread)
            thread.start()

    def __repr__(self) -> str:
        """For Ray's log lines; never the settings."""
        return f"Heartbeat({len(self._emitters)} targets)"

    def ages_s(self) -> dict[str, float | None]:
        """Seconds since each flow's last acknowledged heartbeat; None before the first."""
        now_ms = time.time() * 1000
        flows = self._settings.flows if self._settings else ()
        ages: dict[str, float | None] = {str(flow.name): None for flow in flows if flow.heartbeats.emit_enabled}
        for emitter in self._emitters:
            ages |= {str(name): max(0.0, (now_ms - ms) / 1000) for name, ms in emitter.acknowledged.items()}
        return ages

    def stop(self) -> None:
        """Stop emitting."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=2.0)

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


def _groups(flows: Sequence[FlowSettings]) -> dict[tuple[str, float, int | None], list[FlowName]]:
    """Flows by target, interval and replication factor: one emitter each."""
    groups: dict[tuple[str, float, int | None], list[FlowName]] = {}
    for flow in flows:
        beats = flow.heartbeats
        if beats.emit_enabled:
            key = (flow.name.target, beats.emit_interval_s, beats.replication_factor)
            groups.setdefault(key, []).append(flow.name)
    return groups
