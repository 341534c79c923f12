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
from mirror_ray.model.config_policy import ConfigPolicy
from mirror_ray.model.fault import FaultKind, FaultPolicy
from mirror_ray.model.filters import literal_topic
from mirror_ray.model.names import FlowName, TopicPartition


class PolicySettings(Settings):
    """Naming of remote topics. ``class_name`` is MM2's Java class name or a Python ``package.module.Class``."""

    class_name: str = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
    separator: str = "."
    internal_topic_separator_enabled: bool = True
    #: Further ``replication.policy.*`` keys, by their full names, for a class of the user's own.
    options: dict[str, str] = Field(default_factory=dict)


class RenamePattern(Settings):
    """Topics whose whole name ``match`` fits are named ``to`` on the target; ``$1``, ``${1}``, ``${name}``: groups."""

    match: str
    to: str


class TopicSettings(Settings):
    """Which topics a flow copies, and how their remote topics are made (MM2's MirrorSourceConfig)."""

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = (r"mm2.*\.internal", r".*\.replica", "__.*")
    #: Remote topics' names by source topic.
    map: dict[str, str] = Field(default_factory=dict)
    #: For topics that ``map`` does not name; the first that fits. The others are named by the replication policy.
    rename: tuple[RenamePattern, ...] = ()
    refresh_enabled: bool = True
    refresh_interval_s: IntervalSeconds = 4.0
    #: None: the file is silent; then MM2's 2, or the number of brokers where that is smaller.
    replication_factor: ReplicationFactor | None = None
    sync_configs_enabled: bool = True
    sync_configs_interval_s: IntervalSeconds = 600.0
    #: By config; what is not named here is as on the source, as in MM2.
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
    #: Remote topics, as patterns, that others write to as well. Those that two flows of one system write are known.
    shared_remote: tuple[str, ...] = ()
    #: Where a partition without any progress begins (``model.start``); None: as ``fetch.auto_offset_reset`` says.
    start: str | None = None
    #: ``PATTERN=START`` each; the first that fits a topic's name holds.
    start_overrides: tuple[str, ...] = ()
    sync_acls_enabled: bool = True
    sync_acls_interval_s: IntervalSeconds = 600.0
    #: What MM2 leaves out: prefixed ACLs and those on every topic; ACLs on groups; and that what was given is taken
    #: back once the source no longer gives it.
    sync_acls_patterns: bool = False
    sync_acls_groups: bool = False
    sync_acls_revocations: bool = False


class GroupSettings(Settings):
    """Which consumer groups are carried over (MM2's MirrorCheckpointConfig)."""

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = ("console-consumer-.*", "connect-.*", "__.*")
    emit_checkpoints_enabled: bool = True
    emit_checkpoints_interval_s: IntervalSeconds = 2.0
    sync_offsets_enabled: bool = True
    sync_offsets_interval_s: IntervalSeconds = 2.0
    refresh_interval_s: IntervalSeconds = 5.0
    checkpoints_replication_factor: ReplicationFactor | None = None
    #: Whether it is written down what groups commit on the source, and how long ago that can be asked for.
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
    #: None: the file is silent; then MM2's 3, or the number of brokers where that is smaller.
    replication_factor: ReplicationFactor | None = None
    replication_enabled: bool = True


class StatisticsSettings(Settings):
    """What was copied in each interval, told in a topic on the target that `report` reads."""

    emit_enabled: bool = True
    #: Of wall-clock time; an interval also ends at a full minute, or where it is longer than that at a full hour.
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
    #: Where a partition without any progress begins.
    auto_offset_reset: Literal["earliest", "latest"] = "earliest"
    min_bytes: RequestBytes = 1
    max_wait_ms: Patience = 500
    #: One answer, and one partition's part of it; on a long link they grow into the replicator's buffer as it has room.
    max_bytes: RequestBytes = 8 << 20
    max_partition_bytes: RequestBytes = 4 << 20
    receive_buffer_bytes: SocketBytes = -1


class ProduceSettings(Settings):
    """The target side of the data path, in the Java producer's terms."""

    #: ``at_least_once``: without a producer id, for targets that refuse idempotent writes; see docs/guarantees.md.
    delivery_guarantee: Literal["exactly_once", "at_least_once"] = "exactly_once"
    #: Applied to batches that are not compressed on the source; None passes them through as they are.
    compression_type: Literal["gzip", "snappy", "lz4", "zstd"] | None = None
    #: Largest Produce request; a single larger batch goes alone.
    max_request_bytes: RequestBytes = 8 << 20
    request_timeout_ms: Milliseconds = 30_000
    send_buffer_bytes: SocketBytes = -1


class FaultSettings(Settings):
    """What becomes of a partition when source or target are not what the flow left; kinds as in `status`."""

    policy: FaultPolicy = "stop"
    #: One kind's own; None: as ``policy`` says.
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
        """What holds for a kind."""
        own: FaultPolicy | None = getattr(self, kind)
        return own or self.policy


class ProvenanceSettings(Settings):
    """A header on each record that says where it was first written; by it, flows that keep names stop circles."""

    enabled: bool = False
    #: How often a record may have been copied, once this flow has copied it; None: as often as it comes to.
    max_hops: Hops | None = None


class TransformStep(Settings):
    """A transform of a user's, or one of ``mirror_ray.transforms``."""

    #: A Python class, as ``package.module:Class``.
    type: str
    #: What it is built with.
    options: dict[str, OptionValue] = Field(default_factory=dict)
    #: Patterns of the source topics that it is for.
    topics: tuple[str, ...] = (".*",)

    @property
    def arguments(self) -> dict[str, Any]:
        """The options, with what they refer to as it is now.

        Raises:
            ValueError: A reference leads to nothing here.
        """
        try:
            return {name: revealed(value) for name, value in self.options.items()}
        except LookupError as error:
            raise ValueError(f"{self.type}: {error.args[0]}") from error


class TransformSettings(Settings):
    """What a flow makes of records on the way; nothing, by default."""

    #: One after the other.
    steps: tuple[TransformStep, ...] = ()
    #: What becomes of a record that one of them fails on: its partition stops, it is left out, or it is left out and
    #: written to ``dead_letter_topic`` on the target.
    errors: Literal["stop", "skip", "dead_letter"] = "stop"
    #: None: ``mm2-ray-dead-letters.<source>.internal``.
    dead_letter_topic: str | None = None


class NativeFlow(Settings):
    """What a flow does, or under ``defaults`` what every flow does that says nothing else."""

    #: False: no data moves, but heartbeats are emitted where they are on, as in MM2.
    enabled: bool = True
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
    provenance: ProvenanceSettings = ProvenanceSettings()
    transforms: TransformSettings = TransformSettings()


class NamesOfFlow(Settings):
    """``topics.map`` and ``topics.rename`` of a flow, for the others to know its copies by."""

    flow: FlowName
    map: dict[str, str]
    rename: tuple[RenamePattern, ...]


class ProvenanceOfFlow(Settings):
    """A flow whose records say where they are from, and which topics it copies, for the others to know who writes."""

    flow: FlowName
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    max_hops: int | None


class BackfillSettings(Settings):
    """What a backfill copies, and where to; from the flow's state and never from a file."""

    topic: str
    into: str
    #: Partition, first offset, and where it ends.
    ranges: tuple[tuple[int, int, int], ...]

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """Where each partition's copy ends."""
        return {TopicPartition(self.topic, partition): end for partition, _, end in self.ranges}


class RouteSettings(Settings):
    """A remote topic that transforms of a flow send records to; from what these declare, and never from a file."""

    to: str
    #: Patterns of the source topics that they are for.
    topics: tuple[str, ...]

    @property
    def map(self) -> dict[str, str]:
        """The topics that are named one by one, as ``topics.map`` has them."""
        return {name: self.to for pattern in self.topics if (name := literal_topic(pattern)) is not None}

    @property
    def rename(self) -> tuple[RenamePattern, ...]:
        """The others, as ``topics.rename`` has them."""
        return tuple(RenamePattern(match=each, to=self.to) for each in self.topics if literal_topic(each) is None)


class FlowSettings(NativeFlow):
    """One flow ``A->B``."""

    name: FlowName
    backfill: BackfillSettings | None = None
    #: What this is a route of its flow to; None: it is the flow itself, or a backfill.
    route: RouteSettings | None = None
    #: Of every enabled flow that has some, this one too; ``MirrorSettings`` fills it in.
    all_names: tuple[NamesOfFlow, ...] = ()
    #: The same of those with provenance.
    all_provenance: tuple[ProvenanceOfFlow, ...] = ()

    def both_sides_write(self, topic: str, remote_topic: str) -> bool:
        """Whether a topic is written to under its one name on source and target, as the records then tell."""
        return self.provenance.enabled and topic == remote_topic
