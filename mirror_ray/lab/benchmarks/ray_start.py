"""What it saves to start Ray as `mirror-ray up` does: seconds until an actor answers, processes and memory.

::

    .venv/bin/python -m mirror_ray.lab.benchmarks.ray_start [--rounds 3]

Each variant is started in a process of its own, in turns; the best round counts. Memory is what the processes hold for
themselves alone (USS), without the one that started them and without the actor's.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from mirror_ray.lab.benchmarks.harness import parse_arguments
from mirror_ray.runtime import some_ray

VARIANTS = ("ray.init", "ray.init without dashboard", "mirror-ray up")


def measure(variant: str) -> dict[str, Any]:
    """Start Ray in this process, wait for an actor, count."""
    began_s = time.monotonic()
    with some_ray("ray-start-figures", None) if variant == "mirror-ray up" else _plain_ray(variant == "ray.init"):
        return _figures(began_s)


@contextmanager
def _plain_ray(with_dashboard: bool) -> Iterator[None]:
    import ray

    ray.init(num_cpus=16, object_store_memory=100 << 20, include_dashboard=with_dashboard, log_to_driver=False)
    yield
    ray.shutdown()


def _figures(began_s: float) -> dict[str, Any]:
    import ray

    class Probe:
        def pid(self) -> int:
            return psutil.Process().pid

    actor: Any = ray.remote(Probe).options(num_cpus=0).remote()
    pid = ray.get(actor.pid.remote())
    seconds = time.monotonic() - began_s
    # What is started beside the actor has come up by then too.
    time.sleep(5)
    processes = [process for process in psutil.Process().children(recursive=True) if process.pid != pid]
    return {
        "seconds": round(seconds, 2),
        "processes": len(processes),
        "megabytes": round(sum(process.memory_full_info().uss for process in processes) / 1e6),
    }


def main() -> None:
    options = parse_arguments(
        __doc__, rounds=(3, "of which the best one counts"), variant=("", f"measure this one alone: {VARIANTS}")
    )
    if options.variant:
        print(json.dumps(measure(options.variant)))
        return
    found: dict[str, list[dict[str, Any]]] = {variant: [] for variant in VARIANTS}
    for _ in range(options.rounds):
        for variant in VARIANTS:
            command = [sys.executable, "-m", "mirror_ray.lab.benchmarks.ray_start", "--variant", variant]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found[variant].append(json.loads(done.stdout.splitlines()[-1]))
    for variant, rounds in found.items():
        best = min(rounds, key=lambda figures: float(figures["seconds"]))
        print(f"{variant:<28} {best['seconds']:>6} s  {best['processes']:>3} processes  {best['megabytes']:>5} MB")


if __name__ == "__main__":
    main()
