"""The benchmark in small: both contenders, a kill, the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.class_archive import quick_mm2
from tests.support.command import mirror_ray


@pytest.mark.timeout(600)
def test_a_small_benchmark(tmp_path: Path) -> None:
    """mirror-ray and MM2 copy all; killed half-way, mirror-ray doubles nothing; the report has tables and pictures."""
    arguments = ["--quick", "--size", "0.05", "--against", "mm2", "--to", str(tmp_path), "-o", "json"]
    done = mirror_ray(
        "bench", "--workload", "small-batches", "--workload", "restart", *arguments, timeout_s=560, env=quick_mm2()
    )
    found = {(row["workload"], row["case"], row["contender"]): row for row in json.loads(done.stdout)["rows"]}
    for key in (
        ("small-batches", "", "mirror-ray"),
        ("small-batches", "", "mm2 tuned"),
        ("restart", "all of it, started again", "mirror-ray"),
        ("restart", "one replicator", "mirror-ray"),
    ):
        judgement = found[key]["judgement"]
        assert judgement is not None, f"{key}: {found[key]['notes']}"
        assert (judgement["lost"], judgement["doubled"], judgement["foreign"]) == (0, 0, 0)
        assert judgement["copied"] > 0
    for row in found.values():
        assert not [note for note in row["notes"] if "not measured" in note]
    assert found["small-batches", "", "mirror-ray"]["figures"]["cpu_s"]["median"] > 0
    report = (tmp_path / "report.md").read_text()
    assert "| mm2 tuned |" in report
    assert (tmp_path / "small-batches.svg").read_text().startswith("<svg ")
    assert json.loads((tmp_path / "results.json").read_text())["rows"]


def test_an_unknown_workload_is_named() -> None:
    """With those that there are."""
    assert "no workload is named fast: throughput" in mirror_ray("bench", "--workload", "fast", exit_code=2).stderr
