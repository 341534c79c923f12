"""validate, set and config: what they say of a configuration and of settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mirror_ray.cli.config import parse_changes
from mirror_ray.config.difference import changed
from mirror_ray.config.load import load_settings
from mirror_ray.config.runtime_changes import with_changes
from mirror_ray.records import kernel
from tests.unit.cli.fakes import CONFIG, FakeCoordinator, Run


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


def test_validate_says_that_small_batches_are_not_merged(
    config: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the record kernel; unless no flow merges anyway."""
    monkeypatch.setattr(kernel, "_native", object())
    assert "not merged" not in run("validate", config).stderr
    monkeypatch.setattr(kernel, "_native", None)
    assert "small batches are not merged: no record kernel; install Cargo" in run("validate", config).stderr
    notes = json.loads(run("validate", config, "-o", "json").stdout)["notes"]
    assert [note["kind"] for note in notes if note["key"] == "merge"] == ["off"]
    config.write_text(config.read_text() + "A->B.merge = false\n")
    assert "not merged" not in run("validate", config).stderr


def test_validate_counts_the_defaults_that_differ_and_lists_them_on_demand(config: Path, run: Run) -> None:
    """A minimal file has few notes."""
    few, every = run("validate", config).stderr, run("validate", config, "--all").stderr
    assert "defaults differ from MM2's" in few
    assert "isolation.level" not in few
    assert len(few.splitlines()) == 1
    assert "isolation.level (default)" in every


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
