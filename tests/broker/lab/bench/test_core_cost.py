"""The benchmark whose brokers are stubs, in small."""

from __future__ import annotations

import pytest

from mirror_ray.lab.bench import core_cost
from mirror_ray.lab.bench.core_cost import ScalingCase


def test_all_is_copied_by_one_replicator_and_by_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for each case, in their order; as many records as the cases' partitions share evenly."""
    cases = (ScalingCase(1, 1, 4), ScalingCase(1, 2, 10), ScalingCase(2, 1, 5))
    monkeypatch.setattr(core_cost, "CASES", cases)
    monkeypatch.setattr(core_cost, "_BATCHES", 20)
    monkeypatch.setattr(core_cost, "_TIMES", 1)
    said: list[str] = []
    found = core_cost.measure_core_cost(1.0, said.append)
    assert [(cost.systems, cost.replicators, cost.partitions) for cost in found] == [(1, 1, 4), (1, 2, 10), (2, 2, 10)]
    assert {cost.records for cost in found} == {10_000}
    assert 0 < found[0].cpu_s_per_million < 1_000
    assert len(said) == 3
