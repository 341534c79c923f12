"""The catalogue of metrics: every name that a scrape may show, with its labels and what it means.

Prometheus conventions: base units, ``_total`` for counters. ``source`` and ``target`` are cluster aliases, ``flow`` is
``A->B``, ``topic`` the source's name of it, ``remote_topic`` the target's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

MetricKind = Literal["gauge", "counter", "histogram"]

_FLOW: Final = ("flow", "source", "target")
_TOPIC: Final = (*_FLOW, "topic", "remote_topic")
_PARTITION: Final = (*_TOPIC, "partition")
_REPLICATOR: Final = ("replicator", "node")


@dataclass(frozen=True, slots=True)
class Metric:
    """One row. A counter's series carries ``_total`` behind the name."""

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    text: str

    @property
    def series(self) -> tuple[str, ...]:
        """The names that queries use."""
        if self.kind == "histogram":
            return tuple(f"{self.name}_{part}" for part in ("bucket", "count", "sum"))
        return (f"{self.name}_total",) if self.kind == "counter" else (self.name,)


def _gauge(name: str, labels: tuple[str, ...], text: str) -> Metric:
    return Metric(f"mirror_ray_{name}", "gauge", labels, text)


def _counter(name: str, labels: tuple[str, ...], text: str) -> Metric:
    return Metric(f"mirror_ray_{name}", "counter", labels, text)


_SYSTEM = (
    _gauge("info", ("system", "version"), "Always 1."),
    _gauge("coordinator_up", (), "Whether the coordinator answers the gateway; the other series are its last answer."),
    _gauge("picture_age_seconds", (), "How old that answer is."),
    _gauge(
        "problem",
        ("kind", "severity", "flow", "subject", "text", "remedy"),
        "1 for each thing that is wrong now, in the words of mirror-ray status.",
    ),
    _counter("events", ("level",), "Events since the coordinator began."),
    _gauge("replicators_desired", (), "How many replicators are wanted."),
    _counter("replicator_deaths", (), "Replicators that ended by themselves since the coordinator began."),
    _gauge("price_per_gigabyte", ("currency",), "cost.price_per_gb of the configuration: of 1,000,000,000 bytes."),
    _gauge("partitions_left_out", (), "Partitions beyond gateway.metrics_partitions: only their topics have series."),
)
_FLOWS = (
    _gauge("flow_up", _FLOW, "1 unless a side of the flow does not answer."),
    _gauge("flow_state", (*_FLOW, "state"), "1 for the state that mirror-ray status shows."),
    _gauge("flow_topics", _FLOW, "Topics of the flow."),
    _gauge("flow_partitions", _FLOW, "Partitions of the flow."),
    _gauge("flow_partitions_copying", _FLOW, "Partitions that copy now."),
    _gauge("flow_lag_records", _FLOW, "The source's last stable offsets less what the target has acknowledged."),
    _gauge("flow_lag_bytes", _FLOW, "The same in bytes, by the mean size of the records copied so far."),
    _gauge("flow_lag_seconds", _FLOW, "Age of the newest copied record, where it is oldest; 0 without lag."),
    Metric(
        "mirror_ray_replication_latency_seconds",
        "histogram",
        _FLOW,
        "From a record's timestamp to the target's acknowledgement; counts records, by the newest of their batch.",
    ),
    _gauge("flow_compression_ratio", _FLOW, "Bytes before compression for each byte on the wire, from samples."),
    _gauge("flow_limit_bytes_per_second", _FLOW, "limits.bytes_per_second of the configuration, as it holds now."),
    _counter("flow_limited_seconds", _FLOW, "Reading stood still for limits, in all replicators together."),
    _counter("flow_throttled_seconds", (*_FLOW, "side"), "A quota of the brokers of the source or the target did it."),
    _gauge("heartbeat_age_seconds", _FLOW, "Since the target acknowledged a heartbeat."),
    _gauge("checkpoint_age_seconds", _FLOW, "Since consumer groups were last carried over."),
    _gauge("groups", _FLOW, "Consumer groups that are carried over."),
    _gauge("group_offsets_untranslated", _FLOW, "Offsets of groups that have no exact place on the target yet."),
    _gauge("group_offsets_unsynced", _FLOW, "Offsets of groups that stand elsewhere on the target."),
    _gauge("gaps", _FLOW, "Ranges that partitions went on without, or did anew: mirror-ray gaps."),
)
_TOPICS = (
    _counter("topic_records", _TOPIC, "Records acknowledged since the coordinator began."),
    _counter("topic_bytes", _TOPIC, "Their bytes on the wire, compressed."),
    _gauge("topic_compression_ratio", _TOPIC, "Bytes before compression for each byte on the wire, from samples."),
    _gauge("topic_lag_records", _TOPIC, "As of the flow."),
    _gauge("topic_lag_bytes", _TOPIC, "As of the flow."),
    _gauge("topic_lag_seconds", _TOPIC, "As of the flow."),
)
_PARTITIONS = (
    _counter("partition_records", _PARTITION, "Records acknowledged since the coordinator began."),
    _counter("partition_bytes", _PARTITION, "Their bytes on the wire, compressed."),
    _gauge("partition_lag_records", _PARTITION, "As of the flow."),
    _gauge("partition_lag_bytes", _PARTITION, "As of the flow."),
    _gauge("partition_lag_seconds", _PARTITION, "As of the flow."),
)
_REPLICATORS = (
    _gauge("replicator_up", _REPLICATOR, "1 where it answers the coordinator."),
    _gauge("replicator_partitions", _REPLICATOR, "Partitions that it has."),
    _counter("replicator_cpu_seconds", _REPLICATOR, "Processor time of its process."),
    _gauge("replicator_memory_bytes", _REPLICATOR, "Resident memory."),
    _gauge("replicator_buffered_bytes", _REPLICATOR, "Fetched and not acknowledged yet."),
    _counter("replicator_records", _REPLICATOR, "Records acknowledged since its process began."),
    _counter("replicator_bytes", _REPLICATOR, "Their bytes on the wire, compressed."),
)

CATALOGUE: Final[dict[str, Metric]] = {
    each.name: each for each in (*_SYSTEM, *_FLOWS, *_TOPICS, *_PARTITIONS, *_REPLICATORS)
}


def every_series() -> frozenset[str]:
    """Every name that a query may use."""
    return frozenset(name for metric in CATALOGUE.values() for name in metric.series)
