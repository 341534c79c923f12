"""Where a contender runs: two clusters, names of its own, prepared data; and how its copy is watched and compared."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

from mirror_ray.lab.bench.contender_process import ContenderProcess
from mirror_ray.lab.bench.contenders import Contender
from mirror_ray.lab.bench.dataset import PreparedTopics
from mirror_ray.lab.bench.measurements import ClusterSite, Measurement
from mirror_ray.lab.bench.results import MeasurementResult
from mirror_ray.lab.copy_check import check_copy
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import far_cluster, running_clusters
from mirror_ray.lab.judge import CopyResult
from mirror_ray.lab.kafka_client import TopicEnds
from mirror_ray.model.errors import MirrorError

TARGET: Final = "B"
_POLL_S: Final = 0.02
_NOTHING_S: Final = 120
#: Each broker's ``-Xmx``, by how many brokers a cluster has.
_HEAP: Final = {1: "1g", 3: "700m"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchClusters:
    """The running clusters of a site."""

    site: ClusterSite
    source: DevCluster
    target: DevCluster
    #: The contender's ``bootstrap.servers`` of source and target.
    bootstrap: tuple[str, str]


@contextmanager
def clusters_at(site: ClusterSite) -> Iterator[BenchClusters]:
    """Start the clusters of a site; they are closed with the context."""
    with ExitStack() as stack:
        delay_s = site.round_trip_ms / 2000
        clusters, bootstrap = [], []
        for name, brokers, side in (("A", 1, "source"), (TARGET, site.target_brokers, "target")):
            if site.far == side:
                cluster, address = stack.enter_context(far_cluster(name, brokers, delay_s, heap=_HEAP[brokers]))
            else:
                cluster = DevCluster(name, brokers, heap=_HEAP[brokers])
                address = cluster.bootstrap
            clusters.append(cluster)
            bootstrap.append(address)
        source, target = stack.enter_context(running_clusters(*clusters))
        yield BenchClusters(site=site, source=source, target=target, bootstrap=(bootstrap[0], bootstrap[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchEnvironment:
    """One start of one contender. Its source alias and topics are new, and so are its progress and remote topics."""

    number: int
    contender: Contender
    clusters: BenchClusters
    prepared: PreparedTopics
    #: Share of the records of each measurement.
    size: float
    #: For the contender's configuration and log.
    directory: Path

    @property
    def source(self) -> DevCluster:
        """The cluster that is copied from."""
        return self.clusters.source

    @property
    def target(self) -> DevCluster:
        """The cluster that is copied to."""
        return self.clusters.target

    @property
    def alias(self) -> str:
        """The source cluster's alias."""
        return f"S{self.number}"

    @property
    def prefix(self) -> str:
        """The prefix of the source topics."""
        return f"s{self.number}-"

    def remote(self, topic: str) -> str:
        """The name of the remote topic."""
        return f"{self.alias}.{topic}"

    def ends(self, topic: str, partitions: int) -> TopicEnds:
        """The ends of the remote topic."""
        return TopicEnds(self.target, self.remote(topic), range(partitions))

    def compare(self, topic: str, partitions: int, *, finished: bool = True) -> CopyResult:
        """Compare every record of a topic with its copy."""
        return check_copy(self.source, topic, self.target, self.remote(topic), partitions, finished=finished)

    def disk_bytes(self, topic: str) -> tuple[int, int]:
        """Bytes of one replica of the logs of the topic, and of the remote topic."""
        return _replica_bytes(self.source, topic), _replica_bytes(self.target, self.remote(topic))


AnyMeasurement = TypeVar("AnyMeasurement", bound=Measurement)


class MeasurementRun(Generic[AnyMeasurement]):
    """One measurement of one contender."""

    def __init__(self, environment: BenchEnvironment, measurement: AnyMeasurement, topic: str) -> None:
        """``topic`` is the name of the source topic that the run creates."""
        self._environment = environment
        self._measurement = measurement
        self._topic = topic

    def prepare(self) -> None:
        """Write what is needed before the contender starts."""

    def run(self, system: ContenderProcess) -> MeasurementResult:
        """Measure a contender that is warm, and compare the copy. Raises MirrorError if it can't be measured."""
        raise NotImplementedError


class CopyGrowth:
    """Watches a copy grow: when its first records arrived, and when its last ones."""

    def __init__(self, ends: TopicEnds, system: ContenderProcess) -> None:
        #: Records on the target as of the last poll.
        self.total = 0
        self.first_s: float | None = None
        self.first_total = 0
        self.last_s = time.monotonic()
        self.marked_total = 0
        #: The longest time without a record since `mark`, up to the last record.
        self.standstill_s = 0.0
        self._marked_s = self.last_s
        self._ends = ends
        self._system = system

    def until(self, records: int, limit_s: float) -> bool:
        """Watch until so many records have arrived; returns whether they did within ``limit_s`` of the first one.

        Raises:
            MirrorError: Nothing arrives for two minutes, or the contender has ended.
        """
        begun_s = time.monotonic()
        while True:
            self.poll()
            now_s = time.monotonic()
            if self.total >= records:
                return True
            if self.first_s is not None and now_s - max(self.first_s, begun_s) > limit_s:
                return False
            if now_s - max(self.last_s, begun_s) > _NOTHING_S:
                raise MirrorError(f"nothing arrived for {_NOTHING_S} s after {self.total:,} records")
            time.sleep(_POLL_S)

    def settle(self, quiet_s: float) -> None:
        """Watch until nothing has arrived for so long: a contender's markers make more offsets than records."""
        while time.monotonic() - self.last_s < quiet_s:
            self.poll()
            time.sleep(_POLL_S)

    def mark(self) -> None:
        """Measure standstills from now on."""
        self.poll()
        self.marked_total, self.standstill_s = self.total, 0.0
        self._marked_s = time.monotonic()

    def poll(self) -> None:
        """Ask how many records have arrived."""
        total = max(0, self._ends.total())
        self._system.check()
        if total > self.total:
            now_s = time.monotonic()
            self.standstill_s = max(self.standstill_s, now_s - max(self.last_s, self._marked_s))
            self.total, self.last_s = total, now_s
            if self.first_s is None:
                self.first_s, self.first_total = self.last_s, total


def _replica_bytes(cluster: DevCluster, topic: str) -> int:
    return cluster.log_bytes(topic) // min(3, len(cluster.brokers))
