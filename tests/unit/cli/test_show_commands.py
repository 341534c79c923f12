"""What the commands that show a running system print and return, and what an error looks like."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import mirror_ray
from mirror_ray.model.errors import (
    ClusterUnreachableError,
    ConfigError,
    KafkaProtocolError,
    MirrorError,
    NotRunningError,
)
from mirror_ray.observe.backfills import backfill_status
from tests.support.factories import flow_schemas, replicator_status, system_status
from tests.unit.cli.fakes import BACKFILL, FLOW, PARTITION, FakeCoordinator, Run, stopped


def test_lag_json_has_the_fields_of_the_contract(coordinator: FakeCoordinator, run: Run) -> None:
    """Tools outside the project read exactly these fields."""
    result = run("lag", "-o", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == [
        {
            "flow": "A->B",
            "topic": "orders",
            "partition": 0,
            "source_end": 100,
            "position": 100,
            "lag_records": 0,
            "lag_bytes": 0,
            "lag_seconds": 0.0,
        }
    ]


def test_replicators_json_has_the_fields_of_the_contract(coordinator: FakeCoordinator, run: Run) -> None:
    """Tools outside the project read exactly these fields."""
    [row] = json.loads(run("replicators", "-o", "json").stdout)
    assert list(row) == ["id", "node", "pid", "partitions", "records_per_s", "bytes_per_s", "cpu", "memory"]


def test_lag_above_the_bound_ends_with_1(coordinator: FakeCoordinator, run: Run) -> None:
    """The partition that is beyond is named on stderr."""
    coordinator.partitions = (PARTITION, replace(PARTITION, partition=1, lag_records=11))
    assert run("lag", "--above", "11").exit_code == 0
    result = run("lag", "--above", "10")
    assert result.exit_code == 1
    assert "orders-1" in result.stderr
    assert "orders-0" not in result.stderr


def test_an_unknown_lag_is_no_small_lag(coordinator: FakeCoordinator, run: Run) -> None:
    """A check of a bound fails while a lag is not known."""
    coordinator.partitions = (replace(PARTITION, lag_records=None, state="stopped"),)
    assert run("lag", "--above", "1000000").exit_code == 1


def test_status_shows_backfills(run: Run, coordinator: FakeCoordinator) -> None:
    """Those that are under way, with what holds them up."""
    line = backfill_status("A->B#1", BACKFILL, state="stopped", reason="disk full", positions={0: 15})
    coordinator.status = replace(system_status(FLOW), backfills=(line,))
    assert "A->B#1  orders into old  5 of 20 (25%)  stopped: disk full" in run("status").stdout


def test_status_says_how_schemas_are_mirrored(run: Run, coordinator: FakeCoordinator) -> None:
    """A line for each flow that does, and all of it in the JSON."""
    assert "schemas" not in run("status").stdout
    mirroring = replace(FLOW, schemas=flow_schemas(versions=1_200, mirrored=1_199, problem_count=1))
    coordinator.status = system_status(mirroring, replace(FLOW, flow="B->A", schemas=flow_schemas(ids=None)))
    shown = run("status").stdout
    assert "A->B: schemas: 1,199 of 1,200 versions mirrored, ids translated" in shown
    assert "B->A: schemas: 2 of 2 versions mirrored, how ids are copied is not decided yet" in shown
    flow = json.loads(run("status", "-o", "json").stdout)["flows"][0]
    assert (flow["schemas"]["ids"], flow["schemas"]["problem_count"]) == ("translated", 1)


def test_status_says_which_replicators_do_not_merge(run: Run, coordinator: FakeCoordinator) -> None:
    """They lack the record kernel, which the nodes of one cluster may have or not."""
    lacking = replicator_status(id="mirror:replicator:2", node="10.0.0.2", has_kernel=False)
    coordinator.status = replace(system_status(FLOW), replicators=(replicator_status(), lacking))
    lines = [line for line in run("status").stdout.splitlines() if "no record kernel" in line]
    assert len(lines) == 1
    assert lines[0].startswith("mirror:replicator:2 on 10.0.0.2: small batches are not merged: no record kernel")


@pytest.mark.parametrize(("state", "exit_code"), [("running", 0), ("paused", 0), ("degraded", 1), ("unreachable", 1)])
def test_status_ends_with_1_when_a_flow_is_unhealthy(
    coordinator: FakeCoordinator, run: Run, state: Any, exit_code: int
) -> None:
    """What an operator has paused is healthy."""
    coordinator.status = system_status(replace(FLOW, state=state), problems=(stopped("refused: it is full"),))
    result = run("status")
    assert result.exit_code == exit_code
    assert "partition_stopped  A->B orders: refused: it is full. Next: do something" in result.stdout


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (NotRunningError("nothing runs"), 1),
        (ConfigError("A.x: wrong", "A.y: wrong too"), 2),
        (ClusterUnreachableError("A is away"), 3),
        (KafkaProtocolError(29, "TOPIC_AUTHORIZATION_FAILED", "describe orders"), 4),
    ],
)
def test_an_error_is_a_sentence_and_an_exit_code(
    coordinator: FakeCoordinator, run: Run, error: MirrorError, exit_code: int
) -> None:
    """No traceback, nothing on stdout."""
    coordinator.errors["status"] = error
    result = run("status")
    assert result.exit_code == exit_code
    assert result.stdout == ""
    assert all(line in result.stderr for line in str(error).splitlines())
    assert "Traceback" not in result.stderr


def test_the_version_is_an_option_too(run: Run) -> None:
    """As most commands have it; what it is built on is said by `mirror-ray version`."""
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"mirror-ray {mirror_ray.__version__}\n")


def test_debug_shows_the_traceback(coordinator: FakeCoordinator, run: Run) -> None:
    """For those who look for the cause in our code."""
    coordinator.errors["status"] = NotRunningError("nothing runs")
    assert "Traceback" in run("--debug", "status").stderr
