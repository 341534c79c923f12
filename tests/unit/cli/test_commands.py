"""What each command prints, does and returns."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from mirror_ray.cli import control
from mirror_ray.cli.config import parse_changes
from mirror_ray.config.difference import changed
from mirror_ray.config.load import load_settings
from mirror_ray.config.runtime_changes import with_changes
from mirror_ray.model.backfill import BackfillRange, BackfillRecord
from mirror_ray.model.errors import (
    ClusterUnreachableError,
    ConfigError,
    KafkaProtocolError,
    MirrorError,
    NotRunningError,
)
from mirror_ray.observe.backfills import backfill_status
from tests.unit.cli.fakes import CONFIG, FLOW, PARTITION, FakeCoordinator, status_of, stopped

Run = Callable[..., Any]


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


@pytest.mark.parametrize("command", ["status", "lag", "topics", "replicators", "events", "gaps"])
def test_yaml_says_what_json_says(coordinator: FakeCoordinator, run: Run, command: str) -> None:
    """Both forms hold the same data, on stdout alone."""
    as_json, as_yaml = run(command, "-o", "json"), run(command, "-o", "yaml")
    assert json.loads(as_json.stdout) == yaml.safe_load(as_yaml.stdout)
    assert as_json.stderr == ""


@pytest.mark.parametrize(
    ("command", "cell"),
    [
        ("status", "12,346"),
        ("lag", "orders"),
        ("topics", "A.orders"),
        ("replicators", "4711"),
        ("events", "found topic"),
    ],
)
def test_tables_are_for_people(coordinator: FakeCoordinator, run: Run, command: str, cell: str) -> None:
    """A table holds what the command's name says."""
    result = run(command)
    assert result.exit_code == 0
    assert cell in result.stdout


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
    record = BackfillRecord(topic="orders", into="old", ranges=(BackfillRange(0, 10, 30),), said="", time_ms=0)
    line = backfill_status("A->B#1", record, state="stopped", reason="disk full", positions={0: 15})
    coordinator.status = replace(status_of(FLOW), backfills=(line,))
    assert "A->B#1  orders into old  5 of 20 (25%)  stopped: disk full" in run("status").stdout


@pytest.mark.parametrize(("state", "exit_code"), [("running", 0), ("paused", 0), ("degraded", 1), ("unreachable", 1)])
def test_status_ends_with_1_when_a_flow_is_unhealthy(
    coordinator: FakeCoordinator, run: Run, state: Any, exit_code: int
) -> None:
    """What an operator has paused is healthy."""
    coordinator.status = status_of(replace(FLOW, state=state), problems=(stopped("refused: it is full"),))
    result = run("status")
    assert result.exit_code == exit_code
    assert "partition_stopped  A->B orders: refused: it is full. Next: do something" in result.stdout


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("scale", "3"), ("scale", 3)),
        (("scale", "--auto"), ("scale_by_load", None, None)),
        (("scale", "--min", "2", "--max", "5"), ("scale_by_load", 2, 5)),
        (("pause", "A->B"), ("pause", "A->B", None, None)),
        (("resolve", "A->B", "orders:3", "--by", "skip", "--yes"), ("resolve", "A->B", "orders", 3, "skip")),
        (("resolve", "A->B", "orders", "--by", "resync", "-y"), ("resolve", "A->B", "orders", None, "resync")),
        (("pause", "A->B", "orders"), ("pause", "A->B", "orders", None)),
        (("resume", "A->B", "orders:3"), ("resume", "A->B", "orders", 3)),
        (("down", "--deadline", "5"), ("down", 5.0)),
    ],
)
def test_acting_commands_tell_the_coordinator(
    coordinator: FakeCoordinator, run: Run, args: tuple[str, ...], told: tuple[Any, ...]
) -> None:
    """Their talk goes to stderr, and Ray is let go of."""
    result = run(*args)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert coordinator.told == [told]
    assert coordinator.ended is (args[0] == "down")
    assert coordinator.closed


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


def test_debug_shows_the_traceback(coordinator: FakeCoordinator, run: Run) -> None:
    """For those who look for the cause in our code."""
    coordinator.errors["status"] = NotRunningError("nothing runs")
    assert "Traceback" in run("--debug", "status").stderr


@pytest.mark.parametrize("scope", ["orders:", "orders:x", ":1"])
def test_a_wrong_scope_is_a_usage_error(coordinator: FakeCoordinator, run: Run, scope: str) -> None:
    """Nothing is paused by guessing."""
    assert run("pause", "A->B", scope).exit_code == 2
    assert coordinator.told == []


@pytest.mark.parametrize(
    "args", [("nothing",), ("scale", "0"), ("scale",), ("scale", "2", "--auto"), ("lag", "-o", "xml")]
)
def test_usage_errors_end_with_2(run: Run, args: tuple[str, ...]) -> None:
    """As in every command line."""
    assert run(*args).exit_code == 2


def test_validate_names_every_mistake(tmp_path: Path, run: Run) -> None:
    """A configuration with a mistake ends with 2."""
    path = tmp_path / "mm2.properties"
    path.write_text(CONFIG + "A->B.topics = (\n")
    result = run("validate", path)
    assert result.exit_code == 2
    assert "topics" in result.stderr
    assert json.loads(run("validate", path, "-o", "json").stdout)["valid"] is False


def test_validate_reads_the_stores(tmp_path: Path, run: Run) -> None:
    """Of the clusters that an enabled flow has; the others' may lie on another machine."""
    path = tmp_path / "mm2.properties"
    path.write_text(CONFIG + "A.security.protocol = SSL\nA.ssl.truststore.location = /none.jks\n")
    result = run("validate", path)
    assert result.exit_code == 2
    assert f"{path}: A.ssl.truststore.location: /none.jks can't be read: No such file" in " ".join(
        result.stderr.split()
    )
    assert json.loads(run("validate", path, "-o", "json").stdout)["problems"] == [
        f"{path}: A.ssl.truststore.location: /none.jks can't be read: No such file or directory"
    ]
    path.write_text(path.read_text() + "A->B.enabled = false\n")
    assert run("validate", path).exit_code == 0


def test_validate_says_valid_and_what_is_ignored(config: Path, run: Run) -> None:
    """Notes are talk, the answer is data."""
    result = run("validate", config)
    assert result.exit_code == 0
    assert "valid" in result.stdout
    assert "A->B" in result.stdout


def test_validate_counts_the_defaults_that_differ_and_lists_them_on_demand(config: Path, run: Run) -> None:
    """A minimal file has few notes."""
    few, every = run("validate", config).stderr, run("validate", config, "--all").stderr
    assert "defaults differ from MM2's" in few
    assert "isolation.level" not in few
    assert len(few.splitlines()) == 1
    assert "isolation.level (default)" in every


def test_up_detached_leaves_it_running(coordinator: FakeCoordinator, run: Run, config: Path) -> None:
    """The system is let go of, not stopped."""
    result = run("up", config, "--detach")
    assert result.exit_code == 0, result.stderr
    assert coordinator.told == []
    assert coordinator.closed


def test_up_until_caught_up_drains_and_ends_with_0(coordinator: FakeCoordinator, run: Run, config: Path) -> None:
    """What the command has started, it stops."""
    result = run("up", config, "--until-caught-up")
    assert result.exit_code == 0, result.stderr
    assert coordinator.told == [("settle_groups", 20.0), ("down", 30.0)]


def test_up_leaves_a_system_that_ran_before(coordinator: FakeCoordinator, run: Run, config: Path) -> None:
    """An update that ends stops nothing."""
    coordinator.before = load_settings(config).settings
    assert run("up", config, "--until-caught-up").exit_code == 0
    assert coordinator.told == [("settle_groups", 20.0)]


def test_up_says_what_it_changes(coordinator: FakeCoordinator, run: Run, config: Path) -> None:
    """By flow and by key; a dry run does nothing else."""
    coordinator.before = coordinator.configuration = load_settings(config).settings
    config.write_text(CONFIG + "A->B.topics = orders\n")
    said = "A->B configured (topics)\n  A->B topics.include: .* -> orders\n"
    result = run("up", config, "--dry-run")
    assert (result.exit_code, result.stderr) == (0, f"mirror would be: {said}")
    result = run("up", config, "--detach", "--yes")
    assert result.stderr.startswith(f"mirror: {said}")
    assert coordinator.told == []


def test_up_changes_no_running_system_unasked(
    coordinator: FakeCoordinator, run: Run, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what would change; then a terminal is asked, and without one --yes is wanted. The same needs neither."""
    coordinator.before = load_settings(config).settings
    assert run("up", config, "--detach").exit_code == 0
    coordinator.started = False
    config.write_text(CONFIG + "A->B.topics = orders\n")
    said = "mirror runs already, and would be: A->B configured (topics)\n  A->B topics.include: .* -> orders\n"
    unasked = run("up", config, "--detach")
    assert (unasked.exit_code, coordinator.started) == (2, False)
    assert unasked.stderr.startswith(said)
    assert "--yes" in unasked.stderr
    monkeypatch.setattr(control, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    for answer, ended in ((False, (1, False)), (True, (0, True))):
        monkeypatch.setattr("typer.confirm", lambda question, err, said=answer: said and "mirror" in question)
        result = run("up", config, "--detach")
        assert (result.exit_code, coordinator.started) == ended
    assert run("up", config, "--detach", "-y").exit_code == 0


def test_up_that_is_refused_is_not_asked_about(coordinator: FakeCoordinator, run: Run, config: Path) -> None:
    """Another cluster than a flow has begun with: --yes does not help, and a dry run says so, too."""
    coordinator.before = load_settings(config).settings
    coordinator.errors["apply"] = ConfigError("A->B: target cluster B now has the cluster id X")
    for options in ((), ("--yes",), ("--dry-run",)):
        result = run("up", config, "--detach", *options)
        assert (result.exit_code, coordinator.started) == (2, False)
        assert "cluster id X" in result.stderr


def test_up_onto_somebody_elses_system_says_with_what_it_ends(
    coordinator: FakeCoordinator, run: Run, config: Path
) -> None:
    """When the process that started it ends, the system ends, whoever else has joined."""
    coordinator.before = load_settings(config).settings
    coordinator.ends_with = "mirror-ray demo (process 17)"
    result = run("up", config, "--until-caught-up")
    assert "mirror was started by mirror-ray demo (process 17), and ends when that ends" in result.stderr
    assert "goes on until mirror-ray demo (process 17) ends" in result.stderr
    assert result.exit_code == 0


def test_set_hands_on_keys_and_says_what_they_touch(coordinator: FakeCoordinator, run: Run, config: Path) -> None:
    """A value, a default, the system's own keys; what is no key is a mistake before anybody is asked."""
    before = load_settings(config).settings
    changes = {"topics.include": "orders", "topics.exclude": None}
    coordinator.set = changed(before, with_changes(before, "A->B", changes))
    result = run("set", "A->B", "topics.include=orders", "topics.exclude-", "--dry-run")
    assert result.stderr.startswith("mirror would be: A->B configured (topics)\n"), result.stderr
    assert "to keep it" in run("set", "A->B", "topics.include=orders").stderr
    assert run("set", "A->B", "topics.include").exit_code == 2
    assert parse_changes(["topics.include=orders", "topics.exclude-"]) == changes


def test_config_is_a_file_for_up(coordinator: FakeCoordinator, run: Run, config: Path) -> None:
    """What is printed is read as what runs."""
    coordinator.configuration = load_settings(config).settings
    result = run("config")
    assert result.exit_code == 0, result.stderr
    path = config.with_name("saved.yaml")
    path.write_text(result.stdout)
    assert load_settings(path).settings == coordinator.configuration


def test_up_that_runs_out_of_time_ends_with_1(coordinator: FakeCoordinator, run: Run, config: Path) -> None:
    """It was asked for a lag of 0, and it is not so."""
    coordinator.partitions = (replace(PARTITION, lag_records=5),)
    result = run("up", config, "--until-caught-up", "--for", "0")
    assert result.exit_code == 1
    assert coordinator.told == [("down", 30.0)]


def test_up_ends_when_another_shell_stops_it(coordinator: FakeCoordinator, run: Run, config: Path) -> None:
    """That is no failure."""
    coordinator.errors["status"] = NotRunningError("ended")
    assert run("up", config).exit_code == 0


def test_ctrl_c_drains(coordinator: FakeCoordinator, run: Run, config: Path) -> None:
    """In the foreground Ctrl-C is `down`."""
    coordinator.interrupted_in = "status"
    assert run("up", config).exit_code == 0
    assert coordinator.told == [("down", 30.0)]


def test_detach_contradicts_waiting(run: Run, config: Path) -> None:
    """Rather an error than a guess."""
    assert run("up", config, "--detach", "--until-caught-up").exit_code == 2


def test_up_needs_an_enabled_flow(tmp_path: Path, run: Run) -> None:
    """A file that would start nothing is a mistake."""
    path = tmp_path / "mm2.properties"
    path.write_text(CONFIG.replace("A->B.enabled = true", ""))
    result = run("up", path)
    assert result.exit_code == 2
    assert "enabled" in result.stderr


def test_help_comes_without_ray() -> None:
    """Importing the command line imports neither Ray nor a Kafka client."""
    code = "import sys, mirror_ray.cli; print([m for m in ('ray', 'confluent_kafka', 'pyspark') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_resolve_asks_nobody_without_a_terminal(coordinator: FakeCoordinator, run: Run) -> None:
    """A script has to say that it means it."""
    result = run("resolve", "A->B", "orders:3", "--by", "resync")
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert coordinator.told == []


def test_resolve_names_what_goes_on(coordinator: FakeCoordinator, run: Run) -> None:
    """The answer says which partitions, and where the rest is told."""
    result = run("resolve", "A->B", "orders:3", "--by", "skip", "--yes")
    assert "skip for orders-3" in result.stderr
    assert "mirror-ray events" in result.stderr


def test_gaps_shows_what_was_lost(coordinator: FakeCoordinator, run: Run) -> None:
    """Kind, policy and both ranges."""
    result = run("gaps", "A->B")
    assert all(word in result.stdout for word in ("source_removed", "skip", "50 to 80", "-"))
