"""The floor: what the brokers alone allow, without a copy in between."""

from __future__ import annotations

import time
from collections import deque

from mirror_ray.lab.bench.clients import TopicEnds, create_topic
from mirror_ray.lab.bench.fixture import BenchFixture, MeasurementResult
from mirror_ray.lab.bench.measurements import CopyMeasurement, Measurement, TrickleMeasurement
from mirror_ray.lab.bench.source import fill, rounds
from mirror_ray.lab.bench.trickle_runs import LatencyReader, TrickleWriter, latency_figures
from mirror_ray.lab.bench.wire import Wire
from mirror_ray.model.errors import MirrorError


def floor(stage: BenchFixture, leg: Measurement, topic: str) -> MeasurementResult:
    """What a leg's data takes at least.

    Raises:
        MirrorError: A leg that has no floor.
    """
    if isinstance(leg, CopyMeasurement):
        return _copy_floor(stage, leg, topic)
    if isinstance(leg, TrickleMeasurement):
        return _trickle_floor(stage, leg, topic)
    raise MirrorError(f"{leg.workload} has no floor")


def _copy_floor(stage: BenchFixture, leg: CopyMeasurement, topic: str) -> MeasurementResult:
    """Fetch everything and throw it away, then produce ready batches; the slower one is the floor."""
    data = leg.data
    fill(stage.source, topic, data, stage.shelf)
    create_topic(stage.target, stage.remote(topic), data.partitions, data.configs())
    ends = [end for _, end in sorted(TopicEnds(stage.source, topic, range(data.partitions)).each().items())]
    ready = list(rounds(data, stage.shelf.batches(data)))
    with Wire(stage.source.bootstrap) as source, Wire(stage.target.bootstrap) as target:
        began_s, cpu_s = time.monotonic(), time.process_time()
        deque(source.fetch(topic, ends), maxlen=0)
        fetched_s = time.monotonic() - began_s
        began_s = time.monotonic()
        target.produce(stage.remote(topic), ready)
        produced_s = time.monotonic() - began_s
        cpu_s = time.process_time() - cpu_s
    there_bytes, _ = stage.disk_bytes(topic)
    slower_s = max(fetched_s, produced_s)
    return MeasurementResult(
        figures={
            "records_per_s": data.records / slower_s,
            "seconds": fetched_s + produced_s,
            "source_bytes_per_s": there_bytes / fetched_s,
            "target_bytes_per_s": there_bytes / produced_s,
            "cpu_s": cpu_s,
            "cpu_s_per_million": cpu_s / data.records * 1e6,
        },
        note=f"fetched at {data.records / fetched_s:,.0f} records/s, produced at {data.records / produced_s:,.0f}",
    )


def _trickle_floor(stage: BenchFixture, leg: TrickleMeasurement, topic: str) -> MeasurementResult:
    """The records, read where they were written."""
    create_topic(stage.source, topic, leg.partitions, {})
    with LatencyReader(stage.source, topic, leg.busy) as latencies:
        writer = TrickleWriter(stage.source, topic, leg, latencies)
        writer.write()
        writer.wait()
    return MeasurementResult(
        figures=latency_figures(latencies.found_ms), note="read where they were written: not copied at all"
    )
