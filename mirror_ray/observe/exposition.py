"""A picture of the system as Prometheus scrapes it. Pure: a picture in, text out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from mirror_ray.model.latency import LATENCY_BOUNDS_MS, LatencyHistogram
from mirror_ray.model.names import FlowName
from mirror_ray.observe.metrics import CATALOGUE
from mirror_ray.observe.status import FlowStatus, PartitionStatus, ReplicatorStatus, TopicStatus
from mirror_ray.observe.system_snapshot import SystemSnapshot

#: The media type of what ``exposition`` gives.
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_BOUNDS: Final = (*(f"{bound / 1000:g}" for bound in LATENCY_BOUNDS_MS), "+Inf")


def exposition(picture: SystemSnapshot | None, *, version: str, up: bool, age_s: float, most_partitions: int) -> bytes:
    """Everything that is known, in Prometheus's text format.

    Args:
        picture: The last one; None: there was none yet.
        version: Ours.
        up: Whether the coordinator answers.
        age_s: How old the picture is.
        most_partitions: How many partitions get series of their own.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(picture, version, up=up, age_s=age_s, most_partitions=most_partitions))
    return generate_latest(registry)


class _Families:
    def __init__(self) -> None:
        self._families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        self.histograms: list[HistogramMetricFamily] = []

    def add(self, name: str, labels: Iterable[str], value: float | None) -> None:
        """A sample of the metric ``mirror_ray_<name>``; None is not known, and is left out."""
        if value is None:
            return
        metric = CATALOGUE[f"mirror_ray_{name}"]
        family = self._families.get(metric.name)
        if family is None:
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = self._families[metric.name] = kind(metric.name, metric.text, labels=metric.labels)
        family.add_metric(list(labels), value)

    def all(self) -> Iterator[Metric]:
        yield from self._families.values()
        yield from self.histograms


class _Snapshot(Collector):
    def __init__(
        self, picture: SystemSnapshot | None, version: str, *, up: bool, age_s: float, most_partitions: int
    ) -> None:
        self._version = version
        self._picture, self._up, self._age_s, self._most = picture, up, age_s, most_partitions

    def collect(self) -> Iterator[Metric]:
        families = _Families()
        families.add("coordinator_up", (), float(self._up))
        if self._picture is not None:
            families.add("picture_age_seconds", (), self._age_s)
            families.add("info", (self._picture.system.name, self._version), 1)
            _system(families, self._picture)
            for flow in self._picture.system.flows:
                _flow(families, flow)
            _latencies(families, self._picture)
            _gaps(families, self._picture)
            for topic in self._picture.topics:
                _topic(families, topic)
            shown = self._picture.partitions[: self._most]
            for partition in shown:
                _partition(families, partition)
            families.add("partitions_left_out", (), len(self._picture.partitions) - len(shown))
            for replicator in self._picture.system.replicators:
                _replicator(families, replicator)
        yield from families.all()


def _system(families: _Families, picture: SystemSnapshot) -> None:
    for problem in picture.problems:
        told = (problem.kind, problem.severity, problem.flow, problem.subject, problem.text, problem.remedy)
        families.add("problem", told, 1)
    for level, count in picture.event_counts.items():
        families.add("events", (level,), count)
    families.add("replicators_desired", (), picture.system.desired_replicators)
    families.add("replicator_deaths", (), picture.deaths)
    families.add("price_per_gigabyte", (picture.system.currency,), picture.system.price_per_gb or None)


def _of(flow: str) -> tuple[str, str, str]:
    name = FlowName.parse(flow)
    return flow, name.source, name.target


def _flow(families: _Families, flow: FlowStatus) -> None:
    labels = _of(flow.flow)
    families.add("flow_up", labels, float(flow.state != "unreachable"))
    families.add("flow_state", (*labels, flow.state), 1)
    families.add("flow_topics", labels, flow.topics)
    families.add("flow_partitions", labels, flow.partitions)
    families.add("flow_partitions_copying", labels, flow.copying)
    families.add("flow_lag_records", labels, flow.lag_records)
    families.add("flow_lag_bytes", labels, flow.lag_bytes)
    families.add("flow_lag_seconds", labels, flow.lag_seconds)
    families.add("flow_compression_ratio", labels, flow.compression)
    families.add("flow_limit_bytes_per_second", labels, flow.limit_bytes_per_s)
    families.add("flow_limited_seconds", labels, flow.held.limit_s)
    families.add("flow_throttled_seconds", (*labels, "source"), flow.held.source_s)
    families.add("flow_throttled_seconds", (*labels, "target"), flow.held.target_s)
    families.add("heartbeat_age_seconds", labels, flow.heartbeat_age_s)
    if flow.groups is not None:
        families.add("checkpoint_age_seconds", labels, flow.groups.age_s)
        families.add("groups", labels, flow.groups.groups)
        families.add("group_offsets_untranslated", labels, flow.groups.untranslated)
        families.add("group_offsets_unsynced", labels, flow.groups.unsynced)


def _latencies(families: _Families, picture: SystemSnapshot) -> None:
    metric = CATALOGUE["mirror_ray_replication_latency_seconds"]
    family = HistogramMetricFamily(metric.name, metric.text, labels=metric.labels)
    for flow, latencies in picture.latencies.items():
        family.add_metric(list(_of(flow)), _buckets(latencies), latencies.sum_ms / 1000)
    families.histograms.append(family)


def _buckets(latencies: LatencyHistogram) -> list[tuple[str, float]]:
    total, buckets = 0, []
    for bound, count in zip(_BOUNDS, latencies.counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets


def _gaps(families: _Families, picture: SystemSnapshot) -> None:
    counts = {flow.flow: 0 for flow in picture.system.flows}
    for gap in picture.gaps:
        counts[gap.flow] = counts.get(gap.flow, 0) + 1
    for flow, count in counts.items():
        families.add("gaps", _of(flow), count)


def _topic(families: _Families, topic: TopicStatus) -> None:
    labels = (*_of(topic.flow), topic.topic, topic.remote_topic)
    families.add("topic_records", labels, topic.records)
    families.add("topic_bytes", labels, topic.bytes)
    families.add("topic_compression_ratio", labels, topic.compression)
    families.add("topic_lag_records", labels, topic.lag_records)
    families.add("topic_lag_bytes", labels, topic.lag_bytes)
    families.add("topic_lag_seconds", labels, topic.lag_seconds)


def _partition(families: _Families, partition: PartitionStatus) -> None:
    labels = (*_of(partition.flow), partition.topic, partition.target_topic, str(partition.partition))
    families.add("partition_records", labels, partition.records)
    families.add("partition_bytes", labels, partition.bytes)
    families.add("partition_lag_records", labels, partition.lag_records)
    families.add("partition_lag_bytes", labels, partition.lag_bytes)
    families.add("partition_lag_seconds", labels, partition.lag_seconds)


def _replicator(families: _Families, replicator: ReplicatorStatus) -> None:
    labels = (replicator.id, replicator.node)
    families.add("replicator_up", labels, float(replicator.state in ("running", "draining")))
    families.add("replicator_partitions", labels, replicator.partitions)
    families.add("replicator_cpu_seconds", labels, replicator.cpu_seconds)
    families.add("replicator_memory_bytes", labels, replicator.memory)
    families.add("replicator_buffered_bytes", labels, replicator.buffered_bytes)
    families.add("replicator_records", labels, replicator.records)
    families.add("replicator_bytes", labels, replicator.bytes)
