"""What it saves to start Ray as `mirror-ray up` does: seconds until an actor answers, processes and memory.

    .venv/bin/python mirror_ray.lab.benchmarks/ray_start.py [--rounds N]

Each way is a process of its own, in turns; the best round counts. Memory is what the processes hold for themselves
alone (USS), without the one that started them and without the actor's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

import psutil

WAYS = ("ray.init", "ray.init without dashboard", "mirror-ray up")


def measure(way: str) -> dict[str, Any]:
    """Start Ray in this process, wait for an actor, count."""
    began_s = time.monotonic()
    own = None
    if way == "mirror-ray up":
        from mirror_ray.attach import connect
        from mirror_ray.cli.small_ray import start_ray

        own = start_ray("ray-start-figures", detached=False)
        connect(own.name, None)
    import ray

    if own is None:
        with_dashboard = way == "ray.init"
        ray.init(num_cpus=16, object_store_memory=100 << 20, include_dashboard=with_dashboard, log_to_driver=False)

    class Probe:
        def pid(self) -> int:
            return psutil.Process().pid

    actor: Any = ray.remote(Probe).options(num_cpus=0).remote()
    pid = ray.get(actor.pid.remote())
    seconds = time.monotonic() - began_s
    # What is started beside the actor shall have come up too.
    time.sleep(5)
    processes = [each for each in psutil.Process().children(recursive=True) if each.pid != pid]
    figures = {
        "seconds": round(seconds, 2),
        "processes": len(processes),
        "megabytes": round(sum(each.memory_full_info().uss for each in processes) / 1e6),
    }
    ray.shutdown()
    if own is not None:
        from mirror_ray import own_ray

        own_ray.stop(own)
    return figures


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(json.dumps(measure(options.way)))
        return
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for _ in range(options.rounds):
        for way in WAYS:
            done = subprocess.run([sys.executable, __file__, "--way", way], check=True, capture_output=True, text=True)
            found[way].append(json.loads(done.stdout.splitlines()[-1]))
    for way, rounds in found.items():
        best = min(rounds, key=lambda each: float(each["seconds"]))
        print(f"{way:<28} {best['seconds']:>6} s  {best['processes']:>3} processes  {best['megabytes']:>5} MB")


if __name__ == "__main__":
    main()
