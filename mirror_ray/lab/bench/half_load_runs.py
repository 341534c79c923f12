"""The latency of a few records beside a load of half of what the contender can copy."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from mirror_ray.lab.background import BackgroundThread
from mirror_ray.lab.bench.contender_process import ContenderProcess
from mirror_ray.lab.bench.dataset import rounds
from mirror_ray.lab.bench.environment import BenchEnvironment, CopyGrowth, MeasurementRun
from mirror_ray.lab.bench.measurements import HalfLoadMeasurement
from mirror_ray.lab.bench.raw_connection import RawConnection
from mirror_ray.lab.bench.results import MeasurementResult
from mirror_ray.lab.bench.trickle_runs import LatencyReader, TrickleRun, percentile
from mirror_ray.lab.kafka_client import create_topic
from mirror_ray.model.errors import MirrorError

_COPIED_WITHIN_S: Final = 120.0


class SteadyLoad(BackgroundThread):
    """Writes ready batches again and again, as many records a second as are wanted."""

    def __init__(
        self, address: str, topic: str, batches: Sequence[Mapping[int, bytes]], round_records: int, records_per_s: float
    ) -> None:
        """``batches``: rounds of one for each partition, each round with so many records."""
        super().__init__("the load")
        self._address, self._topic, self._batches = address, topic, batches
        self._round_s = round_records / records_per_s
        self._round_records = round_records
        self.produced = 0

    def _run(self) -> None:
        with RawConnection(self._address) as connection:
            connection.produce(self._topic, self._paced())

    def _paced(self) -> Iterator[Mapping[int, bytes]]:
        due_s = time.monotonic()
        for batches in itertools.cycle(self._batches):
            if self._stopping.wait(max(0.0, due_s - time.monotonic())):
                return
            yield batches
            self.produced += self._round_records
            due_s += self._round_s


class HalfLoadRun(MeasurementRun[HalfLoadMeasurement]):
    """Runs a `HalfLoadMeasurement`: what is written as fast as the source takes it is copied; then comes half as much.

    The time of the former is that from the first record written to the last one copied.
    """

    def __init__(self, environment: BenchEnvironment, measurement: HalfLoadMeasurement, topic: str) -> None:
        super().__init__(environment, measurement, topic)
        self._trickle = TrickleRun(environment, measurement, topic)
        self._load_topic = f"{topic}-load"

    def prepare(self) -> None:
        """Create the topics."""
        self._trickle.prepare()
        create_topic(self._environment.source, self._load_topic, self._measurement.data.partitions)

    def run(self, system: ContenderProcess) -> MeasurementResult:
        """Measure the latency on the target, and at the same time where the records are written."""
        environment, data = self._environment, self._measurement.data
        # The last round may be a shorter one.
        ready = [batches for batches in self._rounds() if len(batches) == data.partitions]
        growth = CopyGrowth(environment.ends(self._load_topic, data.partitions), system)
        rate = self._most_records_per_s(growth, ready) / 2
        load = SteadyLoad(
            environment.source.bootstrap, self._load_topic, ready, data.partitions * data.batch_records, rate
        )
        with LatencyReader(environment.source, self._topic, self._measurement.busy) as written, load:
            result = self._trickle.run(system)
        self._wait_until_copied(growth, growth.total + load.produced)
        figures = {
            "load_records_per_s": rate,
            **{f"written_p{percent}_ms": percentile(sorted(written.latencies_ms), percent) for percent in (50, 99)},
        }
        return MeasurementResult(figures={**result.figures, **figures}, judgement=result.judgement, note=result.note)

    def _rounds(self) -> Iterator[Mapping[int, bytes]]:
        data = self._measurement.data
        return rounds(data, self._environment.prepared.batches(data))

    def _most_records_per_s(self, growth: CopyGrowth, ready: Sequence[Mapping[int, bytes]]) -> float:
        data = self._measurement.data
        records = len(ready) * data.partitions * data.batch_records
        began_s = time.monotonic()
        with RawConnection(self._environment.source.bootstrap) as connection:
            connection.produce(self._load_topic, ready)
        self._wait_until_copied(growth, records)
        return records / (growth.last_s - began_s)

    @staticmethod
    def _wait_until_copied(growth: CopyGrowth, records: int) -> None:
        if not growth.until(records, _COPIED_WITHIN_S):
            raise MirrorError(f"the load was not copied {_COPIED_WITHIN_S:.0f} s later")
