"""The commands, each a process of its own, on real clusters and a Ray of the system's own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mirror_ray import own_ray
from mirror_ray.lab.devcluster.clusters import mm2_properties
from mirror_ray.whoami import whoami
from tests.support import command_process
from tests.support.clusters import Clusters
from tests.support.command import PROGRAM

pytestmark = pytest.mark.timeout(600)


class Shell:
    """Runs `mirror-ray` for one system."""

    def __init__(self, name: str) -> None:
        """``name``: of the system."""
        self.name = name
        self.environ = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}

    def command(self, *args: str) -> list[str]:
        """The command line of a command that takes --name."""
        return [sys.executable, "-m", "mirror_ray", *args, "--name", self.name]

    def run(self, *args: str, timeout_s: float = 240.0) -> subprocess.CompletedProcess[str]:
        """Run it to its end: ``up`` as a shell does, what it starts must not hold its pipes; others as a fork."""
        if args[0] != "up":
            done = command_process.run([PROGRAM, *args, "--name", self.name], self.environ, timeout_s)
            assert done.exit_code is not None, f"{args} did not end: {done.err}"
            return subprocess.CompletedProcess(args, done.exit_code, done.out, done.err)
        return subprocess.run(
            self.command(*args),
            stdin=subprocess.DEVNULL,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def python(self, code: str, exit_code: int = 0) -> str:
        """What a Python process prints, stderr included; in it ``NAME`` is the system's name."""
        command = [sys.executable, "-c", f"NAME = {self.name!r}; {code}"]
        done = subprocess.run(
            command,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == exit_code, done.stdout
        return done.stdout

    def json(self, *args: str) -> Any:
        """What it prints with ``-o json``."""
        return json.loads(self.run(*args, "-o", "json").stdout)


@pytest.fixture
def shell(unique: str) -> Iterator[Shell]:
    """A shell for a system of the test's own, which is down afterwards."""
    shell = Shell(unique)
    yield shell
    shell.run("down", "--deadline", "0")


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """A system's name."""
    return re.sub(r"\W", "-", f"{request.node.name}-{os.getpid()}")[-40:]


@pytest.fixture
def config(clusters: Clusters, tmp_path: Path) -> Path:
    """Flow A->B, of heartbeats only."""
    path = tmp_path / "mm2.properties"
    text = mm2_properties(list(clusters)).replace("B->A.enabled = true", "B->A.enabled = false")
    # The page costs a process, and is tried where it is the matter.
    path.write_text(f"{text}topics = heartbeats\ngateway.enabled = false\n")
    return path


def test_a_detached_system_is_found_steered_and_stopped(shell: Shell, config: Path) -> None:
    """From other shells and from Python, by name alone; afterwards nothing of it runs."""
    up = shell.run("up", str(config), "--detach")
    assert up.returncode == 0, up.stderr
    flows = {flow["flow"] for flow in shell.json("status")["flows"]}
    assert "A->B" in flows
    config.write_text(config.read_text() + "refresh.topics.interval.seconds = 61\n")
    unasked = shell.run("up", str(config), "--detach")
    assert unasked.returncode == 2, unasked.stderr
    assert "would be: A->B configured" in unasked.stderr
    assert "--yes" in unasked.stderr
    changed = shell.run("up", str(config), "--detach", "--yes")
    assert changed.returncode == 0, changed.stderr
    assert "A->B configured" in changed.stderr
    assert shell.run("scale", "2").returncode == 0
    deadline_s = time.monotonic() + 60
    while len(shell.json("replicators")) < 2:
        assert time.monotonic() < deadline_s
    _python_finds_and_stops_it(shell)
    status = shell.run("status")
    assert status.returncode == 1
    assert "mirror-ray up" in status.stderr


def _python_finds_and_stops_it(shell: Shell) -> None:
    """Also where Ray was imported before; what is asked for prints one line for each thing, and changes nothing."""
    shown = shell.python("import mirror_ray; m = mirror_ray.attach(NAME); print(m); print(m.replicators)")
    assert f"mirror-ray system '{shell.name}'" in shown
    assert "A->B" in shown
    assert shown.splitlines()[-1].startswith(f"{shell.name}:replicator:2  ")
    refused = "import ray, mirror_ray; m = mirror_ray.attach(NAME); print(m.flows); m.flows[0].state = 'idle'"
    shown = shell.python(refused, exit_code=1)
    assert "A->B  " in shown
    assert "FrozenInstanceError" in shown
    assert "True" in shell.python("import mirror_ray; print(mirror_ray.attach(NAME).down(20))")


def test_sigterm_in_the_foreground_drains_and_ends_ray(shell: Shell, config: Path) -> None:
    """As Ctrl-C does."""
    command = shell.command("up", str(config))
    with subprocess.Popen(command, env=shell.environ, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        assert any("copying" in line for line in lines)
        joined = shell.run("up", str(config), "--for", "0")
        assert joined.returncode == 0, joined.stderr
        assert f"was started by mirror-ray up (process {process.pid}), and ends when that ends" in joined.stderr
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=120)[1]
    assert process.returncode == 0
    assert "drained and stopped" in rest
    assert shell.run("status").returncode == 1


def test_a_system_in_the_foreground_of_a_ray_that_is_given(shell: Shell, config: Path) -> None:
    """It ends with the process that has started it there, too, and whoever joins is told; in the background as well."""
    host, other = Shell(f"{shell.name}-r"[-40:]), config.with_name("other.properties")
    flows = config.read_text().replace("A->B.enabled = true", "A->B.enabled = false")
    other.write_text(flows.replace("B->A.enabled = false", "B->A.enabled = true"))
    assert host.run("up", str(other), "--detach").returncode == 0
    try:
        ray = own_ray.find(host.name)
        assert ray is not None
        given = ("up", str(config), "--address", ray.address)
        with subprocess.Popen(shell.command(*given), env=shell.environ, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            assert any("copying" in line for line in lines)
            joined = shell.run(*given, "--detach")
            assert joined.returncode == 0, joined.stderr
            starter = f"mirror-ray up (process {process.pid} of {whoami()})"
            assert f"was started by {starter}, and ends when that ends" in joined.stderr
            assert f"runs until {starter} ends" in joined.stderr
            unasked = shell.run(*given, "--detach", "--replicators", "2")
            assert (unasked.returncode, "replicators: 1 -> 2" in unasked.stderr) == (2, True), unasked.stderr
            process.send_signal(signal.SIGTERM)
            rest = process.communicate(timeout=120)[1]
        assert "drained and stopped" in rest
        assert shell.run("status", "--address", ray.address).returncode == 1
        assert host.run("status").returncode == 0
    finally:
        host.run("down", "--deadline", "0")


def test_an_unreachable_cluster_ends_with_3(shell: Shell, tmp_path: Path) -> None:
    """At the start it is named, and no Ray is started."""
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = A, B\nA.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:1\nA->B.enabled = true\n"
    )
    result = shell.run("up", str(path))
    assert result.returncode == 3
    assert "A" in result.stderr
    assert "Traceback" not in result.stderr
