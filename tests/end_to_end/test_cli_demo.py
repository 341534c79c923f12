"""The demo, as a newcomer runs it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.timeout(400)
def test_the_demo_copies_both_ways_and_ends_clean() -> None:
    """For twenty seconds: clusters, Ray, traffic and flows come up, records move, everything ends."""
    environ = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    name = f"demo-{os.getpid()}"
    # At full rate some record is under way at every look, on a busy machine.
    command = [sys.executable, "-m", "mirror_ray", "demo", "--for", "20", "--rate", "100", "--name", name]
    result = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=360, check=False)
    assert result.returncode == 0, result.stderr
    assert "mirror-ray status" in result.stdout
    for flow in ("A->B", "B->A"):
        assert any(line.startswith(flow) and " lag 0 " in line for line in result.stdout.splitlines()), result.stdout
    assert "drained and stopped" in result.stderr
