"""plan: what it shows of topics whose offsets are preserved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mirror_ray.model.names import FlowName
from mirror_ray.topics.plan import FlowPlan, SystemPlan
from mirror_ray.topics.preservation import PreservationCost
from tests.unit.cli.fakes import Run


def cost(topic: str, prefix: int, runs: int | None) -> PreservationCost:
    """Of a topic of four partitions."""
    return PreservationCost(
        topic=topic,
        remote_topic=f"A.{topic}",
        partitions=4,
        prefix_offsets=prefix,
        longest_prefix=prefix // 2,
        runs=runs,
        longest_runs=runs,
    )


def test_preserved_offsets_have_their_cost(config: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics that cost nothing are left out of the table, and are in the data."""
    preserved = (cost("orders", 7_200_000_000, None), cost("users", 0, 48_000), cost("new", 0, None))
    flow = FlowPlan(flow=FlowName("A", "B"), enabled=True, preserved=preserved, refused=("too many",))
    plan = SystemPlan(clusters=(), flows=(flow,), rights=())
    monkeypatch.setattr("mirror_ray.topics.planning.make_plan", lambda _: plan)
    result = run("plan", config)
    assert result.exit_code == 1
    rows = [line.split() for line in result.stdout.splitlines() if line.startswith("A->B")]
    assert rows == [
        ["A->B", "orders", "4", "7,200,000,000", "3,600,000,000", "20m00s", "-", "-"],
        ["A->B", "users", "4", "0", "0", "0.0s", "48,000", "2m00s"],
    ]
    assert "2 topics with preserved offsets" in result.stdout
    data = json.loads(run("plan", config, "-o", "json").stdout)["flows"][0]["preserved"]
    assert [(row["topic"], row["prefix_s"], row["runs_s"]) for row in data] == [
        ("orders", 1200, None),
        ("users", 0, 120),
        ("new", 0, None),
    ]
