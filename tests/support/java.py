"""Runs a small Java program of a test against Kafka's own jars."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from mirror_ray.jars.maven import ensure_jars, java_command


def run_java(program: Path, *arguments: str | Path) -> str:
    """Run a Java source file with Kafka's classes beside it, and return what it printed.

    Raises:
        AssertionError: It failed; the text is what it said.
    """
    jars = Path(os.environ.get("MIRROR_RAY_TEST_JARS") or ensure_jars())
    # Started once and soon over: what the compilers would gain, they would cost.
    command = [java_command(), "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
