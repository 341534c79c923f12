"""What a running report costs the flow that it reports on.

::

    make bench-report
    .venv/bin/python -m mirror_ray.lab.benchmarks.report_cost [--seconds 30] [--warm-up 60] [--rate 2000]
        [--partitions 6]

Two brokers, a flow and its Ray on this machine, under a steady load. `mirror-ray report` is run on it as a user does,
twice: the first reads everything, the second what is new. A consumer of the remote topic measures each record's
latency, from when it was produced; the system is asked for lag twice a second. Windows before, during and after.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence

from confluent_kafka import Message, TopicPartition

from mirror_ray.config.settings import StatisticsSettings, TopicSettings
from mirror_ray.lab.background import BackgroundThread
from mirror_ray.lab.bench.trickle_runs import percentile
from mirror_ray.lab.benchmarks.harness import (
    cluster_pair,
    flow_settings,
    parse_arguments,
    run_command,
    running_system,
    wait_until_copying,
)
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.kafka_client import TopicTail, client_config, create_topic
from mirror_ray.lab.load_generator import LoadGenerator, ProducedRecord
from mirror_ray.mirror import Mirror

TOPIC = "load"
NAME = "bench-report"
VALUE = b"x" * 500
TICK_S = 0.01
LAG_EVERY_S = 0.5

#: Values, each with the time (``time.monotonic``) at which it was measured.
Samples = list[tuple[float, float]]


class LagSampler(BackgroundThread):
    """Samples the lag of the whole flow, in records."""

    def __init__(self, system: Mirror) -> None:
        super().__init__("lag")
        self.samples: Samples = []
        self._system = system

    def _run(self) -> None:
        while not self._stopping.wait(LAG_EVERY_S):
            lag = sum(partition.lag_records or 0 for partition in self._system.partitions())
            self.samples.append((time.monotonic(), lag))


def between(samples: Samples, begin_s: float, end_s: float) -> list[float]:
    """The values that were measured in a window, sorted."""
    return sorted(value for at_s, value in list(samples) if begin_s <= at_s < end_s)


def show(title: str, latencies_ms: Samples, lags: Samples, begin_s: float, end_s: float) -> None:
    latency, lag = between(latencies_ms, begin_s, end_s), between(lags, begin_s, end_s)
    figures = [f"{percentile(latency, percent):9.1f}" for percent in (50, 99, 100)]
    figures += [f"{percentile(lag, percent):9,.0f}" for percent in (50, 99, 100)]
    rate = len(latency) / (end_s - begin_s)
    print(f"{title:<16}{end_s - begin_s:6.0f} s{rate:9,.0f}{''.join(figures)}", flush=True)


def measure(system: Mirror, clusters: Sequence[DevCluster], options: argparse.Namespace, directory: str) -> None:
    latencies_ms: Samples = []

    def next_record(number: int) -> ProducedRecord:
        value = b"%.6f %s" % (time.monotonic(), VALUE)
        return ProducedRecord(TOPIC, value, partition=number % options.partitions)

    def note(message: Message, now_s: float) -> None:
        latencies_ms.append((now_s, 1000 * (now_s - float((message.value() or b"0").split(b" ")[0]))))

    producer = client_config(clusters[0], {"linger.ms": 0, "compression.type": "lz4"})
    partitions = [TopicPartition(f"A.{TOPIC}", number, 0) for number in range(options.partitions)]
    with (
        LagSampler(system) as lags,
        TopicTail(client_config(clusters[1]), partitions, note, poll_s=0.02),
        LoadGenerator("load", producer, options.rate, next_record, tick_s=TICK_S),
    ):
        time.sleep(options.warm_up)
        print(f"{'':<16}{'':>8}{'records/s':>9}{'p50 ms':>9}{'p99':>9}{'max':>9}{'lag p50':>9}{'p99':>9}{'max':>9}")
        for title in ("before", "first report", "after", "second report", "after"):
            begin_s = time.monotonic()
            if title.endswith("report"):
                run_command("report", "A->B", "--to", directory, "--name", NAME)
            else:
                time.sleep(options.seconds)
            show(title, latencies_ms, lags.samples, begin_s, time.monotonic())


def main() -> None:
    options = parse_arguments(
        __doc__,
        seconds=(30.0, "of the windows without a report"),
        warm_up=(60.0, "seconds of the load before the first window"),
        rate=(2000, "records of 500 bytes a second"),
        partitions=(6, "of the topic"),
    )
    with cluster_pair("512m") as pair, tempfile.TemporaryDirectory() as directory:
        create_topic(pair[0], TOPIC, options.partitions)
        statistics = StatisticsSettings(emit_interval_s=5)
        settings = flow_settings(pair, topics=TopicSettings(include=(TOPIC,)), statistics=statistics)
        with running_system(settings, NAME, replicators=1) as system:
            wait_until_copying(system, options.partitions)
            measure(system, pair, options, directory)


if __name__ == "__main__":
    main()
