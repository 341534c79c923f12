"""What `verify` prints of schemas, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mirror_ray.verification import run as verification
from mirror_ray.verification.planner import VerifyRequest
from mirror_ray.verification.report import PartitionVerdict, VerifyReport
from mirror_ray.verification.topic_schemas import DifferentSchema, TopicSchemas
from tests.unit.cli.fakes import Run

pytestmark = pytest.mark.usefixtures("coordinator")


def _answers(monkeypatch: pytest.MonkeyPatch, schemas: Sequence[TopicSchemas]) -> None:
    async def verified(_settings: Any, _flow: Any, request: VerifyRequest, **_: Any) -> VerifyReport:
        partition = PartitionVerdict(topic="orders", partition=0, target_topic="A.orders")
        found = schemas if request.schemas else None
        return VerifyReport(flow="A->B", sample=1.0, partitions=[partition], schemas=found)

    monkeypatch.setattr(verification, "verify_with_routes", verified)


def test_schemas_that_differ_are_named(run: Run, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where they are asked for; then the exit code is that of a difference."""
    missing = [DifferentSchema(7, 3)]
    _answers(monkeypatch, [TopicSchemas(topic="orders", target_topic="A.orders", met=2, missing=missing)])
    result = run("verify", "A->B", "--config", config)
    assert (result.exit_code, "SCHEMAS" in result.output) == (0, False)
    result = run("verify", "A->B", "--config", config, "--schemas")
    assert result.exit_code == 1
    assert "orders: schema id 7, which became id 3: the target's registry has no such schema" in result.output
    result = run("verify", "A->B", "--config", config, "--schemas", "-o", "json")
    (found,) = json.loads(result.stdout)["schemas"]
    assert (found["schemas"], found["missing"][0]["source"], found["missing"][0]["target"]) == (2, 7, 3)
