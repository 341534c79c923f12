"""Ray's agents: they are not there before somebody asks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress

import psutil
import ray

from mirror_ray import standby
from mirror_ray.devcluster.ports import free_port

PATIENCE_S = 60.0


def variable(name: str) -> str | None:
    """What the environment of the task's process says."""
    return os.environ.get(name)


def begin(port: int, *command: str) -> subprocess.Popen[str]:
    """Begin to stand by."""
    return subprocess.Popen(
        [sys.executable, "-S", "-E", standby.__file__, str(port), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def connect(port: int, process: subprocess.Popen[str]) -> None:
    """Ask once, as soon as it listens; what becomes another program at once may reset the connection."""
    while process.poll() is None:
        try:
            with suppress(ConnectionResetError):
                socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()
        except ConnectionRefusedError:
            continue
        return


def test_the_agent_for_runtime_environments_comes_up_when_one_is_asked_for(ray_session: None) -> None:
    """RayDP's actors have one."""
    task = ray.remote(num_cpus=0)(variable).options(runtime_env={"env_vars": {"MIRROR_RAY_TEST": "here"}})
    assert ray.get(task.remote("MIRROR_RAY_TEST"), timeout=PATIENCE_S) == "here"


def test_it_becomes_the_command_at_the_first_connection() -> None:
    """With the same process, which the raylet watches."""
    port = free_port()
    process = begin(port, sys.executable, "-c", "print('the agent')")
    connect(port, process)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert (output, process.returncode) == ("the agent\n", 0)


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
