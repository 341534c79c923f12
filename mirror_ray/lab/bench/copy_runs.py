"""A backlog that is copied, one whose contender is killed half-way, and what the brokers alone allow."""

from __future__ import annotations

import time
from collections import deque
from typing import Final

from mirror_ray.lab.background import wait_until
from mirror_ray.lab.bench.contender_process import ContenderProcess
from mirror_ray.lab.bench.dataset import Backlog, fill, rounds
from mirror_ray.lab.bench.environment import BenchEnvironment, CopyGrowth, MeasurementRun
from mirror_ray.lab.bench.measurements import CopyMeasurement, RestartMeasurement
from mirror_ray.lab.bench.meter import broker_figures, brokers_meter, contender_meter, copy_figures
from mirror_ray.lab.bench.raw_connection import RawConnection
from mirror_ray.lab.bench.results import MeasurementResult
from mirror_ray.lab.copy_check import hash_records
from mirror_ray.lab.kafka_client import TopicEnds, create_topic

_QUIET_S: Final = 1.0
#: After a crash a contender may begin again far back.
_QUIET_AFTER_CRASH_S: Final = 5.0
#: A log is clean when it has not shrunk for so long; the cleaner looks every 15 s.
_CLEAN_S: Final = 20.0
_CLEAN_WITHIN_S: Final = 90.0


class CopyRun(MeasurementRun[CopyMeasurement]):
    """Runs a `CopyMeasurement`. The rate counts from the arrival of the first records to that of the last ones."""

    def __init__(self, environment: BenchEnvironment, measurement: CopyMeasurement, topic: str) -> None:
        super().__init__(environment, measurement, topic)
        self._backlog: Backlog | None = None
        self._records = measurement.data.records

    def prepare(self) -> None:
        """Write the backlog; it is held back until `run`, unless the measurement wants it there at the start."""
        source, prepared, data = self._environment.source, self._environment.prepared, self._measurement.data
        if not self._measurement.at_start:
            self._backlog = Backlog(source, self._topic, data, prepared)
            return
        fill(source, self._topic, data, prepared)
        if data.keys:
            self._wait_until_cleaned()
        self._records = sum(map(len, hash_records(source, self._topic, data.partitions)))

    def run(self, system: ContenderProcess) -> MeasurementResult:
        """Open the backlog and measure until everything is copied."""
        environment, partitions = self._environment, self._measurement.data.partitions
        progress = CopyGrowth(environment.ends(self._topic, partitions), system)
        began_s = time.monotonic()
        brokers = brokers_meter(environment.source, environment.target)
        with contender_meter(system) as meter, brokers:
            if self._backlog is not None:
                self._backlog.open()
            finished = progress.until(self._records, self._measurement.limit_s)
            ended_s = progress.last_s if finished else time.monotonic()
        copied = progress.total
        if finished:
            progress.settle(_QUIET_S)
        first_s = progress.first_s if progress.first_s is not None else began_s
        before = progress.first_total
        if before >= self._records:
            # The first poll found everything: the copy took the time since the backlog was opened.
            first_s, before = began_s, 0
        seconds = max(ended_s - first_s, 1e-3)
        copied_share = min(1.0, copied / self._records)
        source_bytes, copy_bytes = environment.disk_bytes(self._topic)
        figures = {
            "records_per_s": (min(copied, self._records) - before) / seconds,
            "seconds": ended_s - began_s,
            "source_bytes_per_s": source_bytes * copied_share / (ended_s - began_s),
            "target_bytes_per_s": copy_bytes / (ended_s - began_s),
            "disk_ratio": copy_bytes / max(1.0, source_bytes * copied_share),
            **copy_figures(meter, min(copied, self._records)),
            **broker_figures(brokers, min(copied, self._records)),
        }
        return MeasurementResult(
            figures=figures,
            judgement=environment.compare(self._topic, partitions, finished=finished),
            note=self._note(copied_share) if not finished or self._measurement.at_start else "",
        )

    def _note(self, copied_share: float) -> str:
        if self._measurement.at_start:
            return "the backlog was there at the start: CPU is that of the start, too"
        return f"{copied_share:.0%} copied when its {self._measurement.limit_s:.0f} s were over"

    def _wait_until_cleaned(self) -> None:
        """Wait until the log cleaner has compacted the topic and has come to an end."""
        deadline_s = time.monotonic() + _CLEAN_WITHIN_S
        size, since_s = self._environment.disk_bytes(self._topic)[0], time.monotonic()

        def settled() -> bool:
            nonlocal size, since_s
            now = self._environment.disk_bytes(self._topic)[0]
            if now != size:
                size, since_s = now, time.monotonic()
            return time.monotonic() - since_s > _CLEAN_S or time.monotonic() > deadline_s

        wait_until(settled, 2 * _CLEAN_WITHIN_S, f"{self._topic} is cleaned", every_s=1.0)


class RestartRun(MeasurementRun[RestartMeasurement]):
    """Runs a `RestartMeasurement`."""

    def prepare(self) -> None:
        """Write the backlog, which is held back until `run`."""
        environment = self._environment
        self._backlog = Backlog(environment.source, self._topic, self._measurement.data, environment.prepared)

    def run(self, system: ContenderProcess) -> MeasurementResult:
        """Open the backlog, kill at half of it, and measure until everything is copied."""
        data, limit_s = self._measurement.data, self._measurement.limit_s
        progress = CopyGrowth(self._environment.ends(self._topic, data.partitions), system)
        kill = system.prepare_kill(completely=self._measurement.completely)
        self._backlog.open()
        progress.until(data.records // 2, limit_s)
        kill()
        if self._measurement.completely:
            system.start()
        progress.mark()
        figures: dict[str, float] = {"copied_at_kill": progress.marked_total}
        notes = []
        finished = progress.until(data.records, limit_s)
        if progress.marked_total < data.records:
            figures["standstill_s"] = progress.standstill_s
        else:
            notes.append("all was copied before it was killed")
        if not finished:
            notes.append(f"not all copied {limit_s:.0f} s later")
        progress.settle(_QUIET_AFTER_CRASH_S)
        judgement = self._environment.compare(self._topic, data.partitions, finished=finished)
        figures["doubled"] = judgement.doubled
        return MeasurementResult(figures=figures, judgement=judgement, note="; ".join(notes))


def copy_baseline(environment: BenchEnvironment, measurement: CopyMeasurement, topic: str) -> MeasurementResult:
    """What the brokers alone allow: fetch everything and drop it, then produce ready batches; the slower one counts."""
    data, remote = measurement.data, environment.remote(topic)
    fill(environment.source, topic, data, environment.prepared)
    create_topic(environment.target, remote, data.partitions, data.configs())
    ends = TopicEnds(environment.source, topic, range(data.partitions)).by_partition()
    ready = list(rounds(data, environment.prepared.batches(data)))
    with RawConnection(environment.source.bootstrap) as source, RawConnection(environment.target.bootstrap) as target:
        began_s, cpu_s = time.monotonic(), time.process_time()
        deque(source.fetch(topic, [end for _, end in sorted(ends.items())]), maxlen=0)
        fetched_s = time.monotonic() - began_s
        began_s = time.monotonic()
        target.produce(remote, ready)
        produced_s = time.monotonic() - began_s
        cpu_s = time.process_time() - cpu_s
    source_bytes, _ = environment.disk_bytes(topic)
    return MeasurementResult(
        figures={
            "records_per_s": data.records / max(fetched_s, produced_s),
            "seconds": fetched_s + produced_s,
            "source_bytes_per_s": source_bytes / fetched_s,
            "target_bytes_per_s": source_bytes / produced_s,
            "cpu_s": cpu_s,
            "cpu_s_per_million": cpu_s / data.records * 1e6,
        },
        note=f"fetched at {data.records / fetched_s:,.0f} records/s, produced at {data.records / produced_s:,.0f}",
    )
