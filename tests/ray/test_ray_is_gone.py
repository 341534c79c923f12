"""A command that waits for Spark, and whose Ray ends meanwhile."""

from __future__ import annotations

import subprocess
import sys
import uuid
from contextlib import suppress

import psutil

from mirror_ray import own_ray
from mirror_ray.model.errors import MirrorError
from tests.support.command import environment

_WAITING = """
import sys, time
from mirror_ray import runtime
with runtime.some_ray(sys.argv[1], None), runtime.ending_with_ray():
    print("connected", flush=True)
    time.sleep(600)
"""


def test_a_command_whose_ray_is_gone_says_so() -> None:
    """Within seconds, and with an exit code that is no answer."""
    name = f"gone-{uuid.uuid4().hex[:6]}"
    command = [sys.executable, "-c", _WAITING, name]
    pipe = subprocess.PIPE
    family: list[psutil.Process] = []
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment()) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "connected\n"
            own = own_ray.find(name)
            assert own is not None
            family = psutil.Process(process.pid).children(recursive=True)
            for pid, _ in own.processes:
                psutil.Process(pid).kill()
            _, talk = process.communicate(timeout=60)
        finally:
            process.kill()
            # Ray's agents would look for the dead for half a minute more.
            for member in family:
                with suppress(psutil.NoSuchProcess):
                    member.kill()
    assert process.returncode == MirrorError.exit_code
    assert f"error: Ray at {own.address}, in which Spark ran, is gone" in talk
    assert own_ray.find(name) is None
