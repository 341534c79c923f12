"""A snapshot of the system as Prometheus scrapes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from mirror_ray.model.latency import LATENCY_BOUNDS_MS
from mirror_ray.model.names import FlowName
from mirror_ray.observe.figures import Metric as FigureMetric
from mirror_ray.observe.figures import metrics_of
from mirror_ray.observe.groups import FlowGroups
from mirror_ray.observe.metrics import CATALOGUE
from mirror_ray.observe.schemas import FlowSchemas
from mirror_ray.observe.status import FlowStatus, PartitionStatus, ReplicatorStatus, TopicStatus
from mirror_ray.observe.system_snapshot import SystemSnapshot

#: The media type of what ``exposition`` gives.
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_METRICS: Final[dict[type[object], Mapping[str, FigureMetric]]] = {
    status: metrics_of(status)
    for status in (FlowStatus, FlowGroups, FlowSchemas, TopicStatus, PartitionStatus, ReplicatorStatus)
}
_BOUNDS: Final = (*(f"{bound / 1000:g}" for bound in LATENCY_BOUNDS_MS), "+Inf")


def exposition(snapshot: SystemSnapshot | None, *, version: str, up: bool, age_s: float, most_partitions: int) -> bytes:
    """Everything that is known, in Prometheus's text format.

    Args:
        snapshot: The last one; None: there was none yet.
        version: mirror-ray's own.
        up: Whether the coordinator answers.
        age_s: The age of the snapshot in seconds.
        most_partitions: How many partitions get series of their own.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(snapshot, version, up=up, age_s=age_s, most_partitions=most_partitions))
    return generate_latest(registry)


class _Families:
    def __init__(self) -> None:
        self._families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}

    def add(self, name: str, labels: Sequence[str], value: float | None) -> None:
        """Add a sample of the metric ``mirror_ray_<name>``, unless the value is unknown (None)."""
        self._add(f"mirror_ray_{name}", labels, value)

    def add_fields(self, status: object, labels: Sequence[str]) -> None:
        """Add a sample of each field of a status value that is a metric."""
        for field, metric in _METRICS[type(status)].items():
            self._add(metric.name, labels, getattr(status, field))

    def _add(self, name: str, labels: Sequence[str], value: float | None) -> None:
        if value is None:
            return
        family = self._families.get(name)
        if family is None:
            metric = CATALOGUE[name]
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = self._families[name] = kind(name, metric.text, labels=metric.labels)
        family.add_metric(labels, value)

    def all(self) -> Iterator[Metric]:
        yield from self._families.values()


class _Snapshot(Collector):
    def __init__(
        self, snapshot: SystemSnapshot | None, version: str, *, up: bool, age_s: float, most_partitions: int
    ) -> None:
        self._version = version
        self._snapshot, self._up, self._age_s, self._most = snapshot, up, age_s, most_partitions

    def collect(self) -> Iterator[Metric]:
        families = _Families()
        families.add("coordinator_up", (), float(self._up))
        if self._snapshot is not None:
            families.add("picture_age_seconds", (), self._age_s)
            families.add("info", (self._snapshot.system.name, self._version), 1)
            _add_system(families, self._snapshot)
            for flow in self._snapshot.system.flows:
                _add_flow(families, flow)
            _add_gaps(families, self._snapshot)
            for topic in self._snapshot.topics:
                families.add_fields(topic, (*_flow_labels(topic.flow), topic.topic, topic.remote_topic))
            shown = self._snapshot.partitions[: self._most]
            for partition in shown:
                names = (partition.topic, partition.target_topic, str(partition.partition))
                families.add_fields(partition, (*_flow_labels(partition.flow), *names))
            families.add("partitions_left_out", (), len(self._snapshot.partitions) - len(shown))
            for replicator in self._snapshot.system.replicators:
                labels = (replicator.id, replicator.node)
                families.add("replicator_up", labels, float(replicator.state in ("running", "draining")))
                families.add_fields(replicator, labels)
        yield from families.all()
        if self._snapshot is not None:
            yield _latencies(self._snapshot)


def _add_system(families: _Families, snapshot: SystemSnapshot) -> None:
    for problem in snapshot.problems:
        labels = (problem.kind, problem.severity, problem.flow, problem.subject, problem.text, problem.remedy)
        families.add("problem", labels, 1)
    for level, count in snapshot.event_counts.items():
        families.add("events", (level,), count)
    families.add("replicators_desired", (), snapshot.system.desired_replicators)
    families.add("replicator_deaths", (), snapshot.deaths)
    families.add("price_per_gigabyte", (snapshot.system.currency,), snapshot.system.price_per_gb or None)


@lru_cache(maxsize=1024)
def _flow_labels(flow: str) -> tuple[str, str, str]:
    name = FlowName.parse(flow)
    return flow, name.source, name.target


def _add_flow(families: _Families, flow: FlowStatus) -> None:
    labels = _flow_labels(flow.flow)
    families.add("flow_up", labels, float(flow.state != "unreachable"))
    families.add("flow_state", (*labels, flow.state), 1)
    families.add_fields(flow, labels)
    families.add("flow_limited_seconds", labels, flow.held.limit_s)
    families.add("flow_throttled_seconds", (*labels, "source"), flow.held.source_s)
    families.add("flow_throttled_seconds", (*labels, "target"), flow.held.target_s)
    for helper in (flow.groups, flow.schemas):
        if helper is not None:
            families.add_fields(helper, labels)


def _latencies(snapshot: SystemSnapshot) -> HistogramMetricFamily:
    metric = CATALOGUE["mirror_ray_replication_latency_seconds"]
    family = HistogramMetricFamily(metric.name, metric.text, labels=metric.labels)
    for flow, latencies in snapshot.latencies.items():
        buckets = list(zip(_BOUNDS, map(float, accumulate(latencies.counts)), strict=True))
        family.add_metric(_flow_labels(flow), buckets, latencies.sum_ms / 1000)
    return family


def _add_gaps(families: _Families, snapshot: SystemSnapshot) -> None:
    counts = Counter({flow.flow: 0 for flow in snapshot.system.flows})
    counts.update(gap.flow for gap in snapshot.gaps)
    for flow, count in counts.items():
        families.add("gaps", _flow_labels(flow), count)
