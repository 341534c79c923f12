"""What it costs to watch a system of thousands of partitions: status, scrape, web UI, and the coordinator meanwhile.

::

    make bench-page
    .venv/bin/python -m mirror_ray.lab.benchmarks.web_ui [--topics 100] [--partitions 50] [--seconds 30]

Real brokers, a real Ray; the web UI is open and a scrape comes every five seconds while the coordinator is measured.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
from confluent_kafka.cimpl import NewTopic

from mirror_ray.config.load import load_settings
from mirror_ray.lab.background import wait_until
from mirror_ray.lab.bench.meter import process_cpu_s
from mirror_ray.lab.benchmarks.harness import cluster_pair, elapsed, parse_arguments, running_system, wait_until_copying
from mirror_ray.lab.devcluster.clusters import write_mm2_properties
from mirror_ray.lab.kafka_client import create_topics
from mirror_ray.mirror import Mirror

SCRAPE_S = 5.0
TIMES = 5


def measure(system: Mirror, partitions: int, seconds: float) -> None:
    with elapsed() as start:
        wait_until(lambda: system.status().gateway is not None, 1200, "the gateway is up", every_s=1.0)
        wait_until_copying(system, partitions)
    print(f"{partitions} partitions copying after {start.seconds:.0f} s")
    time.sleep(5)
    url = system.status().gateway or ""
    coordinator = psutil.Process(system.status().coordinator_pid)
    show_times("status", system.status)
    for path in ("/metrics", "/", "/api/v1/status", "/api/v1/topics", "/api/v1/partitions"):
        show_times(path, partial(read, url + path))
    print(f"coordinator, nobody watches:                   {core_share(coordinator, seconds):.1%} of a core")
    over = threading.Event()
    threading.Thread(target=stream, args=(url, over), daemon=True).start()
    threading.Thread(target=scrape, args=(url, over), daemon=True).start()
    print(f"coordinator, web UI open and a scrape / 5 s:   {core_share(coordinator, seconds):.1%} of a core")
    over.set()


def show_times(name: str, action: Callable[[], object]) -> None:
    """Print how long an answer takes."""
    times_ms = []
    for _ in range(TIMES):
        time.sleep(1.1)
        with elapsed() as once:
            action()
        times_ms.append(1000 * once.seconds)
    print(f"{name:24} median {statistics.median(times_ms):5.0f} ms, most {max(times_ms):5.0f} ms")


def core_share(process: psutil.Process, seconds: float) -> float:
    before_s = process_cpu_s(process)
    time.sleep(seconds)
    return (process_cpu_s(process) - before_s) / seconds


def read(url: str) -> bytes:
    """Get it as a browser does."""
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return bytes(answer.read())


def stream(url: str, over: threading.Event) -> None:
    """Follow the status as an open web UI does."""
    with urllib.request.urlopen(f"{url}/api/v1/stream", timeout=30) as answer:
        while not over.is_set():
            answer.readline()


def scrape(url: str, over: threading.Event) -> None:
    """Get the metrics as Prometheus does."""
    while not over.wait(SCRAPE_S):
        read(f"{url}/metrics")


def main() -> None:
    options = parse_arguments(
        __doc__,
        topics=(100, "copied topics"),
        partitions=(50, "of each topic"),
        seconds=(30.0, "for which the coordinator is measured"),
    )
    partitions = options.topics * options.partitions
    with cluster_pair() as pair, tempfile.TemporaryDirectory() as directory:
        create_topics(pair[0], [NewTopic(f"topic-{number}", options.partitions, 1) for number in range(options.topics)])
        more = f"B->A.enabled = false\ngateway.metrics.partitions = {partitions}\n"
        config = write_mm2_properties(Path(directory), pair, more)
        with running_system(load_settings(config).settings, "bench-page") as system:
            measure(system, partitions, options.seconds)


if __name__ == "__main__":
    main()
