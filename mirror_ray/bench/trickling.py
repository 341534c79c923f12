"""A few records a second: latency, and what it costs to have little to do."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final, Self

from confluent_kafka import Producer

from mirror_ray.bench.clients import client_config, consumer, create_topic, wait_until
from mirror_ray.bench.legs import Trickle
from mirror_ray.bench.meter import Meter
from mirror_ray.bench.stage import Finding, Stage, memory_figures
from mirror_ray.bench.systems import System
from mirror_ray.devcluster import DevCluster

_READY_S: Final = 180.0
#: Beside the records, those that see whether a partition is copied at all.
_PROBE: Final = b"probe"
_PAYLOAD: Final = b"x" * 80
_LAST_S: Final = 5.0


class Latencies:
    """Reads a topic as it grows, and notes how long each record has been on its way. A context manager."""

    def __init__(self, cluster: DevCluster, topic: str, partitions: int) -> None:
        self.found_ms: list[float] = []
        self.probed: set[int] = set()
        self._consumer = consumer(cluster, topic, range(partitions), at_end=True)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="latencies", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._done.is_set():
            for message in self._consumer.consume(1000, timeout=0.002):
                now_ns = time.monotonic_ns()
                value = message.value() or b""
                if message.error() is not None:
                    continue
                if value == _PROBE:
                    self.probed.add(message.partition() or 0)
                else:
                    self.found_ms.append((now_ns - int(value[:20])) / 1e6)


class TrickleRun:
    """See `Trickle`. Before anything is measured, a record has come through each busy partition."""

    def __init__(self, stage: Stage, leg: Trickle, topic: str) -> None:
        self._stage = stage
        self._leg = leg
        self._topic = topic

    def prepare(self) -> None:
        """See `Run`."""
        create_topic(self._stage.source, self._topic, self._leg.partitions, {})

    def run(self, system: System) -> Finding:
        """See `Run`."""
        stage, leg = self._stage, self._leg
        ends = stage.ends(self._topic, leg.partitions)
        wait_until(lambda: ends.total() >= 0, _READY_S, f"{stage.remote(self._topic)} is made", every_s=0.5)
        with Latencies(stage.target, stage.remote(self._topic), leg.busy) as latencies:
            sent, meter = measure(stage.source, self._topic, leg, latencies, system)
        found = latencies.found_ms
        return Finding(
            figures={
                **latency_figures(found),
                "cpu_share": meter.usage.cpu_s / leg.seconds,
                "ray_cpu_share": meter.usage.ray_cpu_s / leg.seconds,
                **memory_figures(meter.usage),
            },
            judgement=stage.compare(self._topic, leg.partitions),
            note="" if len(found) >= sent else f"{len(found):,} of {sent:,} had arrived {_LAST_S:.0f} s after the last",
        )


def measure(source: DevCluster, topic: str, leg: Trickle, latencies: Latencies, system: System) -> tuple[int, Meter]:
    """Write the records while the system is measured; how many they were."""
    producer = Producer(client_config(source, linger_ms=0))
    for partition in range(leg.busy):
        producer.produce(topic, _PROBE, partition=partition)
    producer.flush()
    wait_until(lambda: len(latencies.probed) == leg.busy, _READY_S, f"each partition of {topic} is copied")
    with Meter(system.processes) as meter:
        sent = _send(producer, topic, leg)
    producer.flush()
    deadline_s = time.monotonic() + _LAST_S
    while len(latencies.found_ms) < sent and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return sent, meter


def _send(producer: Producer, topic: str, leg: Trickle) -> int:
    """Evenly: each record at its time, or at once where that is over."""
    began_s = time.monotonic()
    total = round(leg.seconds * leg.records_per_s)
    for number in range(total):
        wait_s = began_s + number / leg.records_per_s - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        producer.produce(topic, b"%020d%s" % (time.monotonic_ns(), _PAYLOAD), partition=number % leg.busy)
        producer.poll(0)
    return total


def latency_figures(found_ms: Sequence[float]) -> dict[str, float]:
    """Percentiles; none where nothing arrived."""
    ordered = sorted(found_ms)
    if not ordered:
        return {}
    return {
        f"latency_p{percent}_ms": ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
        for percent in (50, 95, 99)
    }
