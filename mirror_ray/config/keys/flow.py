"""Keys of a flow: of MM2's three connectors, and ours."""

from __future__ import annotations

from typing import Final

from mirror_ray.config.keys.key import ConfigKey, ValueKind, ignored, refused, used
from mirror_ray.config.keys.schemas import SCHEMA_KEYS
from mirror_ray.config.keys.shared import CONNECT_STORAGE, CONVERTERS, EXACTLY_ONCE, JMX, OURS
from mirror_ray.model.fault import FAULT_KINDS

_START = f"{OURS}; without it auto.offset.reset holds"
_FEWER = "or the number of brokers if smaller"
_MIRROR = "org.apache.kafka.connect.mirror."
_PYTHON_TRANSFORMS = "transforms are Python classes: `transforms.NAME.type = package.module:Class` (docs/transforms.md)"
_CONNECT_ERRORS = "nothing is converted; what becomes of a record that a transform fails on says transform.errors"
_OFFSET_SYNCS_CLIENT = (
    "in MM2 it tunes only the offset-syncs producer; for the data write TARGET.producer.KEY or "
    "SOURCE->TARGET.producer.override.KEY"
)

_OF_A_CLUSTER = "connections belong to a cluster: write {}.KEY, or give the cluster a second alias"


def _internal_factor(name: str, field: str) -> ConfigKey:
    why = "3 can't be created on fewer brokers"
    return used(name, field, ValueKind.INTEGER, "3", silent=f"3, {_FEWER}", deviates=why)


def _group_interval(name: str, field: str) -> ConfigKey:
    return used(
        name, field, ValueKind.INTERVAL, "60", deviates="a group that fails over re-reads seconds, not a minute"
    )


FLOW_KEYS: Final = (
    used("enabled", "enabled", ValueKind.BOOLEAN, "false"),
    used("topics", "topics.include", ValueKind.LIST, ".*"),
    used("topics.exclude", "topics.exclude", ValueKind.LIST, r"mm2.*\.internal, .*\.replica, __.*"),
    used("refresh.topics.enabled", "topics.refresh_enabled", ValueKind.BOOLEAN, "true"),
    used(
        "refresh.topics.interval.seconds",
        "topics.refresh_interval_s",
        ValueKind.INTERVAL,
        "600",
        deviates="a new topic is copied within seconds; looking is cheap",
    ),
    used(
        "replication.factor",
        "topics.replication_factor",
        ValueKind.INTEGER,
        "2",
        silent=f"2, {_FEWER}",
        deviates="MM2's 2 can't be created on a single broker",
    ),
    used("sync.topic.configs.enabled", "topics.sync_configs_enabled", ValueKind.BOOLEAN, "true"),
    used("sync.topic.configs.interval.seconds", "topics.sync_configs_interval_s", ValueKind.INTERVAL, "600"),
    used("sync.topic.configs.policy", "topics.sync_configs_policy", ValueKind.MAP, text=OURS),
    used(
        "config.properties.exclude",
        "topics.config_properties_exclude",
        ValueKind.LIST,
        "follower.replication.throttled.replicas, leader.replication.throttled.replicas, "
        "message.timestamp.difference.max.ms, log.message.timestamp.before.max.ms, "
        "log.message.timestamp.after.max.ms, message.timestamp.type, unclean.leader.election.enable, "
        "min.insync.replicas",
    ),
    used("use.defaults.from", "topics.use_defaults_from", default="target"),
    used("sync.topic.acls.enabled", "topics.sync_acls_enabled", ValueKind.BOOLEAN, "true"),
    used("sync.topic.acls.interval.seconds", "topics.sync_acls_interval_s", ValueKind.INTERVAL, "600"),
    used("sync.topic.acls.patterns.enabled", "topics.sync_acls_patterns", ValueKind.BOOLEAN, "false", text=OURS),
    used("sync.topic.acls.groups.enabled", "topics.sync_acls_groups", ValueKind.BOOLEAN, "false", text=OURS),
    used("sync.topic.acls.revocations.enabled", "topics.sync_acls_revocations", ValueKind.BOOLEAN, "false", text=OURS),
    used("groups", "groups.include", ValueKind.LIST, ".*"),
    used("groups.exclude", "groups.exclude", ValueKind.LIST, "console-consumer-.*, connect-.*, __.*"),
    used("emit.checkpoints.enabled", "groups.emit_checkpoints_enabled", ValueKind.BOOLEAN, "true"),
    _group_interval("emit.checkpoints.interval.seconds", "groups.emit_checkpoints_interval_s"),
    used(
        "sync.group.offsets.enabled",
        "groups.sync_offsets_enabled",
        ValueKind.BOOLEAN,
        "false",
        deviates="groups can fail over without a tool; live groups are never overwritten",
    ),
    _group_interval("sync.group.offsets.interval.seconds", "groups.sync_offsets_interval_s"),
    used(
        "refresh.groups.interval.seconds",
        "groups.refresh_interval_s",
        ValueKind.SECONDS,
        "600",
        deviates="a new group is carried over within seconds",
    ),
    _internal_factor("checkpoints.topic.replication.factor", "groups.checkpoints_replication_factor"),
    used("group.history.enabled", "groups.history_enabled", ValueKind.BOOLEAN, "true", text=OURS),
    used("group.history.retention.seconds", "groups.history_retention_s", ValueKind.SECONDS, "86400", text=OURS),
    used("emit.offset-syncs.enabled", "offset_syncs.enabled", ValueKind.BOOLEAN, "true"),
    used("offset-syncs.topic.location", "offset_syncs.location", ValueKind.WORD, "source"),
    _internal_factor("offset-syncs.topic.replication.factor", "offset_syncs.replication_factor"),
    *ignored("offsets are told every second, and where each run of records begins", "offset.lag.max"),
    used("emit.heartbeats.enabled", "heartbeats.emit_enabled", ValueKind.BOOLEAN, "true"),
    used("emit.heartbeats.interval.seconds", "heartbeats.emit_interval_s", ValueKind.INTERVAL, "1"),
    _internal_factor("heartbeats.topic.replication.factor", "heartbeats.replication_factor"),
    used("heartbeats.replication.enabled", "heartbeats.replication_enabled", ValueKind.BOOLEAN, "true"),
    used("replication.policy.class", "policy.class_name", default=f"{_MIRROR}DefaultReplicationPolicy"),
    used("replication.policy.separator", "policy.separator", default="."),
    used(
        "replication.policy.internal.topic.separator.enabled",
        "policy.internal_topic_separator_enabled",
        ValueKind.BOOLEAN,
        "true",
    ),
    used("replication.policy.*", "policy.options"),
    used("delivery.guarantee", "produce.delivery_guarantee", ValueKind.WORD, "exactly_once", OURS),
    used("merge", "merge", ValueKind.BOOLEAN, "true", text=OURS),
    used("shared.remote.topics", "topics.shared_remote", ValueKind.LIST, text=OURS),
    used("topics.map", "topics.map", ValueKind.NAMES, text=OURS),
    used("topics.rename", "topics.rename", ValueKind.RENAMES, text=OURS),
    used("topics.start", "topics.start", text=_START),
    used("offsets", "offsets.mode", ValueKind.WORD, "translate", OURS),
    used("offsets.topics", "offsets.topics", ValueKind.LIST, ".*", OURS),
    used("offsets.gap.markers", "offsets.gap_markers", ValueKind.INTEGER, "1000", OURS),
    used("offsets.prefix.max", "offsets.prefix_max", ValueKind.INTEGER, "5000000000", OURS),
    used("topics.start.overrides", "topics.start_overrides", ValueKind.LIST, text=OURS),
    used("limits.bytes.per.second", "limits.bytes_per_second", ValueKind.INTEGER, text=OURS, silent="none"),
    used("limits.topics", "limits.topics", ValueKind.LIST, text=OURS),
    used("limits.priorities", "limits.priorities", ValueKind.LIST, text=OURS),
    used("limits.windows", "limits.windows", ValueKind.LIST, text=OURS, silent="none: always"),
    used("limits.rates", "limits.rates", ValueKind.LIST, text=OURS),
    used("limits.time.zone", "limits.time_zone", text=OURS),
    used("provenance.headers.enabled", "provenance.enabled", ValueKind.BOOLEAN, "false", text=OURS),
    used("provenance.max.hops", "provenance.max_hops", ValueKind.INTEGER, text=OURS),
    used("emit.statistics.enabled", "statistics.emit_enabled", ValueKind.BOOLEAN, "true", text=OURS),
    used("emit.statistics.interval.seconds", "statistics.emit_interval_s", ValueKind.INTERVAL, "60", text=OURS),
    used("statistics.retention.seconds", "statistics.retention_s", ValueKind.SECONDS, "2592000", text=OURS),
    used("trouble.policy", "trouble.policy", ValueKind.WORD, "stop", OURS),
    *(used(f"trouble.policy.{kind}", f"trouble.{kind}", ValueKind.WORD, text=OURS) for kind in FAULT_KINDS),
    refused(
        "topic.filter.class",
        "use topics and topics.exclude, or a Python replication policy",
        f"{_MIRROR}DefaultTopicFilter",
    ),
    refused("group.filter.class", "use groups and groups.exclude", f"{_MIRROR}DefaultGroupFilter"),
    refused(
        "config.property.filter.class",
        "use config.properties.exclude and use.defaults.from",
        f"{_MIRROR}DefaultConfigPropertyFilter",
    ),
    refused(
        "forwarding.admin.class",
        "topics are created through Kafka's own API; create them with your tool before the flow starts, or remove it",
        "org.apache.kafka.clients.admin.ForwardingAdmin",
    ),
    used("transforms", "transforms.steps", ValueKind.LIST, text=_PYTHON_TRANSFORMS),
    used("transforms.*", "transforms.steps"),
    used("transform.errors", "transforms.errors", ValueKind.WORD, "stop", OURS),
    used(
        "transform.dead.letter.topic",
        "transforms.dead_letter_topic",
        text=OURS,
        silent="mm2-ray-dead-letters.<source>.internal",
    ),
    *SCHEMA_KEYS,
    refused("predicates", "predicates are Java classes of Connect's transformations; remove them", ""),
    refused("predicates.*", "predicates are Java classes of Connect's transformations; remove them"),
    *CONVERTERS,
    *ignored(
        "work is spread by the coordinator; say --replicators N or scale N instead", "tasks.max tasks.max.enforce"
    ),
    *ignored(
        "groups are looked at continuously; their filter alone decides, so turn off emit.checkpoints.enabled and "
        "sync.group.offsets.enabled instead",
        "refresh.groups.enabled",
    ),
    *ignored("requests have timeouts of their own and are repeated", "admin.timeout.ms consumer.poll.timeout.ms"),
    *ignored(JMX, "metric.reporters metric.names.formats"),
    *ignored(_CONNECT_ERRORS, "errors.*"),
    *ignored(EXACTLY_ONCE, "exactly.once.support transaction.boundary transaction.boundary.interval.ms"),
    *ignored("the flow's name says it", "source.cluster.alias target.cluster.alias name"),
    *ignored(
        "there are no Connect connectors; the flow's actors do their work",
        "connector.class connector.plugin.version config.action.reload task.assigned.partitions task.assigned.groups "
        "task.index header.converter.plugin.version",
    ),
    *ignored(CONNECT_STORAGE, "offsets.storage.topic"),
    *ignored("remote topics are created by MM2's rules, as MM2 itself does", "topic.creation.*"),
    *ignored("the offset-syncs topic needs no clients of its own", "offset-syncs.topic.* offset-syncs-*"),
    *ignored(_OFFSET_SYNCS_CLIENT, "producer.* source.producer.* target.producer.*"),
    *ignored("admin requests need no tuning", "admin.* source.admin.* target.admin.*"),
    *ignored("only data is consumed, and from the source", "target.consumer.*"),
    *ignored("Connect gives them to sink connectors only", "consumer.override.* admin.override.*"),
    refused("source.cluster.*", _OF_A_CLUSTER.format("SOURCE")),
    refused("target.cluster.*", _OF_A_CLUSTER.format("TARGET")),
)
