"""Which schemas `schemas` shows; what it prints of them is in ``snapshots``."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mirror_ray.model.errors import NotRunningError
from tests.unit.cli.fakes import SCHEMA, SCHEMA_IN_CONFLICT, FakeCoordinator, Run


def test_problems_are_what_the_target_does_not_have(coordinator: FakeCoordinator, run: Run) -> None:
    """What is only missing yet, and what it has otherwise, too; none is no error."""
    missing = replace(SCHEMA, version=3, target_id=None, state="missing")
    undeleted = replace(SCHEMA, version=4, deleted=True, problem="it is not deleted on the target")
    coordinator.schemas = (SCHEMA, SCHEMA_IN_CONFLICT, missing, undeleted)
    shown = json.loads(run("schemas", "A->B", "--problems", "-o", "json").stdout)
    assert [(row["version"], row["state"]) for row in shown] == [(2, "conflict"), (3, "missing"), (4, "mirrored")]
    coordinator.schemas = (SCHEMA,)
    result = run("schemas", "--problems", "-o", "json")
    assert (json.loads(result.stdout), result.exit_code) == ([], 0)


def test_a_soft_deleted_version_is_marked(coordinator: FakeCoordinator, run: Run) -> None:
    """It is mirrored like the others."""
    coordinator.schemas = (replace(SCHEMA, deleted=True),)
    assert "mirrored (deleted)" in run("schemas").stdout
    (row,) = json.loads(run("schemas", "-o", "json").stdout)
    assert (row["state"], row["deleted"]) == ("mirrored", True)


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_no_flow_that_mirrors_schemas_is_an_error(coordinator: FakeCoordinator, run: Run, output: str) -> None:
    """With the key that is missing."""
    coordinator.errors["schemas"] = NotRunningError("no flow mirrors schemas: set A.schema.registry.url")
    result = run("schemas", "-o", output)
    assert (result.exit_code, result.stdout) == (NotRunningError.exit_code, "")
    assert "schema.registry.url" in result.stderr
