"""A few records a second: latency, and what it costs to have little to do."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from math import nan
from typing import Any, Final, Self

from confluent_kafka import Message, Producer, TopicPartition

from mirror_ray.lab.background import wait_until
from mirror_ray.lab.bench.contender_process import ContenderProcess
from mirror_ray.lab.bench.environment import BenchEnvironment, MeasurementRun
from mirror_ray.lab.bench.measurements import TrickleMeasurement
from mirror_ray.lab.bench.meter import contender_meter, memory_figures
from mirror_ray.lab.bench.results import MeasurementResult
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.kafka_client import TopicEnds, TopicTail, client_config, create_topic
from mirror_ray.lab.load_generator import LoadGenerator, ProducedRecord
from mirror_ray.model.errors import MirrorError

_READY_S: Final = 180.0
#: A record that only shows whether a partition is copied at all.
_PROBE: Final = b"probe"
#: With it a log has so much (``index.interval.bytes``) that the probe behind it is in the index, whose files are made
#: then: many partitions do that at the same moment, and take a second for it. It does not compress.
_FILLER: Final = random.Random(1).randbytes(5000)  # noqa: S311 - the same data every time is what is wanted
_PAYLOAD: Final = b"x" * 80
_LAST_S: Final = 30.0


class LatencyReader:
    """Reads a topic from its end as it grows, and notes how long each record took to arrive. A context manager."""

    def __init__(self, cluster: DevCluster, topic: str, partitions: int) -> None:
        self.latencies_ms: list[float] = []
        #: Partitions whose probe has arrived.
        self.probed: set[int] = set()
        ends = TopicEnds(cluster, topic, range(partitions)).by_partition()
        begin = [TopicPartition(topic, number, ends[number]) for number in range(partitions)]
        self._tail = TopicTail(client_config(cluster), begin, self._note, poll_s=0.002)

    def __enter__(self) -> Self:
        self._tail.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._tail.stop()

    def _note(self, message: Message, now_s: float) -> None:
        value = message.value() or b""
        if value == _PROBE:
            self.probed.add(message.partition() or 0)
        elif value != _FILLER:
            self.latencies_ms.append(now_s * 1e3 - int(value[:20]) / 1e6)


class TransactionalLoad(LoadGenerator):
    """Produces in transactions, one after the other, each of which it commits after ``commit_every_s``."""

    def __init__(self, name: str, config: dict[str, Any], *args: Any, commit_every_s: float, **more: Any) -> None:
        super().__init__(name, config | {"transactional.id": name}, *args, **more)
        self._commit_every_s = commit_every_s

    def _run(self) -> None:
        producer = Producer(self._config)
        producer.init_transactions(_LAST_S)
        due_s, more = time.monotonic(), True
        while more and not self._stopping.is_set():
            producer.begin_transaction()
            commit_s = time.monotonic() + self._commit_every_s
            while more and time.monotonic() < commit_s:
                more = self._produce_tick(producer)
                due_s += self._tick_s
                self._stopping.wait(max(0.0, due_s - time.monotonic()))
            producer.commit_transaction(_LAST_S)


class TrickleRun(MeasurementRun[TrickleMeasurement]):
    """Runs a `TrickleMeasurement`. Before anything is measured, records have come through each busy partition."""

    def prepare(self) -> None:
        """Create the topic."""
        create_topic(self._environment.source, self._topic, self._measurement.partitions)

    def run(self, system: ContenderProcess) -> MeasurementResult:
        """Measure idle processes, and then latency and processes under the trickle."""
        environment, measurement = self._environment, self._measurement
        remote, ends = environment.remote(self._topic), environment.ends(self._topic, measurement.busy)
        wait_until(lambda: ends.total() >= 0, _READY_S, f"{remote} exists", every_s=0.5)
        with LatencyReader(environment.target, remote, measurement.busy) as reader:
            _probe(environment.source, self._topic, measurement.busy, reader)
            idle = _idle_figures(system, measurement.idle_s) if measurement.idle_s else {}
            load = _trickle(environment.source, self._topic, measurement)
            with contender_meter(system) as meter:
                load.start()
                load.join()
            _wait_for_last(reader, load.produced)
        arrived = len(reader.latencies_ms) >= load.produced
        note = f"{len(reader.latencies_ms):,} of {load.produced:,} had arrived {_LAST_S:.0f} s after the last"
        return MeasurementResult(
            figures={
                **_latency_figures(reader.latencies_ms),
                **idle,
                "cpu_share": meter.usage["own"].cpu_s / measurement.seconds,
                "ray_cpu_share": meter.usage["ray"].cpu_s / measurement.seconds,
                **memory_figures(meter),
            },
            judgement=environment.compare(self._topic, measurement.busy, finished=arrived),
            note="" if arrived else note,
        )


def trickle_baseline(environment: BenchEnvironment, measurement: TrickleMeasurement, topic: str) -> MeasurementResult:
    """The latency of records that are read from the topic that they were written to."""
    create_topic(environment.source, topic, measurement.partitions)
    with LatencyReader(environment.source, topic, measurement.busy) as reader:
        _probe(environment.source, topic, measurement.busy, reader)
        load = _trickle(environment.source, topic, measurement)
        load.start()
        load.join()
        _wait_for_last(reader, load.produced)
    return MeasurementResult(
        figures=_latency_figures(reader.latencies_ms), note="read where they were written: not copied at all"
    )


def _probe(source: DevCluster, topic: str, partitions: int, reader: LatencyReader) -> None:
    """Send records through each partition, and wait until they have arrived."""
    producer = Producer(client_config(source, {"linger.ms": 0}))
    for value in (_FILLER, _PROBE):
        for partition in range(partitions):
            producer.produce(topic, value, partition=partition)
        producer.flush()
    wait_until(lambda: len(reader.probed) == partitions, _READY_S, f"each partition of {topic} is copied")


def _trickle(source: DevCluster, topic: str, measurement: TrickleMeasurement) -> LoadGenerator:
    """A load of single records, evenly, each with the time at which it is produced."""

    def record(number: int) -> ProducedRecord:
        return ProducedRecord(topic, b"%020d%s" % (time.monotonic_ns(), _PAYLOAD), partition=number % measurement.busy)

    rate, every_s = measurement.records_per_s, measurement.commit_every_s
    new = partial(TransactionalLoad, commit_every_s=every_s) if every_s else LoadGenerator
    return new(
        "trickle",
        client_config(source, {"linger.ms": 0}),
        rate,
        record,
        tick_s=1 / rate,
        limit=round(measurement.seconds * rate),
        stop_timeout_s=measurement.seconds + 120,
    )


def _wait_for_last(reader: LatencyReader, records: int) -> None:
    """Wait until all have arrived, or for half a minute."""
    with suppress(MirrorError):
        wait_until(lambda: len(reader.latencies_ms) >= records, _LAST_S, "all have arrived", every_s=0.05)


def _idle_figures(system: ContenderProcess, seconds: float) -> dict[str, float]:
    with contender_meter(system) as meter:
        time.sleep(seconds)
    return {"idle_cpu_share": meter.usage["own"].cpu_s / seconds}


def _latency_figures(latencies_ms: Sequence[float]) -> dict[str, float]:
    """Percentiles; none where nothing arrived."""
    ordered = sorted(latencies_ms)
    return {f"latency_p{percent}_ms": percentile(ordered, percent) for percent in (50, 95, 99)} if ordered else {}


def percentile(ordered: Sequence[float], percent: int) -> float:
    """A percentile of sorted values; not a number without any."""
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] if ordered else nan
