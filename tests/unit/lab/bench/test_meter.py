"""What processes use."""

from __future__ import annotations

import time

import psutil
import pytest

from mirror_ray.lab.bench.meter import process_cpu_s


def test_a_few_milliseconds_count() -> None:
    """A copy of 25,000 records takes no more, and is not free."""
    process = psutil.Process()
    for _ in range(20):
        before_s, known_s = process_cpu_s(process), time.process_time()
        while time.process_time() - known_s < 0.002:
            pass
        assert process_cpu_s(process) - before_s >= 0.002


def test_a_process_that_has_ended_is_named() -> None:
    """As psutil does it."""
    ended = psutil.Popen(["true"])
    ended.wait()
    with pytest.raises(psutil.NoSuchProcess):
        process_cpu_s(ended)
