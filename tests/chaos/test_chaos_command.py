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
    path = tmp_path / "chaos.md"
    name = f"chaos-{os.getpid()}"
    done = mirror_ray(
        "chaos", "--faults", str(FAULTS), "--seed", str(SEED), "--report", str(path), "--name", name, timeout_s=800
    )
    report = path.read_text()
    assert report in done.stdout
    assert "**EQUAL" in report
    assert report.count("| as it should be |") == 6
    for fault in plan(SEED, FAULTS):
        row = rf"^\| (\+ )?{fault.number} \| \d+ \| {fault.action} \| {fault.victim} \|"
        assert re.search(row, report, re.MULTILINE), fault
