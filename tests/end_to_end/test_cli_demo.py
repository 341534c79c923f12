"""The demo, as a newcomer runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest


@pytest.mark.timeout(400)
def test_the_demo_copies_both_ways_and_ends_clean() -> None:
    """For twelve seconds: everything comes up and records move; all of them arrive, and everything ends."""
    environ = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    name = f"demo-{os.getpid()}"
    command = [sys.executable, "-m", "mirror_ray", "demo", "--for", "12", "--name", name]
    result = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=360, check=False)
    assert result.returncode == 0, result.stderr
    assert "mirror-ray status" in result.stdout
    for flow in ("A->B", "B->A"):
        everything = rf"^{flow}  running  copying ([1-9]\d*)/\1 "
        assert re.search(everything, result.stdout, re.MULTILINE), result.stdout
    produced = re.search(r"([\d,]+) records produced, all of them copied: every partition's lag is 0", result.stderr)
    assert produced is not None, result.stdout + result.stderr
    assert int(produced[1].replace(",", "")) > 0
    assert "drained and stopped" in result.stderr
