"""The command up: what it starts, updates, asks about and stops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from mirror_ray.cli import control
from mirror_ray.config.load import load_settings
from mirror_ray.model.errors import ConfigError, NotRunningError
from tests.unit.cli.fakes import CONFIG, PARTITION, FakeCoordinator, Run


def test_up_detached_leaves_it_running(coordinator: FakeCoordinator, run: Run, config: Path) -> None:
    """The system is let go of, not stopped."""
    result = run("up", config, "--detach")
    assert result.exit_code == 0, result.stderr
    assert coordinator.commands == []
    assert coordinator.closed


def test_up_until_caught_up_drains_and_ends_with_0(coordinator: FakeCoordinator, run: Run, config: Path) -> None:
    """What the command has started, it stops."""
    result = run("up", config, "--until-caught-up")
    assert result.exit_code == 0, result.stderr
    assert coordinator.commands == [("settle_groups", 20.0), ("down", 30.0)]


def test_up_leaves_a_system_that_ran_before(coordinator: FakeCoordinator, run: Run, config: Path) -> None:
    """An update that ends stops nothing."""
    coordinator.before = load_settings(config).settings
    assert run("up", config, "--until-caught-up").exit_code == 0
    assert coordinator.commands == [("settle_groups", 20.0)]


def test_up_says_what_it_changes(coordinator: FakeCoordinator, run: Run, config: Path) -> None:
    """By flow and by key; a dry run does nothing else."""
    coordinator.before = coordinator.configuration = load_settings(config).settings
    config.write_text(CONFIG + "A->B.topics = orders\n")
    said = "A->B configured (topics)\n  A->B topics.include: .* -> orders\n"
    result = run("up", config, "--dry-run")
    assert (result.exit_code, result.stderr) == (0, f"mirror would be: {said}")
    result = run("up", config, "--detach", "--yes")
    assert result.stderr.startswith(f"mirror: {said}")
    assert coordinator.commands == []


def test_a_pipeline_learns_by_the_exit_code_what_would_change(
    coordinator: FakeCoordinator, run: Run, config: Path
) -> None:
    """1 where something would, 2 where it is refused, as without a dry run."""
    coordinator.before = coordinator.configuration = load_settings(config).settings
    asked = ("up", config, "--dry-run", "--exit-code")
    assert run(*asked).exit_code == 0
    config.write_text(CONFIG + "A->B.topics = orders\n")
    changed = run(*asked)
    assert (changed.exit_code, "topics.include: .* -> orders" in changed.stderr) == (1, True)
    assert run("up", config, "--exit-code").exit_code == 2
    coordinator.errors["apply"] = ConfigError("A->B: target cluster B now has the cluster id X")
    assert run(*asked).exit_code == 2
    assert coordinator.commands == []


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


def test_up_that_runs_out_of_time_ends_with_1(coordinator: FakeCoordinator, run: Run, config: Path) -> None:
    """It was asked for a lag of 0, and it is not so."""
    coordinator.partitions = (replace(PARTITION, lag_records=5),)
    result = run("up", config, "--until-caught-up", "--for", "0")
    assert result.exit_code == 1
    assert coordinator.commands == [("down", 30.0)]


def test_up_ends_when_another_shell_stops_it(coordinator: FakeCoordinator, run: Run, config: Path) -> None:
    """That is no failure."""
    coordinator.errors["status"] = NotRunningError("ended")
    assert run("up", config).exit_code == 0


def test_ctrl_c_drains(coordinator: FakeCoordinator, run: Run, config: Path) -> None:
    """In the foreground Ctrl-C is `down`."""
    coordinator.interrupted_in = "status"
    assert run("up", config).exit_code == 0
    assert coordinator.commands == [("down", 30.0)]


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
