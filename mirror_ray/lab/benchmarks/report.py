"""What a running report costs the flow that it reports on.

::

    make bench-report
    .venv/bin/python -m mirror_ray.lab.benchmarks.report [--seconds 30] [--warm-up 60] [--rate 2000] [--partitions 6]

Two brokers, a flow and its Ray on this machine, under a steady load. `mirror-ray report` is run on it as a user does,
twice: the first reads all there is, the second what is new. A consumer of the remote topic sees each record's latency,
from when it was produced; lag is asked of the system twice a second. Windows before, during and after.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from mirror_ray.attach import Mirror
from mirror_ray.cli import launch
from mirror_ray.config.settings import StatisticsSettings
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import start_all
from tests.support.kafka import ConfluentConfig, create_topic
from tests.support.systems import settings_of, wait_caught_up

TOPIC = "load"
NAME = "bench-report"
VALUE = b"x" * 500
_TICK_S = 0.01
_ASK_EVERY_S = 0.5


class Samples(threading.Thread):
    """Calls ``look`` until ``stop``; what it answers is kept with the time."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.found: list[tuple[float, float]] = []
        self._stopping = threading.Event()
        self.start()

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def run(self) -> None:
        while not self._stopping.is_set():
            self.look()

    def look(self) -> None:
        raise NotImplementedError

    def between(self, begin_s: float, end_s: float) -> list[float]:
        return sorted(value for at, value in list(self.found) if begin_s <= at < end_s)


class SteadyLoad(Samples):
    """Records at a steady rate, each with the time at which it is produced."""

    def __init__(self, config: ConfluentConfig, rate: int, partitions: int) -> None:
        self._producer = Producer({**config, "linger.ms": 0, "compression.type": "lz4"})
        self._per_tick, self._partitions = max(1, round(rate * _TICK_S)), partitions
        self._numbers = itertools.count()
        self._next_s = time.monotonic()
        super().__init__()

    def look(self) -> None:
        for _ in range(self._per_tick):
            value = b"%.6f %s" % (time.monotonic(), VALUE)
            self._producer.produce(TOPIC, value, partition=next(self._numbers) % self._partitions)
        self._producer.poll(0)
        self._next_s += _TICK_S
        time.sleep(max(0.0, self._next_s - time.monotonic()))

    def stop(self) -> None:
        super().stop()
        self._producer.flush()


class ConsumerLatencies(Samples):
    """In ms, as a consumer of the remote topic sees them."""

    def __init__(self, config: ConfluentConfig, partitions: int) -> None:
        self._consumer = Consumer({**config, "group.id": "bench", "enable.auto.commit": False, "fetch.wait.max.ms": 20})
        self._consumer.assign([TopicPartition(f"A.{TOPIC}", number, 0) for number in range(partitions)])
        super().__init__()

    def look(self) -> None:
        for message in self._consumer.consume(1000, timeout=0.02):
            if message.error() is None:
                now_s = time.monotonic()
                self.found.append((now_s, 1000 * (now_s - float((message.value() or b"0").split(b" ")[0]))))


class Lags(Samples):
    """Records that the whole flow is behind."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        super().__init__()

    def look(self) -> None:
        lag = sum(each.lag_records or 0 for each in self._mirror.partitions())
        self.found.append((time.monotonic(), lag))
        time.sleep(_ASK_EVERY_S)


def percentile(values: Sequence[float], percent: int) -> float:
    return values[min(len(values) - 1, len(values) * percent // 100)] if values else float("nan")


def show(title: str, latencies: ConsumerLatencies, lags: Lags, begin_s: float, end_s: float) -> None:
    """A line of the table."""
    latency, lag = latencies.between(begin_s, end_s), lags.between(begin_s, end_s)
    figures = [f"{percentile(latency, each):9.1f}" for each in (50, 99, 100)]
    figures += [f"{percentile(lag, each):9,.0f}" for each in (50, 99, 100)]
    rate = len(latency) / (end_s - begin_s)
    print(f"{title:<16}{end_s - begin_s:6.0f} s{rate:9,.0f}{''.join(figures)}", flush=True)


def report(directory: str) -> None:
    """As a user runs it."""
    command = ["mirror-ray", "report", "A->B", "--to", directory, "--name", NAME]
    done = subprocess.run(
        [str(Path(sys.executable).with_name(command[0])), *command[1:]], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")


def measure(mirror: Mirror, clusters: Sequence[DevCluster], options: argparse.Namespace, directory: str) -> None:
    """The table."""
    source, target = (cluster.confluent_config() for cluster in clusters)
    load, latencies, lags = (
        SteadyLoad(source, options.rate, options.partitions),
        ConsumerLatencies(target, options.partitions),
        Lags(mirror),
    )
    try:
        time.sleep(options.warm_up)
        print(f"{'':<16}{'':>8}{'records/s':>9}{'p50 ms':>9}{'p99':>9}{'max':>9}{'lag p50':>9}{'p99':>9}{'max':>9}")
        for title in ("before", "first report", "after", "second report", "after"):
            begin_s = time.monotonic()
            if title.endswith("report"):
                report(directory)
            else:
                time.sleep(options.seconds)
            show(title, latencies, lags, begin_s, time.monotonic())
    finally:
        for each in (load, latencies, lags):
            each.stop()


def main() -> None:
    """Start all of it, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30, help="of the windows without a report")
    parser.add_argument("--warm-up", type=float, default=60, help="seconds of the load before the first window")
    parser.add_argument("--rate", type=int, default=2000, help="records of 500 bytes a second")
    parser.add_argument("--partitions", type=int, default=6)
    options = parser.parse_args()
    clusters = [DevCluster("A"), DevCluster("B")]
    try:
        start_all(clusters)
        create_topic(clusters[0].confluent_config(), TOPIC, options.partitions)
        settings = settings_of(
            dict(zip("AB", clusters, strict=True)),
            "A->B",
            topics=TOPIC,
            statistics=StatisticsSettings(emit_interval_s=5),
        )
        with (
            tempfile.TemporaryDirectory() as directory,
            launch.start(settings, NAME, None, replicators=1, detach=False) as started,
        ):
            mirror = started.system
            wait_caught_up(mirror, {("A->B", TOPIC): options.partitions}, 60)
            measure(mirror, clusters, options, directory)
            mirror.down(10)
    finally:
        for cluster in clusters:
            cluster.close()


if __name__ == "__main__":
    main()
