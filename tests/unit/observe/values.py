"""A system of any size, as values."""

from __future__ import annotations

from mirror_ray.model.latency import LatencyCounter
from mirror_ray.model.quota import ThrottledTime
from mirror_ray.observe.events import Event, GapStatus
from mirror_ray.observe.groups import FlowGroups
from mirror_ray.observe.problems import Problem
from mirror_ray.observe.status import FlowStatus, PartitionStatus, ReplicatorStatus, SystemStatus, TopicStatus
from mirror_ray.observe.system_snapshot import SystemSnapshot

NOW_MS = 1_700_000_000_000
PROBLEM = Problem(
    kind="partition_stopped",
    severity="critical",
    flow="A->B",
    subject="orders-3",
    text='stopped: "quoted" \\ and\nbroken',
    remedy="do something",
)
FLOW = FlowStatus(
    flow="A->B",
    state="running",
    topics=1,
    partitions=3,
    copying=3,
    lag_records=70,
    lag_bytes=7_000,
    lag_seconds=1.5,
    records_per_s=10.0,
    bytes_per_s=1_000.0,
    records=600,
    bytes=60_000,
    heartbeat_age_s=0.5,
    discovered=True,
    why="held back by its limits (1,000 bytes/s)",
    limit_bytes_per_s=1_000,
    held=ThrottledTime(3.0, 2.0, 1.0),
    compression=4.0,
    cost_per_hour=0.5,
    groups=FlowGroups(groups=4, untranslated=1, unsynced=2, round_s=0.1, problem=None, age_s=1.0),
)
REPLICATOR = ReplicatorStatus(
    id="mirror:replicator:1",
    state="running",
    node="10.0.0.1",
    pid=4711,
    partitions=3,
    records_per_s=10.0,
    bytes_per_s=1_000.0,
    cpu=0.5,
    memory=100_000_000,
    cpu_seconds=12.5,
    records=600,
    bytes=60_000,
    buffered_bytes=4_096,
)
GAP = GapStatus(
    flow="A->B",
    topic="orders",
    partition=1,
    kind="source_removed",
    policy="skip",
    time_ms=NOW_MS,
    source_from=0,
    source_to=5,
    target_from=-1,
    target_to=-1,
    text="removed",
)


def partition(number: int, topic: str = "orders") -> PartitionStatus:
    """A partition that copies."""
    return PartitionStatus(
        flow="A->B",
        topic=topic,
        partition=number,
        target_topic=f"A.{topic}",
        state="copying",
        reason=None,
        replicator=REPLICATOR.id,
        source_end=1_000,
        position=1_000 - number,
        target_end=1_000 - number,
        lag_records=number,
        lag_bytes=100 * number,
        lag_seconds=number / 10,
        held_back_records=0,
        records=200,
        bytes=20_000,
    )


def topic(name: str = "orders", partitions: int = 3) -> TopicStatus:
    """A topic that copies."""
    return TopicStatus(
        flow="A->B",
        topic=name,
        remote_topic=f"A.{name}",
        partitions=partitions,
        copying=partitions,
        state="copying",
        reason=None,
        lag_records=70,
        lag_bytes=7_000,
        lag_seconds=1.5,
        records=600,
        bytes=60_000,
        records_per_s=10.0,
        bytes_per_s=1_000.0,
        compression=4.0,
        cost_per_hour=0.5,
    )


def picture(topics: int = 1, partitions: int = 3, problems: tuple[Problem, ...] = (PROBLEM,)) -> SystemSnapshot:
    """A system with so many topics of so many partitions."""
    names = ["orders", *(f"topic-{number}" for number in range(1, topics))]
    counter = LatencyCounter(lambda: NOW_MS)
    for latency_ms in (3, 30, 300):
        counter.acknowledged(NOW_MS - latency_ms, 10)
    return SystemSnapshot(
        time_ms=NOW_MS,
        system=SystemStatus(
            name="mirror",
            started_ms=NOW_MS - 60_000,
            price_per_gb=0.02,
            currency="EUR",
            flows=(FLOW,),
            replicators=(REPLICATOR,),
            desired_replicators=2,
            coordinator_pid=4710,
            coordinator_node="10.0.0.1",
            problems=problems,
        ),
        topics=tuple(topic(name, partitions) for name in names),
        partitions=tuple(partition(number, name) for name in names for number in range(partitions)),
        gaps=(GAP,),
        events=(Event(time_ms=NOW_MS, level="info", subject="A->B", text="flow started", number=1),),
        event_counts={"info": 1},
        latencies={"A->B": counter.so_far()},
        deaths=1,
    )
