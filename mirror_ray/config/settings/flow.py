"""Settings of a flow."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from mirror_ray.config.base import Settings
from mirror_ray.config.limits import LimitSettings
from mirror_ray.config.numbers import (
    Hops,
    IntervalSeconds,
    Milliseconds,
    Patience,
    ReplicationFactor,
    RequestBytes,
    RetentionSeconds,
    SocketBytes,
)
from mirror_ray.config.options import OptionValue, revealed
from mirror_ray.config.settings.offsets import OffsetSettings
from mirror_ray.config.settings.schemas import SchemaSettings
from mirror_ray.model.config_policy import ConfigPolicy
from mirror_ray.model.fault import FaultKind, FaultPolicy
from mirror_ray.model.filters import literal_topic
from mirror_ray.model.names import FlowName, TopicPartition


class PolicySettings(Settings):
    """The replication policy. ``class_name`` is MM2's Java class or a Python ``package.module.Class``."""

    class_name: str = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
    separator: str = "."
    internal_topic_separator_enabled: bool = True
    #: Further ``replication.policy.*`` keys, by their full names, for a class of the user's own.
    options: dict[str, str] = Field(default_factory=dict)


class RenamePattern(Settings):
    """Topics whose whole name matches ``match`` are named ``to``; ``$1``, ``${1}`` and ``${name}`` in it are groups."""

    match: str
    to: str


class TopicSettings(Settings):
    """Which topics a flow copies, and how their remote topics are made (MM2's MirrorSourceConfig)."""

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = (r"mm2.*\.internal", r".*\.replica", "__.*")
    #: Remote topics' names by source topic.
    map: dict[str, str] = Field(default_factory=dict)
    #: For topics that ``map`` does not name; the first match counts. The replication policy names the others.
    rename: tuple[RenamePattern, ...] = ()
    refresh_enabled: bool = True
    refresh_interval_s: IntervalSeconds = 4.0
    #: None: not set; then MM2's 2, or the number of brokers where that is smaller.
    replication_factor: ReplicationFactor | None = None
    sync_configs_enabled: bool = True
    sync_configs_interval_s: IntervalSeconds = 600.0
    #: By config; configs that are not named here are as on the source, as in MM2.
    sync_configs_policy: dict[str, ConfigPolicy] = Field(default_factory=dict)
    config_properties_exclude: tuple[str, ...] = (
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.after.max.ms",
        "message.timestamp.type",
        "unclean.leader.election.enable",
        "min.insync.replicas",
    )
    use_defaults_from: Literal["source", "target"] = "target"
    #: Patterns of remote topics that others write to as well. Those that two flows of one system write are known.
    shared_remote: tuple[str, ...] = ()
    #: Where a partition without progress begins (``model.start``); None: by ``fetch.auto_offset_reset``.
    start: str | None = None
    #: Items are ``PATTERN=START``; the first that matches a topic's name counts.
    start_overrides: tuple[str, ...] = ()
    sync_acls_enabled: bool = True
    sync_acls_interval_s: IntervalSeconds = 600.0
    #: Beyond MM2: prefixed ACLs and those on every topic; ACLs on groups; and the removal of ACLs that were synced once
    #: the source has them no longer.
    sync_acls_patterns: bool = False
    sync_acls_groups: bool = False
    sync_acls_revocations: bool = False


class GroupSettings(Settings):
    """Which consumer groups are synced (MM2's MirrorCheckpointConfig)."""

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = ("console-consumer-.*", "connect-.*", "__.*")
    emit_checkpoints_enabled: bool = True
    emit_checkpoints_interval_s: IntervalSeconds = 2.0
    sync_offsets_enabled: bool = True
    sync_offsets_interval_s: IntervalSeconds = 2.0
    refresh_interval_s: IntervalSeconds = 5.0
    checkpoints_replication_factor: ReplicationFactor | None = None
    #: The commit history of groups on the source, and how far back it reaches.
    history_enabled: bool = True
    history_retention_s: RetentionSeconds = 86_400.0


class OffsetSyncSettings(Settings):
    """MM2's offset-syncs topic."""

    enabled: bool = True
    location: Literal["source", "target"] = "source"
    replication_factor: ReplicationFactor | None = None


class HeartbeatSettings(Settings):
    """MM2's heartbeats (MirrorHeartbeatConfig)."""

    emit_enabled: bool = True
    emit_interval_s: IntervalSeconds = 1.0
    #: None: not set; then MM2's 3, or the number of brokers where that is smaller.
    replication_factor: ReplicationFactor | None = None
    replication_enabled: bool = True


class StatisticsSettings(Settings):
    """What was copied in each interval, written to a topic on the target that `report` reads."""

    emit_enabled: bool = True
    #: In wall-clock time; an interval also ends at a full minute, or at a full hour if it is longer than a minute.
    emit_interval_s: IntervalSeconds = 60.0
    #: ``retention.ms`` of the topic when it is created.
    retention_s: RetentionSeconds = 30 * 86_400.0

    @property
    def interval_ms(self) -> int:
        """The interval, at most an hour."""
        return min(round(self.emit_interval_s * 1000), 3_600_000)


class FetchSettings(Settings):
    """The source side of the data path, in the Java consumer's terms."""

    isolation_level: Literal["read_committed", "read_uncommitted"] = "read_committed"
    #: Where a partition without progress begins.
    auto_offset_reset: Literal["earliest", "latest"] = "earliest"
    min_bytes: RequestBytes = 1
    max_wait_ms: Patience = 500
    #: Bytes of one response, and of one partition in it; on a long link they grow as the replicator's buffer has room.
    max_bytes: RequestBytes = 8 << 20
    max_partition_bytes: RequestBytes = 4 << 20
    receive_buffer_bytes: SocketBytes = -1


class ProduceSettings(Settings):
    """The target side of the data path, in the Java producer's terms."""

    #: ``at_least_once``: without a producer id, for targets that refuse idempotent writes; see docs/guarantees.md.
    delivery_guarantee: Literal["exactly_once", "at_least_once"] = "exactly_once"
    #: Applied to batches that are not compressed on the source; None: they are passed on unchanged.
    compression_type: Literal["gzip", "snappy", "lz4", "zstd"] | None = None
    #: Largest Produce request; a single larger batch goes alone.
    max_request_bytes: RequestBytes = 8 << 20
    request_timeout_ms: Milliseconds = 30_000
    send_buffer_bytes: SocketBytes = -1


class FaultSettings(Settings):
    """Fault policies: what to do when source or target are not as the flow left them; kinds as in `status`."""

    policy: FaultPolicy = "stop"
    #: The policy of one kind; None: ``policy``.
    source_removed: FaultPolicy | None = None
    source_truncated: FaultPolicy | None = None
    source_recreated: FaultPolicy | None = None
    target_missing: FaultPolicy | None = None
    target_recreated: FaultPolicy | None = None
    target_truncated: FaultPolicy | None = None
    target_foreign: FaultPolicy | None = None
    copy_lost: FaultPolicy | None = None
    record_refused: FaultPolicy | None = None
    transform_failed: FaultPolicy | None = None

    def policy_for(self, kind: FaultKind) -> FaultPolicy:
        """The policy for a kind of fault."""
        own: FaultPolicy | None = getattr(self, kind)
        return own or self.policy


class ProvenanceSettings(Settings):
    """A header on every record: the cluster where it was first written. It stops circles of flows that keep names."""

    enabled: bool = False
    #: How often a record may have been copied, including by this flow; None: no bound.
    max_hops: Hops | None = None


class TransformStep(Settings):
    """A user's transform, or one of ``mirror_ray.transforms``."""

    #: A Python class, as ``package.module:Class``.
    type: str
    #: Keyword arguments of the class.
    options: dict[str, OptionValue] = Field(default_factory=dict)
    #: Patterns of the source topics that it applies to.
    topics: tuple[str, ...] = (".*",)

    @property
    def arguments(self) -> dict[str, Any]:
        """The options, with references resolved.

        Raises:
            ValueError: A reference leads to nothing here.
        """
        try:
            return {name: revealed(value) for name, value in self.options.items()}
        except LookupError as error:
            raise ValueError(f"{self.type}: {error.args[0]}") from error


class TransformSettings(Settings):
    """What changes a flow's records on the way; nothing, by default."""

    #: Applied one after the other.
    steps: tuple[TransformStep, ...] = ()
    #: What happens to a record that a transform fails on: its partition stops, the record is skipped, or it is skipped
    #: and written to ``dead_letter_topic`` on the target.
    errors: Literal["stop", "skip", "dead_letter"] = "stop"
    #: None: ``mm2-ray-dead-letters.<source>.internal``.
    dead_letter_topic: str | None = None


class NativeFlow(Settings):
    """What a flow does, or under ``defaults`` what every flow does that says nothing else."""

    #: False: no data moves, but heartbeats are emitted where they are on, as in MM2.
    enabled: bool = True
    #: Small batches of a partition that wait together become one; never a delay for it. It needs the record kernel.
    merge: bool = True
    policy: PolicySettings = PolicySettings()
    topics: TopicSettings = TopicSettings()
    groups: GroupSettings = GroupSettings()
    offset_syncs: OffsetSyncSettings = OffsetSyncSettings()
    heartbeats: HeartbeatSettings = HeartbeatSettings()
    limits: LimitSettings = LimitSettings()
    statistics: StatisticsSettings = StatisticsSettings()
    fetch: FetchSettings = FetchSettings()
    produce: ProduceSettings = ProduceSettings()
    trouble: FaultSettings = FaultSettings()
    offsets: OffsetSettings = OffsetSettings()
    provenance: ProvenanceSettings = ProvenanceSettings()
    transforms: TransformSettings = TransformSettings()
    schemas: SchemaSettings = SchemaSettings()


class NamesOfFlow(Settings):
    """``topics.map`` and ``topics.rename`` of a flow, by which other flows recognise its copies."""

    flow: FlowName
    map: dict[str, str]
    rename: tuple[RenamePattern, ...]


class ProvenanceOfFlow(Settings):
    """A flow with provenance headers and its topic filter, by which other flows know who writes a topic."""

    flow: FlowName
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    max_hops: int | None


class BackfillSettings(Settings):
    """What a backfill copies, and into which topic; from the flow's state, never from a file."""

    topic: str
    into: str
    #: Partition, first source offset, and end.
    ranges: tuple[tuple[int, int, int], ...]

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The end of every partition's range."""
        return {TopicPartition(self.topic, partition): end for partition, _, end in self.ranges}


class RouteSettings(Settings):
    """A route: a remote topic that transforms of a flow send records to. They declare it; it is never in a file."""

    to: str
    #: Patterns of the source topics that these transforms apply to.
    topics: tuple[str, ...]

    @property
    def map(self) -> dict[str, str]:
        """The topics that are named one by one, as ``topics.map``."""
        return {name: self.to for pattern in self.topics if (name := literal_topic(pattern)) is not None}

    @property
    def rename(self) -> tuple[RenamePattern, ...]:
        """The topics that are named by patterns, as ``topics.rename``."""
        return tuple(
            RenamePattern(match=pattern, to=self.to) for pattern in self.topics if literal_topic(pattern) is None
        )


class FlowSettings(NativeFlow):
    """One flow ``A->B``."""

    name: FlowName
    backfill: BackfillSettings | None = None
    #: Of a route; None: it is the flow itself, or a backfill.
    route: RouteSettings | None = None
    #: Those of all enabled flows that give names, this one included; ``MirrorSettings`` fills it in.
    all_names: tuple[NamesOfFlow, ...] = ()
    #: The enabled flows with provenance headers, this one included.
    all_provenance: tuple[ProvenanceOfFlow, ...] = ()
    #: Whether both clusters have a schema registry; ``MirrorSettings`` fills it in.
    both_registries: bool = False

    @property
    def syncs_schemas(self) -> bool:
        """Whether schemas are mirrored; in a route or a backfill, whether they are for its flow."""
        wanted = self.schemas.sync_enabled
        return self.both_registries if wanted is None else wanted

    @property
    def preserves_offsets(self) -> bool:
        """Whether topics may have the same offsets on the target: of the flow itself, not of what is beside it."""
        return self.offsets.mode == "preserve" and self.name.is_live

    def both_sides_write(self, topic: str, remote_topic: str) -> bool:
        """Whether producers on both clusters write the topic under one name; provenance headers tell records apart."""
        return self.provenance.enabled and topic == remote_topic
