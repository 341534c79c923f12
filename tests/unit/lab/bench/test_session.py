"""What goes wrong with one contender does not end the race."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mirror_ray.lab.bench import session
from mirror_ray.lab.bench.contenders import FLOOR
from mirror_ray.lab.bench.fixture import MeasurementResult
from mirror_ray.lab.bench.measurements import TrickleMeasurement


def test_topics_that_can_not_be_deleted_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured is kept, and the second cluster is tidied all the same."""
    asked: list[object] = []

    def fails(cluster: object, _: object) -> None:
        asked.append(cluster)
        raise TimeoutError

    monkeypatch.setattr(session, "delete_topics", fails)
    monkeypatch.setattr(session, "floor", lambda *_: MeasurementResult(figures={"latency_p50_ms": 1.0}))
    stage: Any = SimpleNamespace(contender=FLOOR, prefix="p-", alias="A", round=1, source="source", target="target")
    (measure,) = session.sit(
        stage, [TrickleMeasurement(workload="trickle", seconds=1)], running_ray=lambda: pytest.fail("no Ray")
    )
    assert measure.figures == {"latency_p50_ms": 1.0}
    assert asked == ["source", "target"]
