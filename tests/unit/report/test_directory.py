"""A report's directory: what is refused, and what a killed run leaves is removed."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path

import pytest

from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.report.directory import ReportDirectory, open_directory
from mirror_ray.report.progress import LogRead, ReadBatch, advanced

TOPIC = "mm2-ray-stats.A.internal"
READ = LogRead(topic_id="t", partition=0, first=0, next=9)


def stage(directory: ReportDirectory, *days: str) -> Path:
    """As Spark would."""
    staged = directory.staging / "intervals"
    for day in days:
        (staged / f"date={day}").mkdir(parents=True)
        (staged / f"date={day}" / "part-0.snappy.parquet").write_text(day)
    return staged


def run(directory: ReportDirectory, *days: str) -> None:
    """One whole run."""
    files, found = directory.adopt_intervals(stage(directory, *days), [READ])
    batch = ReadBatch(logs=(READ,), files=tuple(files), days=tuple(found), bad={}, bad_examples=())
    directory.save(advanced(directory.progress, batch))


def refused(path: Path, error: type[Exception], text: str) -> None:
    """It can't be opened, and the text says why."""
    with pytest.raises(error, match=text), open_directory(path, "A->B", TOPIC):
        pytest.fail("it was opened")


def test_a_run_that_says_so_is_kept(tmp_path: Path) -> None:
    """Its files are where the next run finds them; records without a day are not among them."""
    with open_directory(tmp_path / "new" / "report", "A->B", TOPIC) as directory:
        run(directory, "2026-11-22", "__HIVE_DEFAULT_PARTITION__")
    with open_directory(tmp_path / "new" / "report", "A->B", TOPIC) as directory:
        (file,) = directory.files()
        assert Path(file).read_text() == "2026-11-22"
        assert directory.progress.logs == (READ,)
        assert not directory.staging.exists()


def test_what_a_killed_run_put_there_is_removed(tmp_path: Path) -> None:
    """Before the next one reads the same again."""
    with suppress(KeyboardInterrupt), open_directory(tmp_path, "A->B", TOPIC) as directory:
        directory.adopt_intervals(stage(directory, "2026-11-22"), [READ])
        stage(directory, "2026-11-23")
        raise KeyboardInterrupt
    assert list(tmp_path.glob("intervals/*/*"))
    with open_directory(tmp_path, "A->B", TOPIC) as directory:
        assert directory.progress.files == ()
        assert not directory.staging.exists()
    assert not list(tmp_path.glob("intervals/*/*"))


def test_hours_are_replaced(tmp_path: Path) -> None:
    """One file for a day, always."""
    for text in ("one", "two"):
        with open_directory(tmp_path, "A->B", TOPIC) as directory:
            staged = stage(directory, "2026-11-22")
            (staged / "date=2026-11-22" / "part-0.snappy.parquet").write_text(text)
            directory.adopt_hours(staged)
    (hours,) = tmp_path.glob("hours/*/*")
    assert hours.read_text() == "two"


def test_a_day_that_was_deleted_is_forgotten(tmp_path: Path) -> None:
    """A single file that is gone is an error."""
    with open_directory(tmp_path, "A->B", TOPIC) as directory:
        run(directory, "2026-11-21", "2026-11-22")
        old, _ = map(Path, directory.files())
    other = old.with_name("other.parquet")
    old.rename(other)
    state = json.loads((tmp_path / "_state.json").read_text())
    state["files"].append(str(other.relative_to(tmp_path)))
    (tmp_path / "_state.json").write_text(json.dumps(state))
    refused(tmp_path, MirrorError, r"lacks intervals/date=2026-11-21")
    other.unlink()
    with open_directory(tmp_path, "A->B", TOPIC) as directory:
        assert [Path(path).parent.name for path in directory.files()] == ["date=2026-11-22"]


def test_what_is_not_this_flows_report_is_refused(tmp_path: Path) -> None:
    """Another flow's, another version's, anything else; the text says what to do."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    for name in ("other", "broken"):
        with open_directory(tmp_path / name, "A->C", TOPIC):
            pass
    (tmp_path / "broken" / "_state.json").write_text("{")
    cases = {"full": "neither empty nor a report", "other": "holds the report of A->C", "broken": "new directory"}
    for name, text in cases.items():
        refused(tmp_path / name, ConfigError, text)


def test_a_first_run_that_failed_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither when the disk was full, nor when it was killed while it wrote; a directory with anything else stays."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        refused(tmp_path, MirrorError, "No space left")
    assert [path.name for path in tmp_path.iterdir()] == ["_lock"]
    (tmp_path / "._state.json.tmp").write_text("{")
    with open_directory(tmp_path, "A->B", TOPIC):
        assert sorted(path.name for path in tmp_path.iterdir()) == ["_lock", "_state.json"]


def test_a_run_that_just_begins_is_another_report(tmp_path: Path) -> None:
    """Before it has written anything whole."""
    (tmp_path / "._state.json.tmp").touch()
    with (tmp_path / "_lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused(tmp_path, MirrorError, "another report")


def test_a_place_that_can_not_be_written_to_is_named(tmp_path: Path) -> None:
    """A file stands there, or rights are missing."""
    (tmp_path / "file").touch()
    refused(tmp_path / "file", ConfigError, "can't be written to")
    if os.geteuid():
        (tmp_path / "closed").mkdir(mode=0o500)
        refused(tmp_path / "closed" / "report", ConfigError, "can't be written to")


@pytest.mark.parametrize("name", ["A[1]", "{A,B}", "A*", "what?", "A\\B"])
def test_a_path_that_spark_takes_for_a_pattern_is_refused(tmp_path: Path, name: str) -> None:
    """Before anything is made there: no run could read what the first one wrote. Also where only its parent is one."""
    for path in (tmp_path / name, tmp_path / name / "report"):
        refused(path, ConfigError, "is a pattern to Spark")
    assert not list(tmp_path.iterdir())


def test_one_run_at_a_time(tmp_path: Path) -> None:
    """A second one says so, and changes nothing."""
    with open_directory(tmp_path, "A->B", TOPIC) as directory:
        stage(directory, "2026-11-22")
        refused(tmp_path, MirrorError, "another report")
        assert directory.staging.exists()
