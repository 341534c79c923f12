"""Where a contender runs: two clusters, names of its own, data; and what every leg does there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from mirror_ray.lab.bench.clients import TopicEnds
from mirror_ray.lab.bench.contenders import Contender
from mirror_ray.lab.bench.copy_check import compare
from mirror_ray.lab.bench.copy_result import CopyResult
from mirror_ray.lab.bench.measurements import ClusterSite
from mirror_ray.lab.bench.meter import Usage
from mirror_ray.lab.bench.source import PreparedTopics
from mirror_ray.lab.bench.systems import ContenderProcess
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.errors import MirrorError

TARGET: Final = "B"
_POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchClusters:
    """The clusters of a place."""

    place: ClusterSite
    source: DevCluster
    target: DevCluster
    #: ``bootstrap.servers`` of source and target, as a contender is told them.
    reached: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchFixture:
    """One start of one contender. Its source alias and its topics are new, so its progress and remote topics are."""

    number: int
    #: Which time its legs are run, from 0 on.
    round: int
    contender: Contender
    site: BenchClusters
    shelf: PreparedTopics
    #: Share of the records of each leg.
    size: float
    #: For the contender's configuration and log.
    directory: Path

    @property
    def source(self) -> DevCluster:
        """The cluster that is copied from."""
        return self.site.source

    @property
    def target(self) -> DevCluster:
        """The cluster that is copied to."""
        return self.site.target

    @property
    def alias(self) -> str:
        """The source's."""
        return f"S{self.number}"

    @property
    def prefix(self) -> str:
        """Of the source topics."""
        return f"s{self.number}-"

    def remote(self, topic: str) -> str:
        """The name of a topic's copy."""
        return f"{self.alias}.{topic}"

    def ends(self, topic: str, partitions: int) -> TopicEnds:
        """The ends of a topic's copy."""
        return TopicEnds(self.target, self.remote(topic), range(partitions))

    def compare(self, topic: str, partitions: int, *, finished: bool = True) -> CopyResult:
        """Compare every record of a topic with its copy."""
        return compare(self.source, topic, self.target, self.remote(topic), partitions, finished=finished)

    def disk_bytes(self, topic: str) -> tuple[int, int]:
        """Bytes of one replica of a topic's logs, and of its copy's."""
        return _log_bytes(self.source, topic), _log_bytes(self.target, self.remote(topic))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementResult:
    """What a leg found. ``figures``: by their names in ``figures.py``."""

    figures: Mapping[str, float] = field(default_factory=dict)
    judgement: CopyResult | None = None
    note: str = ""


class MeasurementRun(Protocol):
    """A leg of one contender."""

    def prepare(self) -> None:
        """Before the contender starts."""
        ...

    def run(self, system: ContenderProcess) -> MeasurementResult:
        """Measure, and compare the copy. The contender runs and is warm, and goes on to run.

        Raises:
            MirrorError: It could not be measured.
        """
        ...


class CopyGrowth:
    """A copy as it grows: when the first records were there, and when the last ones."""

    def __init__(self, ends: TopicEnds, system: ContenderProcess) -> None:
        self.total = 0
        self.first_s: float | None = None
        self.first_total = 0
        self.last_s = time.monotonic()
        self.marked_total = 0
        #: The longest time without a record since `mark`, up to the last one that came.
        self.standstill_s = 0.0
        self._marked_s = self.last_s
        self._ends = ends
        self._system = system

    def until(self, records: int, box_s: float) -> bool:
        """Watch until so many are there; whether that was within ``box_s`` of the first one.

        Raises:
            MirrorError: Nothing arrives for two minutes, or the contender has ended.
        """
        begun_s = time.monotonic()
        while True:
            self.look()
            now_s = time.monotonic()
            if self.total >= records:
                return True
            if self.first_s is not None and now_s - max(self.first_s, begun_s) > box_s:
                return False
            if now_s - max(self.last_s, begun_s) > 120:
                raise MirrorError(f"nothing arrived for 120 s after {self.total:,} records")
            time.sleep(_POLL_S)

    def settle(self, quiet_s: float) -> None:
        """Watch until nothing has come for so long: where a contender writes markers the end says too much."""
        while time.monotonic() - self.last_s < quiet_s:
            self.look()
            time.sleep(_POLL_S)

    def mark(self) -> None:
        """See how far it is, and count standstills from here on."""
        self.look()
        self.marked_total, self.standstill_s = self.total, 0.0
        self._marked_s = time.monotonic()

    def look(self) -> None:
        """See how far it is."""
        total = max(0, self._ends.total())
        self._system.check()
        if total > self.total:
            now_s = time.monotonic()
            self.standstill_s = max(self.standstill_s, now_s - max(self.last_s, self._marked_s))
            self.total, self.last_s = total, now_s
            if self.first_s is None:
                self.first_s, self.first_total = self.last_s, total


def usage_figures(usage: Usage, records: int) -> dict[str, float]:
    """What a contender took to copy so many records."""
    return {
        "cpu_s": usage.cpu_s,
        "cpu_s_per_million": usage.cpu_s / max(records, 1) * 1e6,
        "ray_cpu_s": usage.ray_cpu_s,
        **memory_figures(usage),
    }


def memory_figures(usage: Usage) -> dict[str, float]:
    """What its processes held at their peak."""
    return {"memory_bytes": usage.peak_memory_bytes, "process_bytes": usage.peak_process_bytes}


def _log_bytes(cluster: DevCluster, topic: str) -> int:
    logs = cluster.dir.glob(f"broker-*/data/{topic}-*/*.log")
    replicas = min(3, len(cluster.brokers))
    return sum(log.stat().st_size for log in logs if log.parent.name.rpartition("-")[0] == topic) // replicas
