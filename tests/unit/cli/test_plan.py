"""plan: what it shows of topics whose offsets are preserved, and of schemas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mirror_ray.model.names import FlowName
from mirror_ray.topics.plan import FlowPlan, SystemPlan
from mirror_ray.topics.preservation import PreservationCost
from mirror_ray.topics.schema_plan import SchemaPlan
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


def test_schemas_are_counted_and_the_first_refused_named(
    config: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 1 if any is refused; the data has all of them, and null where no schemas are synced."""
    schemas = SchemaPlan(
        ids=None,
        ids_why="decided when the flow begins",
        subjects=3,
        versions=9000,
        there=1000,
        to_register=7999,
        to_register_subjects=2,
        deleted=4,
        deleted_on_one_side=1,
        refused=tuple(f"schema s version {number}: other" for number in range(1, 8)),
    )
    flows = (
        FlowPlan(flow=FlowName("A", "B"), enabled=True, schemas=schemas),
        FlowPlan(flow=FlowName("B", "A"), enabled=True),
    )
    plan = SystemPlan(clusters=(), flows=flows, rights=())
    monkeypatch.setattr("mirror_ray.topics.planning.make_plan", lambda _: plan)
    result = run("plan", config)
    assert result.exit_code == 1
    for part in (
        "schemas of A->B: ids decided when the flow begins; 7,999 versions of 2 subjects to register, ",
        "1,000 of 9,000 are there, 4 soft-deleted on the source, 1 soft-deleted on one side alone",
    ):
        assert part in result.stdout
    refused = [line for line in result.stderr.splitlines() if line.startswith("refused: A->B: ")]
    assert (len(refused), refused[0]) == (6, "refused: A->B: schema s version 1: other")
    assert "2 more schemas" in refused[5]
    assert "schemas of B->A" not in result.stdout
    data = json.loads(run("plan", config, "-o", "json").stdout)
    assert data["ok"] is False
    found, none = (flow["schemas"] for flow in data["flows"])
    assert (found["ids"], found["to_register"], len(found["refused"]), none) == (None, 7999, 7, None)
    assert SystemPlan(clusters=(), flows=flows[1:], rights=()).ok
