"""A failure of one contender does not end the benchmark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mirror_ray.lab.bench import session
from mirror_ray.lab.bench.contenders import BASELINE
from mirror_ray.lab.bench.measurements import TrickleMeasurement
from mirror_ray.lab.bench.results import MeasurementResult


def test_topics_that_can_not_be_deleted_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured is kept, and the second cluster is tidied all the same."""
    asked: list[object] = []

    def fails(cluster: object, _: object) -> None:
        asked.append(cluster)
        raise TimeoutError

    monkeypatch.setattr(session, "delete_topics", fails)
    monkeypatch.setattr(session, "trickle_baseline", lambda *_: MeasurementResult(figures={"latency_p50_ms": 1.0}))
    environment: Any = SimpleNamespace(contender=BASELINE, prefix="p-", alias="A", source="source", target="target")
    (run,) = session.run_turn(
        environment, [TrickleMeasurement(workload="trickle", seconds=1)], running_ray=lambda: pytest.fail("no Ray")
    )
    assert run.result.figures == {"latency_p50_ms": 1.0}
    assert asked == ["source", "target"]
