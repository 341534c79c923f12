"""A report's directory: its progress, its Parquet files, its HTML. Whatever is written appears whole or not at all.

::

    _state.json                        how far the topic was read, and which files are whole
    intervals/date=YYYY-MM-DD/*.parquet    one row per (partition, interval), as published
    hours/date=YYYY-MM-DD/hours.parquet    one row per (topic, partition, hour)
    report.json, report.html           the same figures for programs and for people
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.report.progress import LogRead, ReadProgress, file_name, left_over, missing, without
from mirror_ray.writing import writing

_STATE = "_state.json"
_STAGING = "_staging"
_LOCK = "_lock"
#: Characters of a path that Spark takes for a pattern when it reads.
_PATTERNS = frozenset("[]{}*?\\")
#: Spark's name for the day of rows that have none.
_NO_DAY = "__HIVE_DEFAULT_PARTITION__"


class ReportDirectory:
    """One flow's report, for one run at a time: use ``open_directory``."""

    def __init__(self, path: Path, progress: ReadProgress) -> None:
        self.path = path
        self.progress = progress

    @property
    def staging(self) -> Path:
        """Where a run writes files that are not complete yet."""
        return self.path / _STAGING

    def save(self, progress: ReadProgress) -> None:
        """Write the progress: the next run continues from it."""
        self.write(_STATE, json.dumps(progress.plain(), indent=1, ensure_ascii=False))
        self.progress = progress

    def write(self, name: str, text: str) -> Path:
        """Write a file; it replaces an older one."""
        path, unfinished = self.path / name, self.path / _unfinished(name)
        with writing(path):
            try:
                with unfinished.open("w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                unfinished.replace(path)
            finally:
                unfinished.unlink(missing_ok=True)
        return path

    def files(self) -> list[str]:
        """Paths of the complete interval files."""
        return [str(self.path / name) for name in self.progress.files]

    def clean(self) -> None:
        """Remove what a killed run left; forget days that were deleted. Raises MirrorError if a file is missing."""
        shutil.rmtree(self.staging, ignore_errors=True)
        present = {str(path.relative_to(self.path)) for path in self.path.glob("intervals/date=*/*.parquet")}
        for name in left_over(self.progress, present):
            (self.path / name).unlink()
        if absent := missing(self.progress, present):
            raise MirrorError(
                f"{self.path} lacks {min(absent)} ({len(absent)} files): bring it back, delete its whole day, or write"
                " the report to a new directory"
            )
        if deleted := set(self.progress.files) - present:
            self.save(without(self.progress, deleted))

    def adopt_intervals(self, staged: Path, logs: Iterable[LogRead]) -> tuple[list[str], list[str]]:
        """Move a run's staged intervals into place; returns their names and their days."""
        read = tuple(logs)
        names, days = [], []
        for day, files in _by_day(staged):
            days.append(day)
            for number, file in enumerate(files):
                name = file_name(day, read, number)
                self._move(file, name)
                names.append(name)
        return names, days

    def adopt_hours(self, staged: Path) -> None:
        """Replace the hours of each day that is staged."""
        for day, files in _by_day(staged):
            (file,) = files
            self._move(file, f"hours/date={day}/hours.parquet")

    def _move(self, file: Path, name: str) -> None:
        target = self.path / name
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            file.replace(target)


@contextmanager
def open_directory(path: Path, flow: str, topic: str) -> Iterator[ReportDirectory]:
    """A flow's directory, made where it is missing, for this run alone.

    Raises:
        ConfigError: It can't be written to, holds something else, or another flow's report; its path is a pattern.
        MirrorError: Another run is at work there, or files of it are missing.
    """
    if odd := sorted(_PATTERNS.intersection(str(path.absolute()))):
        raise ConfigError(
            f"--to {path.absolute()} is a pattern to Spark, by its {' '.join(odd)}: name another directory"
        )
    with _lock(path) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MirrorError(f"another report is being written to {path}: wait for it") from None
        directory = ReportDirectory(path, _load(path, flow, topic))
        directory.save(directory.progress)
        directory.clean()
        try:
            yield directory
        finally:
            shutil.rmtree(directory.staging, ignore_errors=True)


def _lock(path: Path) -> IO[str]:
    """Open the file that a run locks; the directory must be new, empty, or a report's."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        # A first run may be writing its state just now, or was killed at it.
        begun = {_LOCK, _unfinished(_STATE), _STATE}
        if not (path / _STATE).exists() and any(entry.name not in begun for entry in path.iterdir()):
            raise ConfigError(f"--to {path} is neither empty nor a report: name another directory")
        return (path / _LOCK).open("w")
    except OSError as error:
        raise ConfigError(f"--to {path} can't be written to: {error.strerror or error}") from error


def _unfinished(name: str) -> str:
    """The name of a file until it is complete."""
    return f".{name}.tmp"


def _load(path: Path, flow: str, topic: str) -> ReadProgress:
    file = path / _STATE
    try:
        progress = ReadProgress.of_plain(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return ReadProgress(flow=flow, topic=topic)
    except ValueError as error:
        raise ConfigError(f"{file} can't be read ({error}): write the report to a new directory") from error
    if (progress.flow, progress.topic) != (flow, topic):
        raise ConfigError(f"--to {path} holds the report of {progress.flow}, not of {flow}: name another directory")
    return progress


def _by_day(staged: Path) -> Iterator[tuple[str, list[Path]]]:
    for folder in sorted(staged.glob("date=*")):
        day = folder.name.removeprefix("date=")
        if day != _NO_DAY:
            yield day, sorted(folder.glob("*.parquet"))
