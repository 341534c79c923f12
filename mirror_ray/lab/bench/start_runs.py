"""From the start of the process to the first record, and until a topic that is new is copied."""

from __future__ import annotations

import time
from typing import Final

from mirror_ray.lab.bench.clients import wait_until
from mirror_ray.lab.bench.fixture import BenchFixture, CopyGrowth, MeasurementResult
from mirror_ray.lab.bench.measurements import DataSpec, StartMeasurement
from mirror_ray.lab.bench.meter import Meter
from mirror_ray.lab.bench.source import fill
from mirror_ray.lab.bench.systems import ContenderProcess

#: What every contender copies before anything else is measured: by it virtual machines get warm.
WARM: Final = DataSpec(records=200_000, record_bytes=1000, batch_records=100, codec="zstd")
_NEW: Final = DataSpec(records=8, record_bytes=100, batch_records=1, codec="none")
_START_S: Final = 180.0
_SETTLE_S: Final = 3.0


class Opening:
    """Starts a contender and lets it get warm."""

    def __init__(self, stage: BenchFixture, *, cold: bool) -> None:
        """``cold``: only start it; what it copies is measured from the first record on."""
        self._stage = stage
        self._cold = cold
        self._topic = f"{stage.prefix}warm"
        self._data = WARM.sized(stage.size)
        #: What its start took.
        self.figures: dict[str, float] = {}

    def prepare(self) -> None:
        """Fill the topic by which it gets warm."""
        if self._cold:
            return
        fill(self._stage.source, self._topic, self._data, self._stage.shelf)

    def start(self, system: ContenderProcess) -> None:
        """Start it, and wait until it has copied that topic, if it is to get warm.

        Raises:
            MirrorError: It does not.
        """
        if self._cold:
            system.start()
            return
        progress = CopyGrowth(self._stage.ends(self._topic, self._data.partitions), system)
        with Meter(system.processes) as meter:
            began_s = time.monotonic()
            system.start()
            progress.until(1, _START_S)
            first_s = progress.last_s - began_s
        self.figures = {
            "first_record_s": first_s,
            "start_cpu_s": meter.usage.cpu_s + meter.usage.ray_cpu_s,
        }
        progress.until(self._data.records, _START_S)
        wait_until(lambda: not system.starting(), _START_S, "the command that starts it is done")
        time.sleep(_SETTLE_S)


class StartRun:
    """See `StartMeasurement`."""

    def __init__(self, stage: BenchFixture, leg: StartMeasurement, topic: str, opening: Opening) -> None:
        self._stage = stage
        self._leg = leg
        self._topic = topic
        self._opening = opening

    def prepare(self) -> None:
        """See `Run`."""

    def run(self, system: ContenderProcess) -> MeasurementResult:  # noqa: ARG002 - as every leg is run
        """See `Run`."""
        figures = dict(self._opening.figures)
        began_s = time.monotonic()
        fill(self._stage.source, self._topic, _NEW, self._stage.shelf)
        ends = self._stage.ends(self._topic, _NEW.partitions)
        while time.monotonic() - began_s < self._leg.discovery_box_s:
            if ends.total() > 0:
                figures["discovery_s"] = time.monotonic() - began_s
                return MeasurementResult(figures=figures)
            time.sleep(0.05)
        return MeasurementResult(
            figures=figures, note=f"a new topic was not found within {self._leg.discovery_box_s:.0f} s"
        )
