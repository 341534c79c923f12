"""A system of any size, as values."""

from __future__ import annotations

from mirror_ray.model.latency import LatencyCounter
from mirror_ray.model.quota import ThrottledTime
from mirror_ray.observe.events import Event
from mirror_ray.observe.groups import FlowGroups
from mirror_ray.observe.problems import Problem
from mirror_ray.observe.status import PartitionStatus, TopicStatus
from mirror_ray.observe.system_snapshot import SystemSnapshot
from tests.support.factories import (
    flow_schemas,
    flow_status,
    gap_status,
    partition_status,
    replicator_status,
    system_status,
    topic_status,
)

NOW_MS = 1_700_000_000_000
PROBLEM = Problem(
    kind="partition_stopped",
    severity="critical",
    flow="A->B",
    subject="orders-3",
    text='stopped: "quoted" \\ and\nbroken',
    remedy="do something",
)
FLOW = flow_status(
    partitions=3,
    copying=3,
    lag_records=70,
    lag_bytes=7_000,
    lag_seconds=1.5,
    records=600,
    bytes=60_000,
    why="held back by its limits (1,000 bytes/s)",
    limit_bytes_per_s=1_000,
    held=ThrottledTime(3.0, 2.0, 1.0),
    compression=4.0,
    cost_per_hour=0.5,
    schemas=flow_schemas(),
    groups=FlowGroups(groups=4, untranslated=1, unsynced=2, round_s=0.1, problem=None, age_s=1.0),
)
REPLICATOR = replicator_status(partitions=3, cpu_seconds=12.5, records=600, bytes=60_000, buffered_bytes=4_096)


def partition(number: int, topic: str = "orders") -> PartitionStatus:
    """A partition that copies, and lags by its number of records."""
    lag = {"lag_records": number, "lag_bytes": 100 * number, "lag_seconds": number / 10}
    at = {"source_end": 1_000, "position": 1_000 - number, "target_end": 1_000 - number}
    return partition_status(number, topic, **lag, **at)


def topic(name: str = "orders", partitions: int = 3) -> TopicStatus:
    """A topic that copies."""
    figures = {"records": 600, "bytes": 60_000, "compression": 4.0, "cost_per_hour": 0.5}
    lag = {"lag_records": 70, "lag_bytes": 7_000, "lag_seconds": 1.5}
    ids = {"schema_ids_translated": 90, "schema_ids_unframed": 10}
    return topic_status(name, partitions=partitions, copying=partitions, **figures, **lag, **ids)


def picture(topics: int = 1, partitions: int = 3, problems: tuple[Problem, ...] = (PROBLEM,)) -> SystemSnapshot:
    """A system with so many topics of so many partitions."""
    names = ["orders", *(f"topic-{number}" for number in range(1, topics))]
    counter = LatencyCounter(lambda: NOW_MS)
    for latency_ms in (3, 30, 300):
        counter.acknowledged(NOW_MS - latency_ms, 10)
    return SystemSnapshot(
        time_ms=NOW_MS,
        system=system_status(
            FLOW,
            started_ms=NOW_MS - 60_000,
            price_per_gb=0.02,
            currency="EUR",
            replicators=(REPLICATOR,),
            desired_replicators=2,
            problems=problems,
        ),
        topics=tuple(topic(name, partitions) for name in names),
        partitions=tuple(partition(number, name) for name in names for number in range(partitions)),
        gaps=(gap_status(),),
        events=(Event(time_ms=NOW_MS, level="info", subject="A->B", text="flow started", number=1),),
        event_counts={"info": 1},
        latencies={"A->B": counter.so_far()},
        deaths=1,
    )
