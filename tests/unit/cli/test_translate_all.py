"""What `translate --all` refuses, and what it asks a running system for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from mirror_ray.config.load import load_settings
from mirror_ray.config.settings import GroupSettings, MirrorSettings
from mirror_ray.failover import bulk_translation
from mirror_ray.failover.bulk_translation import BulkOrder, BulkRow
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.model.errors import NoAnswerError
from mirror_ray.model.names import FlowName, TopicPartition
from tests.support.factories import translated_offset
from tests.unit.cli.fakes import CONFIG, FakeCoordinator, Run


@pytest.fixture
def orders(coordinator: FakeCoordinator, config: Path, monkeypatch: pytest.MonkeyPatch) -> list[BulkOrder]:
    """What would be carried out against clusters; one offset is what comes of it."""
    given: list[BulkOrder] = []
    row = translated_offset(
        TopicPartition("orders", 1), 70, TopicPartition("A.orders", 1), 68, group="billing", exact=False, reason="why"
    )

    async def carry_out(
        _settings: MirrorSettings, order: BulkOrder, _make: object, _log: AuditLog
    ) -> Sequence[BulkRow]:
        given.append(order)
        return [BulkRow(translated=row, outcome="committed" if order.commit else None)]

    monkeypatch.setattr(bulk_translation, "carry_out", carry_out)
    coordinator.configuration = load_settings(config).settings
    return given


def test_all_groups_are_what_the_checkpoint_actors_say(orders: list[BulkOrder], run: Run) -> None:
    """Without a look at the clusters; a topic that is not copied is left out."""
    result = run("translate", "A->B", "--all", "-o", "json")
    rows = json.loads(result.stdout)
    assert [(row["group"], row["topic"], row["source_offset"], row["target_offset"]) for row in rows] == [
        ("billing", "orders", 70, 68),
        ("billing", "orders", 120, None),
    ]
    assert result.exit_code == 1
    assert orders == []
    assert "billing" in run("translate", "A->B", "--all").stdout


def test_what_was_committed_then_is_asked_of_the_clusters(orders: list[BulkOrder], run: Run) -> None:
    """With the moment on stderr."""
    result = run("translate", "A->B", "--all", "--as-of", "1700000000000", "-o", "json")
    assert json.loads(result.stdout) == [
        {
            "group": "billing",
            "topic": "orders",
            "partition": 1,
            "source_offset": 70,
            "target_topic": "A.orders",
            "target_offset": 68,
            "exact": False,
            "reason": "why",
        }
    ]
    assert result.exit_code == 0
    assert "as of 2023-11-1" in result.stderr
    assert orders == [BulkOrder(flow=FlowName("A", "B"), as_of_ms=1_700_000_000_000)]


def test_a_commit_is_confirmed_and_told_of(orders: list[BulkOrder], run: Run) -> None:
    """Each row with what became of it, and their numbers."""
    assert run("translate", "A->B", "--all", "--commit").exit_code == 2
    assert orders == []
    result = run("translate", "A->B", "--all", "--commit", "--force", "--yes", "-o", "json")
    assert json.loads(result.stdout)[0]["outcome"] == "committed"
    assert "1 offsets committed" in result.stderr
    assert run("translate", "A->B", "--all", "--commit", "--dry-run").exit_code == 0
    assert [(order.commit, order.force, order.dry) for order in orders] == [(True, True, False), (True, False, True)]


def test_the_past_is_not_committed_against_a_group_sync(
    orders: list[BulkOrder], run: Run, coordinator: FakeCoordinator
) -> None:
    """It would be moved on within seconds; without one it may be."""
    arguments = ("translate", "A->B", "--all", "--as-of", "1h", "--commit", "--yes")
    result = run(*arguments)
    assert result.exit_code == 2
    assert "its group sync would move the groups on again" in result.stderr
    settings: MirrorSettings = coordinator.configuration
    silent = settings.flows[0].model_copy(update={"groups": GroupSettings(sync_offsets_enabled=False)})
    coordinator.configuration = settings.model_copy(update={"flows": (silent,)})
    assert run(*arguments).exit_code == 0
    assert len(orders) == 1


def test_what_runs_decides_and_not_the_file(
    orders: list[BulkOrder], run: Run, tmp_path: Path, coordinator: FakeCoordinator
) -> None:
    """A file beside a running system may say what it likes; and one that does not answer may be at work."""
    file = tmp_path / "mm2.properties"
    file.write_text(f"{CONFIG}A->B.sync.group.offsets.enabled = false\n")
    arguments = ("translate", "A->B", "--all", "--as-of", "1h", "--commit", "--yes", "--config", file)
    result = run(*arguments)
    assert result.exit_code == 2
    assert "its group sync would move the groups on again" in result.stderr
    coordinator.errors["status"] = NoAnswerError("it does not answer: `mirror-ray down` ends it")
    result = run(*arguments)
    assert result.exit_code == 4
    assert "`mirror-ray down` ends it" in result.stderr
    assert orders == []
    assert run(*arguments, "--dry-run").exit_code == 0
    assert len(orders) == 1


def test_what_was_refused_is_told_row_by_row(
    orders: list[BulkOrder], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all that was committed beside it, and in the file, too."""
    carry_out = bulk_translation.carry_out

    async def refused(settings: MirrorSettings, order: BulkOrder, make: Any, log: AuditLog) -> Sequence[BulkRow]:
        (row,) = await carry_out(settings, order, make, log)
        name = "GROUP_AUTHORIZATION_FAILED"
        return [row, BulkRow(translated=row.translated, outcome=f"refused: {name}", refused=name)]

    monkeypatch.setattr(bulk_translation, "carry_out", refused)
    result = run("translate", "A->B", "--all", "--commit", "--yes", "--to", tmp_path, "-o", "json")
    assert result.exit_code == 4
    outcomes = ["committed", "refused: GROUP_AUTHORIZATION_FAILED"]
    assert [row["outcome"] for row in json.loads(result.stdout)] == outcomes
    assert [row["outcome"] for row in pq.read_table(tmp_path / "translated.parquet").to_pylist()] == outcomes
    assert "1 offsets of 1 groups were not committed on B, the first of billing: GROUP_AUTH" in result.stderr


def test_nothing_is_committed_where_the_rows_cant_be_written(orders: list[BulkOrder], run: Run, tmp_path: Path) -> None:
    """A file that is there already, and a directory that can't be made."""
    (tmp_path / "translated.parquet").touch()
    (tmp_path / "file").touch()
    for directory, says in ((tmp_path, "is there already"), (tmp_path / "file" / "new", "can't be written")):
        result = run("translate", "A->B", "--all", "--commit", "--yes", "--to", directory)
        assert result.exit_code == 2
        assert says in result.stderr
    assert orders == []


def test_rows_are_written_as_parquet(orders: list[BulkOrder], run: Run, tmp_path: Path) -> None:
    """Once, and never over what is there."""
    there = tmp_path / "new" / "directory"
    assert run("translate", "A->B", "--all", "--to", str(there)).exit_code == 1
    (first, second) = pq.read_table(there / "translated.parquet").to_pylist()
    assert (first["group"], first["source_offset"], first["target_offset"], first["exact"]) == ("billing", 70, 68, True)
    assert second["target_offset"] is None
    result = run("translate", "A->B", "--all", "--to", str(there))
    assert result.exit_code == 2
    assert "is there already" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--all", "--group", "billing"), "--all is for all groups"),
        (("--all", "orders:1", "--offset", "3"), "--all is for all groups"),
        (("--all", "--dry-run"), "for --commit"),
        (("--group", "billing", "--spark"), "are for --all"),
        (("--group", "billing", "--as-of", "1h"), "are for --all"),
        (("--all", "--as-of", "yesterday"), "is no point in time"),
    ],
)
def test_what_does_not_go_together_is_refused(
    orders: list[BulkOrder], run: Run, arguments: tuple[str, ...], says: str
) -> None:
    """With the exit code of a usage error."""
    result = run("translate", "A->B", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert orders == []


def test_a_flow_that_is_not_there_is_named(orders: list[BulkOrder], run: Run) -> None:
    """With those that are."""
    result = run("translate", "A->C", "--all", "--as-of", "1h")
    assert result.exit_code == 2
    assert "there is no flow A->C; flows: A->B" in result.stderr
