"""The demo, as a newcomer runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

_LAG = re.compile(r" lag ([\d,]+) ")


@pytest.mark.timeout(400)
def test_the_demo_copies_both_ways_and_ends_clean() -> None:
    """For twenty seconds: clusters, Ray, traffic and flows come up, records move, everything ends."""
    environ = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    name = f"demo-{os.getpid()}"
    command = [sys.executable, "-m", "mirror_ray", "demo", "--for", "20", "--name", name]
    result = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=360, check=False)
    assert result.returncode == 0, result.stderr
    assert "mirror-ray status" in result.stdout
    for flow in ("A->B", "B->A"):
        lags = [_LAG.search(line) for line in result.stdout.splitlines() if line.startswith(flow)]
        # Traffic goes on: on a busy machine the last tenth of a second may be under way at every look.
        assert any(lag and int(lag[1].replace(",", "")) < 500 for lag in lags), result.stdout
    assert "drained and stopped" in result.stderr
