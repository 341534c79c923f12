"""The demo, as a newcomer runs it, while somebody else runs `up` from another terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.support.clusters import Clusters
from tests.support.command import PROGRAM, environment, mirror_ray, mm2_file
from tests.support.waiting import wait_until

_FLOWS = ("A->B", "B->A")
#: Each registry has given the id 1 to a schema of its own, and 2 to the other's.
_MIRRORED = {("orders-value", 1, "A.orders-value", 2), ("clicks-value", 1, "B.clicks-value", 2)}


@pytest.mark.timeout(600)
def test_the_demo_copies_both_ways_and_is_not_taken(clusters: Clusters, tmp_path: Path) -> None:
    """Everything comes up and moves, schemas too; other clusters under the same aliases are refused; all arrives."""
    name = f"demo-{os.getpid()}"
    other = mm2_file(tmp_path / "other.properties", clusters, "A->B.enabled = true")
    command = [PROGRAM, "demo", "--registry", "--for", "300", "--name", name]
    errors = (tmp_path / "stderr").open("w+")
    with errors, subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=errors, text=True) as demo:
        assert demo.stdout is not None
        shown, address = _until_copying(iter(demo.stdout.readline, ""))
        assert address, shown + (tmp_path / "stderr").read_text()
        wait_until(lambda: _schemas(address) == _MIRRORED, 90, "schemas are not on both sides")
        wait_until(lambda: _translated(address) > 0, 90, "no schema id was translated")
        for options in ((), ("--yes",), ("--dry-run",)):
            refused = mirror_ray("up", other, *options, "--name", name, exit_code=2).stderr
            for cluster in clusters:
                assert f"cluster {cluster.name} now has the cluster id {cluster.cluster_id}" in refused
            assert "--name OTHER" in refused
            assert "mirror-ray down" in refused
        demo.send_signal(signal.SIGINT)
        shown += demo.communicate(timeout=200)[0]
        errors.seek(0)
        said = errors.read()
    assert demo.returncode == 0, said
    assert "mirror-ray status" in shown
    produced = re.search(r"([\d,]+) records produced, all of them copied: every partition's lag is 0", said)
    assert produced is not None, shown + said
    assert int(produced[1].replace(",", "")) > 0
    assert "drained and stopped" in said


def _until_copying(lines: Iterator[str]) -> tuple[str, str]:
    """What is printed until every partition of both flows is copying, and the address of the web UI; "": it ended."""
    shown, waiting, address = "", set(_FLOWS), None
    for line in lines:
        shown += line
        waiting -= {flow for flow in _FLOWS if re.match(rf"{flow}  running  copying ([1-9]\d*)/\1 ", line)}
        address = re.match(r"web UI and metrics: (\S+)", line) or address
        if not waiting and address:
            return shown, address[1]
    return shown, ""


def _schemas(address: str) -> set[tuple[str, int, str, int | None]]:
    """What is shown of schemas: subjects and ids on both sides."""
    with urlopen(f"{address}/api/v1/schemas", timeout=60) as answer:
        rows = json.load(answer)
    return {(row["subject"], row["source_id"], row["target_subject"], row["target_id"]) for row in rows}


def _translated(address: str) -> int:
    """How many schema ids in copied records have become those of the target's registry."""
    with urlopen(f"{address}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return sum(
        int(float(count)) for count in re.findall(r"(?m)^mirror_ray_schema_ids_translated_total\S* (\S+)$", text)
    )
