"""`ray job submit` on a Ray that `ray start --head` made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mirror_ray.lab.devcluster.clusters import mm2_properties
from mirror_ray.lab.devcluster.ports import free_port
from tests.support.clusters import Clusters

pytestmark = pytest.mark.timeout(900)

_BIN = Path(sys.executable).parent


class Head:
    """A Ray with a dashboard, and the processes that make it up."""

    def __init__(self, directory: Path) -> None:
        """Start it; sessions go to ``directory``."""
        self.dashboard_port, self.gcs_port = free_port(), free_port()
        self._temp_dir = str(directory)
        self.environ = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
        self.environ |= {"RAY_AUTH_MODE": "token", "PATH": f"{_BIN}{os.pathsep}{os.environ['PATH']}"}
        command = [
            *("ray", "start", "--head", "--node-ip-address", "127.0.0.1", "--port", str(self.gcs_port)),
            *("--dashboard-port", str(self.dashboard_port), "--dashboard-agent-listen-port", str(free_port())),
            *("--ray-client-server-port", str(free_port()), "--num-cpus", "8", "--object-store-memory", "100000000"),
            *("--temp-dir", self._temp_dir, "--disable-usage-stats"),
        ]
        subprocess.run([str(_BIN / command[0]), *command[1:]], env=self.environ, check=True, timeout=180)

    def submit(self, directory: Path, *entrypoint: str) -> subprocess.CompletedProcess[str]:
        """Submit a job with that working directory, and wait for its end."""
        address = f"http://127.0.0.1:{self.dashboard_port}"
        command = ["job", "submit", "--address", address, "--working-dir", str(directory), "--", *entrypoint]
        return subprocess.run(
            [str(_BIN / "ray"), *command], env=self.environ, capture_output=True, text=True, timeout=400, check=False
        )

    def stop(self) -> None:
        """End exactly the processes of this Ray: those that name its directory, and their children."""
        ours = [each for each in psutil.process_iter() if self._is_ours(each)]
        everything = {child for each in ours for child in each.children(recursive=True)} | set(ours)
        for each in everything:
            if each.is_running():
                each.kill()
        psutil.wait_procs(list(everything), timeout=40)
        shutil.rmtree(self._temp_dir, ignore_errors=True)

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return any(self._temp_dir in word for word in process.cmdline())
        except psutil.Error:
            return False


@pytest.fixture
def head() -> Iterator[Head]:
    """A Ray of the test's own, in a directory whose name is short enough for Ray's sockets."""
    directory = Path(f"/tmp/mr-job-{os.getpid()}")  # noqa: S108 - short, and the test's own
    head = Head(directory)
    try:
        yield head
    finally:
        head.stop()


def test_a_job_starts_the_flows_and_another_stops_them(head: Head, clusters: Clusters, tmp_path: Path) -> None:
    """With --detach the job ends and the actors stay; without it the job follows them until they have caught up."""
    (tmp_path / "mm2.properties").write_text(
        mm2_properties(list(clusters)).replace("B->A.enabled = true", "B->A.enabled = false")
        + "topics = heartbeats\ngateway.enabled = false\n"
    )
    detached = head.submit(tmp_path, "mirror-ray", "up", "mm2.properties", "--detach")
    assert detached.returncode == 0, detached.stdout + detached.stderr
    stopped = head.submit(tmp_path, "sh", "-c", "mirror-ray status -o json && mirror-ray down")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert "A->B" in stopped.stdout
    followed = head.submit(tmp_path, "mirror-ray", "up", "mm2.properties", "--until-caught-up")
    assert followed.returncode == 0, followed.stdout + followed.stderr
    assert "caught up" in followed.stdout
