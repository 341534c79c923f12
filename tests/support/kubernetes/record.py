"""What was done to a cluster, what was seen, and how long it took: the report in docs/deploy."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

_HEAD = """# On Kubernetes, as it was tried

`make kubernetes` has written this. It starts a Kubernetes control plane and three nodes, does to it what
[deploy/README.md](../../deploy/README.md) and [upgrade](../upgrade.md) tell, while records keep coming, and compares
every record after each step. What stands in for the kubelet, and what it can't show, is said in
[deploy/README.md](../../deploy/README.md#what-was-tried-and-what-was-not).
"""


@dataclass(slots=True, kw_only=True)
class Step:
    """One thing that was done, or waited for."""

    title: str
    seconds: float | None = None
    seen: list[str] = field(default_factory=list)

    def saw(self, text: str) -> None:
        """Note what was seen."""
        self.seen.append(text)


class Record:
    """Steps by chapters, in the order in which they were done."""

    def __init__(self) -> None:
        self._chapters: dict[str, list[Step]] = {}
        self._failed: list[str] = []
        #: How many tests have ended.
        self.done = 0

    def failed(self, test: str) -> None:
        """Note a test that failed."""
        self._failed.append(test)

    @contextmanager
    def step(self, chapter: str, title: str) -> Iterator[Step]:
        """Measure a step. Of one that fails the report has its test's name alone."""
        step = Step(title=title)
        began_s = time.monotonic()
        yield step
        step.seconds = time.monotonic() - began_s
        self._chapters.setdefault(chapter, []).append(step)

    def write(self, path: Path, versions: Mapping[str, str], *, tests: int) -> None:
        """Write the report of a run that was to do so many tests."""
        machine = f"{os.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB"
        lines = [
            _HEAD,
            "| | |",
            "|---|---|",
            f"| date | {dt.datetime.now(dt.UTC):%Y-%m-%d} |",
            f"| machine | {machine} |",
        ]
        lines += [f"| {name} | {version} |" for name, version in versions.items()]
        for chapter, steps in self._chapters.items():
            lines += ["", f"## {chapter}", "", "| step | seconds | seen |", "|---|---:|---|"]
            lines += [f"| {step.title} | {step.seconds or 0:.1f} | {'; '.join(step.seen)} |" for step in steps]
        lines += [
            "",
            f"{self.done} of {tests} tests were run. Failed: "
            + (", ".join(f"`{test}`" for test in self._failed) or "nothing")
            + ".",
        ]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([*lines, ""]))
