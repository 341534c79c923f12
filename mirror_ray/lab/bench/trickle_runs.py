"""A few records a second: latency, and what it costs to have little to do."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final, Self

from confluent_kafka import Producer

from mirror_ray.lab.bench.clients import client_config, consumer, create_topic, wait_until
from mirror_ray.lab.bench.fixture import BenchFixture, MeasurementResult, memory_figures
from mirror_ray.lab.bench.measurements import TrickleMeasurement
from mirror_ray.lab.bench.meter import Meter
from mirror_ray.lab.bench.systems import ContenderProcess
from mirror_ray.lab.devcluster import DevCluster

_READY_S: Final = 180.0
#: Beside the records, those that see whether a partition is copied at all.
_PROBE: Final = b"probe"
_PAYLOAD: Final = b"x" * 80
_LAST_S: Final = 30.0


class LatencyReader:
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
    """See `TrickleMeasurement`. Before anything is measured, a record has come through each busy partition."""

    def __init__(self, stage: BenchFixture, leg: TrickleMeasurement, topic: str) -> None:
        self._stage = stage
        self._leg = leg
        self._topic = topic

    def prepare(self) -> None:
        """See `Run`."""
        create_topic(self._stage.source, self._topic, self._leg.partitions, {})

    def run(self, system: ContenderProcess) -> MeasurementResult:
        """See `Run`."""
        stage, leg = self._stage, self._leg
        ends = stage.ends(self._topic, leg.busy)
        wait_until(lambda: ends.total() >= 0, _READY_S, f"{stage.remote(self._topic)} is made", every_s=0.5)
        with LatencyReader(stage.target, stage.remote(self._topic), leg.busy) as latencies:
            writer = TrickleWriter(stage.source, self._topic, leg, latencies)
            idle = idle_figures(system, leg.idle_s) if leg.idle_s else {}
            with Meter(system.processes) as meter:
                writer.write()
            writer.wait()
        found, sent = latencies.found_ms, writer.sent
        arrived = len(found) >= sent
        return MeasurementResult(
            figures={
                **latency_figures(found),
                **idle,
                "cpu_share": meter.usage.cpu_s / leg.seconds,
                "ray_cpu_share": meter.usage.ray_cpu_s / leg.seconds,
                **memory_figures(meter.usage),
            },
            judgement=stage.compare(self._topic, leg.busy, finished=arrived),
            note="" if arrived else f"{len(found):,} of {sent:,} had arrived {_LAST_S:.0f} s after the last",
        )


class TrickleWriter:
    """Writes the records of a leg to a topic."""

    def __init__(self, source: DevCluster, topic: str, leg: TrickleMeasurement, latencies: LatencyReader) -> None:
        """Send a record through each busy partition, and wait until it has arrived.

        Raises:
            MirrorError: It does not.
        """
        self.sent = 0
        self._topic = topic
        self._leg = leg
        self._latencies = latencies
        self._producer = Producer(client_config(source, linger_ms=0))
        for partition in range(leg.busy):
            self._producer.produce(topic, _PROBE, partition=partition)
        self._producer.flush()
        wait_until(lambda: len(latencies.probed) == leg.busy, _READY_S, f"each partition of {topic} is copied")

    def write(self) -> None:
        """Evenly: each record at its time, or at once where that is over."""
        leg, began_s = self._leg, time.monotonic()
        for number in range(round(leg.seconds * leg.records_per_s)):
            wait_s = began_s + number / leg.records_per_s - time.monotonic()
            if wait_s > 0:
                time.sleep(wait_s)
            value = b"%020d%s" % (time.monotonic_ns(), _PAYLOAD)
            self._producer.produce(self._topic, value, partition=number % leg.busy)
            self._producer.poll(0)
            self.sent += 1

    def wait(self) -> None:
        """Wait until all have arrived, or for some seconds."""
        self._producer.flush()
        deadline_s = time.monotonic() + _LAST_S
        while len(self._latencies.found_ms) < self.sent and time.monotonic() < deadline_s:
            time.sleep(0.05)


def idle_figures(system: ContenderProcess, seconds: float) -> dict[str, float]:
    """What a system takes while nothing is written."""
    with Meter(system.processes) as meter:
        time.sleep(seconds)
    return {"idle_cpu_share": meter.usage.cpu_s / seconds}


def latency_figures(found_ms: Sequence[float]) -> dict[str, float]:
    """Percentiles; none where nothing arrived."""
    ordered = sorted(found_ms)
    if not ordered:
        return {}
    return {
        f"latency_p{percent}_ms": ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
        for percent in (50, 95, 99)
    }
