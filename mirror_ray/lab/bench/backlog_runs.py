"""A backlog that is copied, and one whose contender is killed half-way."""

from __future__ import annotations

import time
from typing import Final

from mirror_ray.lab.bench.clients import wait_until
from mirror_ray.lab.bench.copy_check import prints
from mirror_ray.lab.bench.fixture import BenchFixture, CopyGrowth, MeasurementResult, usage_figures
from mirror_ray.lab.bench.measurements import CopyMeasurement, RestartMeasurement
from mirror_ray.lab.bench.meter import Meter
from mirror_ray.lab.bench.source import Backlog, fill
from mirror_ray.lab.bench.systems import ContenderProcess

_QUIET_S: Final = 1.0
#: After a crash a contender may begin again far back.
_QUIET_AFTER_CRASH_S: Final = 5.0
#: A log is clean when it has not shrunk for so long; the cleaner looks every 15 s.
_CLEAN_S: Final = 20.0
_CLEAN_BOX_S: Final = 90.0


class CopyRun:
    """See `CopyMeasurement`. The rate is that of the time from the first records that arrive to the last ones."""

    def __init__(self, stage: BenchFixture, leg: CopyMeasurement, topic: str) -> None:
        self._stage = stage
        self._leg = leg
        self._topic = topic
        self._backlog: Backlog | None = None
        self._records = leg.data.records

    def prepare(self) -> None:
        """See `Run`."""
        source, shelf, data = self._stage.source, self._stage.shelf, self._leg.data
        if not self._leg.at_start:
            self._backlog = Backlog(source, self._topic, data, shelf)
            return
        fill(source, self._topic, data, shelf)
        if data.keys:
            self._wait_clean()
        self._records = sum(map(len, prints(source, self._topic, data.partitions)))

    def run(self, system: ContenderProcess) -> MeasurementResult:
        """See `Run`."""
        stage, partitions = self._stage, self._leg.data.partitions
        progress = CopyGrowth(stage.ends(self._topic, partitions), system)
        began_s = time.monotonic()
        with Meter(system.processes) as meter:
            if self._backlog is not None:
                self._backlog.open()
            finished = progress.until(self._records, self._leg.box_s)
            ended_s = progress.last_s if finished else time.monotonic()
        copied = progress.total
        if finished:
            progress.settle(_QUIET_S)
        first_s = progress.first_s if progress.first_s is not None else began_s
        before = progress.first_total
        if before >= self._records:
            # All of it was seen at once: then it took the time since it was there to be had.
            first_s, before = began_s, 0
        seconds = max(ended_s - first_s, 1e-3)
        share = min(1.0, copied / self._records)
        there_bytes, copy_bytes = stage.disk_bytes(self._topic)
        figures = {
            "records_per_s": (min(copied, self._records) - before) / seconds,
            "seconds": ended_s - began_s,
            "source_bytes_per_s": there_bytes * share / (ended_s - began_s),
            "target_bytes_per_s": copy_bytes / (ended_s - began_s),
            "disk_ratio": copy_bytes / max(1.0, there_bytes * share),
            **usage_figures(meter.usage, min(copied, self._records)),
        }
        return MeasurementResult(
            figures=figures,
            judgement=stage.compare(self._topic, partitions, finished=finished),
            note=self._note(share) if not finished or self._leg.at_start else "",
        )

    def _note(self, share: float) -> str:
        if self._leg.at_start:
            return "the backlog was there at the start: CPU is that of the start, too"
        return f"{share:.0%} copied when its {self._leg.box_s:.0f} s were over"

    def _wait_clean(self) -> None:
        """Wait until the cleaner has been there and has come to an end."""
        deadline_s = time.monotonic() + _CLEAN_BOX_S
        size, since_s = self._stage.disk_bytes(self._topic)[0], time.monotonic()

        def settled() -> bool:
            nonlocal size, since_s
            now = self._stage.disk_bytes(self._topic)[0]
            if now != size:
                size, since_s = now, time.monotonic()
            return time.monotonic() - since_s > _CLEAN_S or time.monotonic() > deadline_s

        wait_until(settled, 2 * _CLEAN_BOX_S, f"{self._topic} is cleaned", every_s=1.0)


class RestartRun:
    """See `RestartMeasurement`."""

    def __init__(self, stage: BenchFixture, leg: RestartMeasurement, topic: str) -> None:
        self._stage = stage
        self._leg = leg
        self._topic = topic
        self._backlog: Backlog | None = None

    def prepare(self) -> None:
        """See `Run`."""
        self._backlog = Backlog(self._stage.source, self._topic, self._leg.data, self._stage.shelf)

    def run(self, system: ContenderProcess) -> MeasurementResult:
        """See `Run`."""
        data, box_s = self._leg.data, self._leg.box_s
        ends = self._stage.ends(self._topic, data.partitions)
        progress = CopyGrowth(ends, system)
        kill = system.aim(whole=self._leg.whole)
        if self._backlog is not None:
            self._backlog.open()
        progress.until(data.records // 2, box_s)
        kill()
        if self._leg.whole:
            system.start()
        progress.mark()
        figures: dict[str, float] = {"copied_at_kill": progress.marked_total}
        notes = []
        finished = progress.until(data.records, box_s)
        if progress.marked_total < data.records:
            figures["standstill_s"] = progress.standstill_s
        else:
            notes.append("all was copied before it was killed")
        if not finished:
            notes.append(f"not all copied {box_s:.0f} s later")
        progress.settle(_QUIET_AFTER_CRASH_S)
        judgement = self._stage.compare(self._topic, data.partitions, finished=finished)
        figures["doubled"] = judgement.doubled
        return MeasurementResult(figures=figures, judgement=judgement, note="; ".join(notes))
