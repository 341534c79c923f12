"""Keys of the clients that a flow has: a consumer of the source, a producer of the target, admin clients."""

from __future__ import annotations

from typing import Final

from mirror_ray.config.keys.cluster import CLUSTER_KEYS
from mirror_ray.config.keys.key import ValueKind, ignored, refused, used
from mirror_ray.config.keys.shared import BYTES_ONLY, EXACTLY_ONCE, JMX

_GROUPLESS = "partitions are assigned by the coordinator, not by a consumer group"
_RESET = (
    "where a partition without any progress begins; in the file it also means trouble.policy.source_removed = skip, "
    "unless a trouble.policy is there: copying goes on at the first record that is left"
)
_PIPELINE = "batches are passed on as the source has them, as many at a time as the link takes"

_COMMON_CLIENT_KEYS: Final = (
    *CLUSTER_KEYS,
    *ignored(
        "connections are kept, and opened again with growing pauses",
        "client.dns.lookup connections.max.idle.ms reconnect.backoff.ms reconnect.backoff.max.ms retry.backoff.ms "
        "retry.backoff.max.ms retries default.api.timeout.ms socket.connection.setup.timeout.max.ms "
        "metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms bootstrap.controllers",
    ),
    *ignored(JMX, "metric.reporters metrics.* enable.metrics.push"),
    *ignored("clients are named after the system, the flow and their role", "client.id"),
    *ignored("config.providers belong to the top of the file", "config.providers config.providers.*"),
)

CONSUMER_KEYS: Final = (
    used(
        "isolation.level",
        "fetch.isolation_level",
        ValueKind.WORD,
        "read_uncommitted",
        deviates="aborted records are not records: MM2's default copies them, and consumers see them",
    ),
    used("auto.offset.reset", "fetch.auto_offset_reset", ValueKind.WORD, "earliest", _RESET),
    used("fetch.min.bytes", "fetch.min_bytes", ValueKind.INTEGER, "1"),
    used("fetch.max.wait.ms", "fetch.max_wait_ms", ValueKind.INTEGER, "500"),
    used(
        "fetch.max.bytes",
        "fetch.max_bytes",
        ValueKind.INTEGER,
        "52428800",
        deviates="memory of a replicator is bounded",
    ),
    used(
        "max.partition.fetch.bytes",
        "fetch.max_partition_bytes",
        ValueKind.INTEGER,
        "1048576",
        deviates="one partition alone fills a long link",
    ),
    used(
        "receive.buffer.bytes",
        "fetch.receive_buffer_bytes",
        ValueKind.INTEGER,
        "65536",
        deviates="the kernel sizes it; 64 KiB throttles a long link",
    ),
    used("client.rack", "cluster.client_rack"),
    used("request.timeout.ms", "cluster.request_timeout_ms", ValueKind.INTEGER, "30000"),
    used(
        "metadata.max.age.ms",
        "cluster.metadata_max_age_ms",
        ValueKind.INTEGER,
        "300000",
        deviates="moved leaders and new partitions are seen sooner",
    ),
    used("socket.connection.setup.timeout.ms", "cluster.connection_setup_timeout_ms", ValueKind.INTEGER, "10000"),
    refused("interceptor.classes", "interceptors are Java classes; remove them", ""),
    *ignored(BYTES_ONLY, "key.deserializer value.deserializer"),
    *ignored(
        _GROUPLESS,
        "group.id group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms session.timeout.ms "
        "max.poll.interval.ms partition.assignment.strategy enable.auto.commit auto.commit.interval.ms "
        "share.acknowledgement.mode share.acquire.mode internal.throw.on.fetch.stable.offset.unsupported",
    ),
    *ignored("batches are copied, not records; replicator_buffer_bytes bounds what is held", "max.poll.records"),
    *ignored("checksums are always checked", "check.crcs"),
    *ignored(
        "nothing is created on the source; internal topics are never copied",
        "allow.auto.create.topics exclude.internal.topics",
    ),
    *ignored("nothing is produced to the source", "send.buffer.bytes"),
    *_COMMON_CLIENT_KEYS,
)

PRODUCER_KEYS: Final = (
    used(
        "compression.type",
        "produce.compression_type",
        ValueKind.WORD,
        "none",
        silent="as on the source",
        text="applied to batches that are not compressed on the source; compressed ones pass as they are",
        deviates="batches stay compressed as the source has them; none is taken apart",
    ),
    used(
        "max.request.size",
        "produce.max_request_bytes",
        ValueKind.INTEGER,
        "1048576",
        deviates="many partitions share a request on a long link",
    ),
    used("request.timeout.ms", "produce.request_timeout_ms", ValueKind.INTEGER, "30000"),
    used(
        "send.buffer.bytes",
        "produce.send_buffer_bytes",
        ValueKind.INTEGER,
        "131072",
        deviates="the kernel sizes it; 128 KiB throttles a long link",
    ),
    refused("interceptor.classes", "interceptors are Java classes; remove them", ""),
    *ignored(_PIPELINE, "batch.size linger.ms max.in.flight.requests.per.connection"),
    *ignored("replicator_buffer_bytes bounds what is held", "buffer.memory max.block.ms"),
    *ignored("a batch counts as copied only when all in-sync replicas have it", "acks"),
    *ignored(
        EXACTLY_ONCE, "enable.idempotence transactional.id transaction.timeout.ms transaction.two.phase.commit.enable"
    ),
    *ignored("a batch is sent until it is acknowledged", "delivery.timeout.ms"),
    *ignored("a batch keeps its partition", "partitioner.*"),
    *ignored("batches are compressed at the codec's own level", "compression.*"),
    *ignored(BYTES_ONLY, "key.serializer value.serializer"),
    *ignored("answers to what is produced are small", "receive.buffer.bytes"),
    *ignored("metadata.max.age.ms of the cluster's consumer holds for all of its clients", "metadata.max.age.ms"),
    *ignored(
        "socket.connection.setup.timeout.ms of the cluster's consumer holds for all",
        "socket.connection.setup.timeout.ms",
    ),
    *ignored("topics are known from the coordinator", "metadata.max.idle.ms"),
    *_COMMON_CLIENT_KEYS,
)

ADMIN_KEYS: Final = (
    *ignored(
        "admin requests need no tuning",
        "request.timeout.ms receive.buffer.bytes send.buffer.bytes metadata.max.age.ms "
        "socket.connection.setup.timeout.ms",
    ),
    *_COMMON_CLIENT_KEYS,
)
