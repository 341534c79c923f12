"""From the start of the process to the first record, and until a topic that is new is copied."""

from __future__ import annotations

import time
from typing import Final

from mirror_ray.lab.background import wait_until
from mirror_ray.lab.bench.contender_process import ContenderProcess
from mirror_ray.lab.bench.dataset import fill
from mirror_ray.lab.bench.environment import BenchEnvironment, CopyGrowth, MeasurementRun
from mirror_ray.lab.bench.measurements import DataSpec, StartMeasurement
from mirror_ray.lab.bench.meter import contender_meter
from mirror_ray.lab.bench.raw_connection import RawConnection
from mirror_ray.lab.bench.results import MeasurementResult
from mirror_ray.model.errors import MirrorError

#: What every contender copies before anything is measured, so that virtual machines compile what runs often.
WARM_UP: Final = DataSpec(records=200_000, record_bytes=1000, batch_records=100, codec="zstd")
_NEW_TOPIC: Final = DataSpec(records=8, record_bytes=100, batch_records=1, codec="none")
_START_S: Final = 180.0
_SETTLE_S: Final = 3.0
_POLL_S: Final = 0.01


class ContenderStart:
    """Starts a contender and warms it up."""

    def __init__(self, environment: BenchEnvironment, *, cold: bool) -> None:
        """``cold``: without a warm-up; what it copies is measured from the first record on."""
        self._environment = environment
        self._cold = cold
        self._topic = f"{environment.prefix}warm"
        self._data = WARM_UP.sized(environment.size)
        #: The figures of the start.
        self.figures: dict[str, float] = {}

    def prepare(self) -> None:
        """Fill the topic of the warm-up."""
        if not self._cold:
            fill(self._environment.source, self._topic, self._data, self._environment.prepared)

    def start(self, system: ContenderProcess) -> None:
        """Start it, and wait until it has copied the warm-up, if there is one. Raises MirrorError if it does not."""
        if self._cold:
            system.start()
            return
        progress = CopyGrowth(self._environment.ends(self._topic, self._data.partitions), system)
        with contender_meter(system) as meter, RawConnection(self._address()) as target:
            began_s = time.monotonic()
            system.start()
            self._until_first(target, system)
            first_s = time.monotonic() - began_s
        self.figures = {"first_record_s": first_s, "start_cpu_s": meter.cpu_s}
        progress.until(self._data.records, _START_S)
        wait_until(lambda: not system.starting(), _START_S, "the command that starts it has ended")
        time.sleep(_SETTLE_S)

    def _address(self) -> str:
        """A broker of the target; of several, each leads a part of the partitions."""
        return self._environment.target.bootstrap.split(",")[0]

    def _until_first(self, target: RawConnection, system: ContenderProcess) -> None:
        remote, end_s = self._environment.remote(self._topic), time.monotonic() + _START_S
        while target.total(remote, self._data.partitions) <= 0:
            system.check()
            if time.monotonic() > end_s:
                raise MirrorError(f"nothing arrived within {_START_S:g} s")
            time.sleep(_POLL_S)


class StartRun(MeasurementRun[StartMeasurement]):
    """Runs a `StartMeasurement`."""

    def __init__(
        self, environment: BenchEnvironment, measurement: StartMeasurement, topic: str, start: ContenderStart
    ) -> None:
        super().__init__(environment, measurement, topic)
        self._start = start

    def run(self, system: ContenderProcess) -> MeasurementResult:  # noqa: ARG002
        """Create a topic and measure until it is copied; the figures of the start were taken before."""
        figures = dict(self._start.figures)
        began_s = time.monotonic()
        fill(self._environment.source, self._topic, _NEW_TOPIC, self._environment.prepared)
        ends = self._environment.ends(self._topic, _NEW_TOPIC.partitions)
        limit_s = self._measurement.discovery_limit_s
        while time.monotonic() - began_s < limit_s:
            if ends.total() > 0:
                figures["discovery_s"] = time.monotonic() - began_s
                return MeasurementResult(figures=figures)
            time.sleep(0.05)
        return MeasurementResult(figures=figures, note=f"a new topic was not discovered within {limit_s:.0f} s")
