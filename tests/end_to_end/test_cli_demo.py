"""The demo, as a newcomer runs it, while somebody else runs `up` from another terminal."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters import Clusters
from tests.support.command import PROGRAM, environment, mirror_ray, mm2_file

_FLOWS = ("A->B", "B->A")


@pytest.mark.timeout(400)
def test_the_demo_copies_both_ways_and_is_not_taken(clusters: Clusters, tmp_path: Path) -> None:
    """Everything comes up and records move; other clusters under the same aliases are refused; all records arrive."""
    name = f"demo-{os.getpid()}"
    other = mm2_file(tmp_path / "other.properties", clusters, "A->B.enabled = true")
    command = [PROGRAM, "demo", "--for", "45", "--name", name]
    errors = (tmp_path / "stderr").open("w+")
    with errors, subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=errors, text=True) as demo:
        assert demo.stdout is not None
        shown = _until_copying(iter(demo.stdout.readline, ""))
        for options in ((), ("--yes",), ("--dry-run",)):
            refused = mirror_ray("up", other, *options, "--name", name, exit_code=2).stderr
            for cluster in clusters:
                assert f"cluster {cluster.name} now has the cluster id {cluster.cluster_id}" in refused
            assert "--name OTHER" in refused
            assert "mirror-ray down" in refused
        shown += demo.communicate(timeout=200)[0]
        errors.seek(0)
        said = errors.read()
    assert demo.returncode == 0, said
    assert "mirror-ray status" in shown
    produced = re.search(r"([\d,]+) records produced, all of them copied: every partition's lag is 0", said)
    assert produced is not None, shown + said
    assert int(produced[1].replace(",", "")) > 0
    assert "drained and stopped" in said


def _until_copying(lines: Iterator[str]) -> str:
    """What is printed until every partition of both flows is copying."""
    shown, waiting = "", set(_FLOWS)
    for line in lines:
        shown += line
        waiting -= {flow for flow in _FLOWS if re.match(rf"{flow}  running  copying ([1-9]\d*)/\1 ", line)}
        if not waiting:
            break
    assert not waiting, shown
    return shown
