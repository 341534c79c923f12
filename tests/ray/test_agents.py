"""Ray's agents: they are not there before somebody asks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import ray

from actors import lazy_agent
from mirror_ray.lab.devcluster.ports import free_port

PATIENCE_S = 60.0


def variable(name: str) -> str | None:
    """What the environment of the task's process says."""
    return os.environ.get(name)


def begin(port: int, *command: str) -> subprocess.Popen[str]:
    """Begin to stand by."""
    return subprocess.Popen(
        [sys.executable, "-S", "-E", lazy_agent.__file__, str(port), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def connect(port: int, process: subprocess.Popen[str]) -> socket.socket:
    """Ask once, as soon as it listens."""
    while True:
        assert process.poll() is None
        with suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


#: As Ray's does: it binds a socket to the port and listens; before that it takes its time.
AGENT = """
import os, socket, sys, time
assert sys.argv[1] == "--port", sys.argv
time.sleep(0.3)
with socket.socket() as taken:
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind(("127.0.0.1", int(sys.argv[2])))
    taken.listen()
    asked, _ = taken.accept()
    asked.sendall(b"the agent %d" % os.getpid())
    asked.close()
"""


def test_the_agent_for_runtime_environments_comes_up_when_one_is_asked_for(ray_session: None) -> None:
    """RayDP's actors have one."""
    task = ray.remote(num_cpus=0)(variable).options(runtime_env={"env_vars": {"MIRROR_RAY_TEST": "here"}})
    assert ray.get(task.remote("MIRROR_RAY_TEST"), timeout=PATIENCE_S) == "here"


def test_it_becomes_the_command_at_the_first_connection(tmp_path: Path) -> None:
    """With the same process, which the raylet watches. Nobody else can take the port in between, and get the token."""
    (tmp_path / "agent.py").write_text(AGENT)
    port = free_port()
    process = begin(port, sys.executable, "-u", str(tmp_path / "agent.py"), "--port", str(port))
    with connect(port, process) as asking, socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        asking.settimeout(0.001)
        answer = b""
        while not answer:
            with pytest.raises(OSError, match="in use"):
                stranger.bind(("127.0.0.1", port))
            with suppress(TimeoutError):
                answer = asking.recv(100)
    assert answer == b"the agent %d" % process.pid
    assert process.wait(PATIENCE_S) == 0
    for end in (process.stdin, process.stdout):
        assert end is not None
        end.close()


def test_it_ends_with_the_raylet_and_not_before() -> None:
    """Else the raylet would end, or it would outlive the raylet."""
    process = begin(free_port(), "never")
    assert process.stdin is not None
    process.stdin.write("whatever")
    process.stdin.flush()
    assert psutil.Process(process.pid).is_running()
    process.stdin.close()
    assert process.wait(PATIENCE_S) == 0
    assert process.stdout is not None
    process.stdout.close()
