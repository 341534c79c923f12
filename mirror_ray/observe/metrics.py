"""The catalogue of metrics: every name that a scrape may show, with its labels and what it means.

Prometheus conventions: base units, ``_total`` for counters. ``source`` and ``target`` are cluster aliases, ``flow`` is
``A->B``, ``topic`` the source's name of it, ``remote_topic`` the target's. Metrics that are fields of a status value
are declared there; here are those that take more than one field, or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from mirror_ray.observe.figures import Metric, counter, gauge, metrics_of
from mirror_ray.observe.groups import FlowGroups
from mirror_ray.observe.schemas import FlowSchemas
from mirror_ray.observe.status import FlowStatus, PartitionStatus, ReplicatorStatus, TopicStatus

_FLOW: Final = ("flow", "source", "target")
_TOPIC: Final = (*_FLOW, "topic", "remote_topic")
_PARTITION: Final = (*_TOPIC, "partition")
_REPLICATOR: Final = ("replicator", "node")


def _fields_of(status: type[Any], labels: tuple[str, ...]) -> Iterator[Metric]:
    return (replace(metric, labels=labels) for metric in metrics_of(status).values())


_SYSTEM = (
    gauge("info", "Always 1.", ("system", "version")),
    gauge("coordinator_up", "Whether the coordinator answers the gateway; the other series are its last answer."),
    gauge("picture_age_seconds", "How old that answer is."),
    gauge(
        "problem",
        "1 for each thing that is wrong now, in the words of mirror-ray status.",
        ("kind", "severity", "flow", "subject", "text", "remedy"),
    ),
    counter("events", "Events since the coordinator began.", ("level",)),
    gauge("replicators_desired", "How many replicators are wanted."),
    counter("replicator_deaths", "Replicators that ended by themselves since the coordinator began."),
    gauge("price_per_gigabyte", "cost.price_per_gb of the configuration: of 1,000,000,000 bytes.", ("currency",)),
    gauge("partitions_left_out", "Partitions beyond gateway.metrics_partitions: only their topics have series."),
)
_FLOWS = (
    gauge("flow_up", "1 unless a side of the flow does not answer.", _FLOW),
    gauge("flow_state", "1 for the state that mirror-ray status shows.", (*_FLOW, "state")),
    *_fields_of(FlowStatus, _FLOW),
    Metric(
        "mirror_ray_replication_latency_seconds",
        "histogram",
        _FLOW,
        "From a record's timestamp to the target's acknowledgement; counts records, by the newest of their batch.",
    ),
    counter("flow_limited_seconds", "Reading stood still for limits, in all replicators together.", _FLOW),
    counter("flow_throttled_seconds", "A quota of the brokers of the source or the target did it.", (*_FLOW, "side")),
    *_fields_of(FlowGroups, _FLOW),
    *_fields_of(FlowSchemas, _FLOW),
    gauge("gaps", "Ranges that partitions went on without, or did anew: mirror-ray gaps.", _FLOW),
)
_REPLICATORS = (
    gauge("replicator_up", "1 where it answers the coordinator.", _REPLICATOR),
    *_fields_of(ReplicatorStatus, _REPLICATOR),
)

CATALOGUE: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (
        *_SYSTEM,
        *_FLOWS,
        *_fields_of(TopicStatus, _TOPIC),
        *_fields_of(PartitionStatus, _PARTITION),
        *_REPLICATORS,
    )
}


def every_series() -> frozenset[str]:
    """Every name that a query may use."""
    return frozenset(name for metric in CATALOGUE.values() for name in metric.series)
