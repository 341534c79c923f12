"""The chaos run of the command line, short."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from mirror_ray.lab.chaos.schedule import plan
from tests.support.command import mirror_ray

FAULTS = 12
SEED = 46


@pytest.mark.timeout(900)
def test_every_kind_of_fault_is_survived(tmp_path: Path) -> None:
    """Processes killed and frozen while records flow both ways; then all copies are equal, record by record."""
    _run(tmp_path / "chaos.md", topics=6, timeout_s=800)


@pytest.mark.skipif("LONG_CHAOS" not in os.environ, reason="takes minutes: LONG_CHAOS=1")
@pytest.mark.timeout(900)
def test_offsets_are_preserved_through_faults(tmp_path: Path) -> None:
    """Of records and of groups. A log that begins at 3,000,000,000, as without the option, takes longer."""
    far = ("--preserve-offsets", "--farthest-offset", "30000000")
    report = _run(tmp_path / "chaos.md", *far, topics=8, timeout_s=800, faults=5)
    assert "from offset 30,000,000 |" in report
    # Three groups in each of 19 partitions.
    assert "57 offsets of groups where they are on the source" in report


def _run(path: Path, *options: str, topics: int, timeout_s: float, faults: int = FAULTS) -> str:
    """The report of a run whose copies of so many topics are as they should be."""
    name = f"chaos-{os.getpid()}"
    asked = ("--faults", str(faults), "--seed", str(SEED), "--report", str(path), "--name", name)
    done = mirror_ray("chaos", *asked, *options, timeout_s=timeout_s)
    report = path.read_text()
    assert report in done.stdout
    assert "**EQUAL" in report
    assert report.count("| as it should be |") == topics
    for fault in plan(SEED, faults):
        row = rf"^\| (\+ )?{fault.number} \| \d+ \| {fault.action} \| {fault.victim} \|"
        assert re.search(row, report, re.MULTILINE), fault
    return report
