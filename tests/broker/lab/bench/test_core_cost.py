"""The benchmark whose brokers are stubs, in small."""

from __future__ import annotations

import pytest

from mirror_ray.lab.bench import core_cost


def test_all_is_copied_by_one_replicator_and_by_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for each case, in their order; as many records as the cases' partitions share evenly."""
    monkeypatch.setattr(core_cost, "CASES", ((1, 4), (2, 10)))
    monkeypatch.setattr(core_cost, "_BATCHES", 20)
    monkeypatch.setattr(core_cost, "_TIMES", 1)
    said: list[str] = []
    first, second = core_cost.measure_core_cost(1.0, said.append)
    assert (first.replicators, first.partitions, first.records) == (1, 4, 10_000)
    assert (second.replicators, second.partitions, second.records) == (2, 10, 10_000)
    assert 0 < first.cpu_s_per_million < 1_000
    assert len(said) == 2
