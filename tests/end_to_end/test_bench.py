"""The benchmark in small: both contenders, kills, the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.class_archive import quick_mm2
from tests.support.command import mirror_ray


@pytest.mark.timeout(400)
def test_a_small_benchmark(tmp_path: Path) -> None:
    """Both contenders copy all; the report has tables and pictures."""
    found = bench("small-batches", "--against", "mm2", "--to", str(tmp_path))
    assert_copied(found["small-batches", "", "mirror-ray"])
    assert_copied(found["small-batches", "", "mm2 tuned"])
    assert found["small-batches", "", "mirror-ray"]["figures"]["cpu_s"]["median"] > 0
    report = (tmp_path / "report.md").read_text()
    assert "| mm2 tuned |" in report
    assert (tmp_path / "small-batches.svg").read_text().startswith("<svg ")
    assert json.loads((tmp_path / "results.json").read_text())["rows"]


@pytest.mark.timeout(400)
def test_killed_half_way() -> None:
    """Nothing is lost and nothing doubled, whether all of mirror-ray is killed or one replicator."""
    found = bench("restart")
    assert_copied(found["restart", "all of it, started again", "mirror-ray"])
    assert_copied(found["restart", "one replicator", "mirror-ray"])


def bench(workload: str, *arguments: str) -> dict[tuple[str, str, str], Any]:
    """The rows of a quick run of a twentieth of the records, by workload, case and contender."""
    done = mirror_ray(
        "bench",
        *("--quick", "--size", "0.05", "--workload", workload, *arguments, "-o", "json"),
        timeout_s=380,
        env=quick_mm2(),
    )
    rows = json.loads(done.stdout)["rows"]
    for row in rows:
        assert not [note for note in row["notes"] if "not measured" in note]
    return {(row["workload"], row["case"], row["contender"]): row for row in rows}


def assert_copied(row: Any) -> None:
    """Assert that a copy was compared and is equal."""
    judgement = row["judgement"]
    assert judgement is not None, row["notes"]
    assert (judgement["lost"], judgement["doubled"], judgement["foreign"]) == (0, 0, 0)
    assert judgement["copied"] > 0


def test_an_unknown_workload_is_named() -> None:
    """With those that there are."""
    assert "no workload is named fast: throughput" in mirror_ray("bench", "--workload", "fast", exit_code=2).stderr
