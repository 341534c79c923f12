"""Makes the partitions, fetchers, senders and publishers of a flow from its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka import fetch
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_writer import IdempotentTopicWriter, InternalTopicWriter
from mirror_ray.model.assignment import Assignment
from mirror_ray.model.internal_topics import segments_topic, statistics_topic
from mirror_ray.model.latency import LatencyCounter
from mirror_ray.model.policy import load_policy
from mirror_ray.records import kernel
from mirror_ray.replication.broker_connections import FETCH_CONNECTIONS, connections
from mirror_ray.replication.fetcher import Fetcher
from mirror_ray.replication.offset_map_publisher import OffsetMapPublisher
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_events import PartitionEvents
from mirror_ray.replication.partition_transforms import PartitionTransforms
from mirror_ray.replication.pipeline import BufferBudget
from mirror_ray.replication.sample_budget import SampleBudget
from mirror_ray.replication.sender import Lease, Sender
from mirror_ray.replication.statistics import StatisticsTally
from mirror_ray.replication.statistics_publisher import StatisticsPublisher, now_ms
from mirror_ray.replication.throttle import FetchThrottle

#: A lane's answer holds a large batch, at least: the default of ``max.message.bytes``.
_LEAST_BYTES = 1_048_588


def new_partition(
    settings: FlowSettings,
    assignment: Assignment,
    transforms: PartitionTransforms | None,
    *,
    budget: BufferBudget,
    latencies: LatencyCounter,
    samples: SampleBudget,
) -> PartitionReplication:
    """Replicate one partition, with statistics if they are wanted; ``samples`` is the flow's."""
    tally = None
    if settings.statistics.emit_enabled:
        tally = StatisticsTally(
            settings.statistics.interval_ms, now_ms, shared=assignment.shared, may_sample=samples.take
        )
    return PartitionReplication(
        assignment,
        budget,
        buffer_limit_bytes=2 * settings.fetch.max_partition_bytes,
        read_committed=settings.fetch.isolation_level == "read_committed",
        tally=tally,
        latencies=latencies,
        transforms=transforms,
        merge=settings.merge and kernel.is_available(),
    )


def new_fetcher(
    settings: FlowSettings,
    source: ClusterConnections,
    broker_id: int,
    lane: int,
    *,
    budget: BufferBudget,
    throttle: FetchThrottle,
    events: PartitionEvents,
) -> Fetcher:
    """Fetch from one source broker; where it has several lanes, they share what one would ask for."""
    chosen = settings.fetch
    lanes = connections(source.round_trip_s, FETCH_CONNECTIONS)
    max_bytes = max(chosen.max_bytes // lanes, min(chosen.max_bytes, _LEAST_BYTES))
    parameters = fetch.FetchParameters(
        max_wait_ms=chosen.max_wait_ms,
        min_bytes=chosen.min_bytes,
        max_bytes=max_bytes,
        max_partition_bytes=min(chosen.max_partition_bytes, max_bytes),
        read_committed=chosen.isolation_level == "read_committed",
        rack=source.settings.client_rack or "",
    )
    return Fetcher(
        source,
        broker_id,
        parameters,
        budget,
        purpose=f"fetch {lane}",
        first_scale=lanes,
        receive_buffer_bytes=chosen.receive_buffer_bytes,
        throttle=throttle,
        events=events,
    )


def new_sender(
    settings: FlowSettings,
    target: ClusterConnections,
    broker_id: int,
    lane: int,
    *,
    lease: Lease,
    events: PartitionEvents,
) -> Sender:
    """Send to one target broker; each has several lanes."""
    chosen = settings.produce
    return Sender(
        target,
        broker_id,
        purpose=f"produce {lane}",
        max_request_bytes=chosen.max_request_bytes,
        timeout_ms=chosen.request_timeout_ms,
        send_buffer_bytes=chosen.send_buffer_bytes,
        lease=lease,
        events=events,
    )


def new_offset_map_publisher(
    settings: FlowSettings, source: ClusterConnections, target: ClusterConnections, on_event: Callable[[str, str], None]
) -> OffsetMapPublisher:
    """Publish the flow's offset map, and MM2's offset syncs if they are wanted; of a backfill neither."""
    name, syncs = settings.name, settings.offset_syncs
    cluster, alias = (source, name.target) if syncs.location == "source" else (target, name.source)
    topic = load_policy(settings.policy, name.source).offset_syncs_topic(alias)
    return OffsetMapPublisher(
        str(name),
        # Groups are not synced by what a backfill copies.
        None if name.backfill else InternalTopicWriter(target, segments_topic(name.source, name.route)),
        InternalTopicWriter(cluster, topic) if syncs.enabled and not name.backfill else None,
        on_event=on_event,
    )


def new_statistics_publisher(
    settings: FlowSettings,
    target: ClusterConnections,
    replicator: str,
    copies: Callable[[], Iterable[PartitionReplication]],
    on_event: Callable[[str, str], None],
) -> StatisticsPublisher | None:
    """Publish the flow's statistics, if they are wanted."""
    if not settings.statistics.emit_enabled:
        return None
    name = settings.name
    return StatisticsPublisher(
        str(name),
        replicator,
        IdempotentTopicWriter(target, statistics_topic(name.source), cleanup_policy="delete"),
        copies,
        interval_ms=settings.statistics.interval_ms,
        on_event=on_event,
    )
