"""Which heartbeats go on when settings change."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence

import pytest

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.model.names import FlowName
from mirror_ray.topics.heartbeat_service import HeartbeatService
from tests.support.factories import audit_logs
from tests.unit.coordinator.fakes import flow, settings


class _Emitter:
    """Emits nowhere."""

    def __init__(self, target: ClusterSettings, flows: Sequence[FlowName], factor: int | None) -> None:
        self.said = f"{', '.join(map(str, flows))} into {target.alias}"
        self.closed = threading.Event()

    @property
    def acknowledged(self) -> Mapping[FlowName, int]:
        return {}

    def emit(self) -> None:
        """Nothing."""

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def made() -> list[_Emitter]:
    """Every emitter that was begun."""
    return []


@pytest.fixture
def heartbeat(made: list[_Emitter]) -> Iterator[HeartbeatService]:
    """Emits for A->B and A->C."""

    def make(target: ClusterSettings, flows: Sequence[FlowName], factor: int | None, _: AuditLog) -> _Emitter:
        made.append(_Emitter(target, flows, factor))
        return made[-1]

    actor = HeartbeatService(settings(flow(), flow("A->C")), audit_logs(), emitter=make)
    yield actor
    actor.stop()


def test_only_what_changes_begins_anew(heartbeat: HeartbeatService, made: list[_Emitter]) -> None:
    """Another interval into B ends and begins that alone; other topics, or a flow into another cluster, nothing."""
    into_b, into_c = made
    heartbeat.configure(settings(flow(topics={"include": ("orders",)}), flow("A->C")))
    assert made == [into_b, into_c]
    heartbeat.configure(settings(flow(heartbeats={"emit_interval_s": 5.0}), flow("A->C"), flow("B->A")))
    assert into_b.closed.wait(5.0)
    assert not into_c.closed.is_set()
    assert [emitter.said.rpartition(" ")[2] for emitter in made] == ["B", "C", "B", "A"]
    assert heartbeat.ages_s() == {"A->B": None, "A->C": None, "B->A": None}
