"""What it costs to look at a system of thousands of partitions: status, scrape, page, and the coordinator meanwhile.

::

    .venv/bin/python -m mirror_ray.lab.benchmarks.page [--topics N] [--partitions N] [--seconds N]

Real brokers, a real Ray; one page is open and a scrape comes every five seconds while the coordinator is measured.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from mirror_ray.cli import launch
from mirror_ray.config.load import load_settings
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import mm2_properties, start_all
from mirror_ray.mirror import Mirror

_SCRAPE_S = 5.0
_LOOKS = 5


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30.0)
    chosen = parser.parse_args()
    clusters = [DevCluster("A", heap="1g"), DevCluster("B", heap="1g")]
    try:
        start_all(clusters)
        _create(clusters[0], chosen.topics, chosen.partitions)
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "mm2.properties"
            text = mm2_properties(clusters).replace("B->A.enabled = true", "B->A.enabled = false")
            config.write_text(text + f"gateway.metrics.partitions = {chosen.topics * chosen.partitions}\n")
            settings = load_settings(config).settings
            with launch.start(settings, "bench-page", None, replicators=None, detach=False) as started:
                _measure(started.system, chosen.topics * chosen.partitions, chosen.seconds)
                started.system.down()
    finally:
        for cluster in clusters:
            cluster.close()


def _create(cluster: DevCluster, topics: int, partitions: int) -> None:
    admin = AdminClient(dict(cluster.confluent_config()))
    wanted = [NewTopic(f"topic-{number}", partitions, 1) for number in range(topics)]
    for future in admin.create_topics(wanted, operation_timeout=120, request_timeout=180).values():
        future.result(180)


def _measure(system: Mirror, partitions: int, seconds: float) -> None:
    began_s = time.monotonic()
    while system.status().gateway is None or sum(flow.copying for flow in system.flows) < partitions:
        time.sleep(1)
    print(f"{partitions} partitions copying after {time.monotonic() - began_s:.0f} s")
    time.sleep(5)
    url = system.status().gateway or ""
    coordinator = psutil.Process(system.status().coordinator_pid)
    _show("status", system.status)
    for path in ("/metrics", "/", "/api/v1/status", "/api/v1/topics", "/api/v1/partitions"):
        _show(path, partial(_read, url + path))
    print(f"coordinator, nobody looks:                  {_share(coordinator, seconds):.1%} of a core")
    over = threading.Event()
    threading.Thread(target=_stream, args=(url, over), daemon=True).start()
    threading.Thread(target=_scrape, args=(url, over), daemon=True).start()
    print(f"coordinator, a page open and a scrape / 5 s: {_share(coordinator, seconds):.1%} of a core")
    over.set()


def _show(what: str, act: Callable[[], object]) -> None:
    times_s = []
    for _ in range(_LOOKS):
        time.sleep(1.1)
        began_s = time.monotonic()
        act()
        times_s.append(time.monotonic() - began_s)
    print(f"{what:24} median {statistics.median(times_s) * 1000:5.0f} ms, most {max(times_s) * 1000:5.0f} ms")


def _share(process: psutil.Process, seconds: float) -> float:
    before = process.cpu_times()
    time.sleep(seconds)
    after = process.cpu_times()
    return (after.user + after.system - before.user - before.system) / seconds


def _read(url: str) -> bytes:
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return bytes(answer.read())


def _stream(url: str, over: threading.Event) -> None:
    with urllib.request.urlopen(f"{url}/api/v1/stream", timeout=30) as answer:
        while not over.is_set():
            answer.readline()


def _scrape(url: str, over: threading.Event) -> None:
    while not over.wait(_SCRAPE_S):
        _read(f"{url}/metrics")


if __name__ == "__main__":
    main()
