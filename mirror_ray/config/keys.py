"""Every key that MM2, Connect and the clients of Kafka 4.3.0 know, and what becomes of it here.

One row per key: used (with the field it sets), ignored (with the reason) or refused (with the alternative). The
translation, its error texts and the tables in ``docs/configuration.md`` all come from these rows.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Final

from mirror_ray.model.trouble import TROUBLE_KINDS


class Use(StrEnum):
    """What becomes of a key."""

    USED = "used"
    IGNORED = "ignored"
    REFUSED = "refused"


class Kind(Enum):
    """How the value of a used key is written."""

    TEXT = "text"
    SECRET = "secret"  # noqa: S105 - a kind of value
    LIST = "list"
    #: ``TOPIC:NAME`` and ``PATTERN:REPLACEMENT``, separated by commas.
    NAMES = "list of topic:name"
    RENAMES = "list of pattern:replacement"
    BOOLEAN = "true or false"
    INTEGER = "integer"
    SECONDS = "seconds, above 0"
    #: A negative interval turns a feature off in MM2.
    INTERVAL = "seconds; negative: off"
    MAP = "name:value, separated by commas"


@dataclass(frozen=True, slots=True)
class Key:
    """One key in one scope. A name that ends in ``*`` stands for all keys that begin so."""

    name: str
    use: Use
    #: Why it is ignored, or what to do instead of a refused one; what differs from Kafka for a used one, if anything.
    text: str = ""
    #: The field that a used key sets, as in the native form.
    field: str = ""
    kind: Kind = Kind.TEXT
    #: Kafka's default, as its documentation writes it.
    default: str = ""
    #: Values with which a refused key does no harm.
    accepted: tuple[str, ...] = ()


def _used(name: str, field: str, kind: Kind = Kind.TEXT, default: str = "", text: str = "") -> Key:
    return Key(name, Use.USED, text, field=field, kind=kind, default=default)


def _ignored(text: str, names: str) -> tuple[Key, ...]:
    return tuple(Key(name, Use.IGNORED, text) for name in names.split())


def _refused(name: str, text: str, *accepted: str) -> Key:
    return Key(name, Use.REFUSED, text, accepted=accepted)


_OURS = "ours: MM2 does not know it"
_START = f"{_OURS}; without it auto.offset.reset holds"
_MIRROR = "org.apache.kafka.connect.mirror."
_BYTE_ARRAY_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"
_OAUTH = "org.apache.kafka.common.security.oauthbearer."

_PYTHON_TRANSFORMS = "transforms are Python classes: `transforms.NAME.type = package.module:Class` (docs/transforms.md)"
_JMX = "metrics are not served by Java classes; Prometheus reads them over HTTP"
_CONNECT_STORAGE = "there is no Connect worker: progress is kept in mm2-ray-state.<source>.internal on the target"
_CONNECT_CLUSTER = "there is no Connect cluster: Ray places and restarts the actors"
_CONNECT_REST = "there are no workers that talk to each other over REST"
_CONNECT_ERRORS = "nothing is converted; what becomes of a record that a transform fails on says transform.errors"
_EXACTLY_ONCE = "copies are exactly once without transactions, at no cost; there is nothing to turn on"
_GROUPLESS = "partitions are assigned by the coordinator, not by a consumer group"
_BYTES_ONLY = "records are copied as bytes"
_OFFSET_SYNCS_CLIENT = (
    "in MM2 it tunes only the offset-syncs producer; for the data write TARGET.producer.KEY or "
    "SOURCE->TARGET.producer.override.KEY"
)

_CONVERTERS = tuple(
    _refused(
        f"{which}.converter",
        "records are copied as bytes; remove it, or convert them where they are read",
        _BYTE_ARRAY_CONVERTER,
        *(("org.apache.kafka.connect.storage.SimpleHeaderConverter",) if which == "header" else ()),
    )
    for which in ("key", "value", "header")
) + _ignored(_BYTES_ONLY, "key.converter.* value.converter.* header.converter.*")

DRIVER_KEYS: Final = (
    _used("clusters", "clusters", Kind.LIST),
    _used("config.providers", "", Kind.LIST),
    _used("config.providers.*", ""),
    _used("spark.executors", "spark.executors", Kind.INTEGER, text=_OURS),
    _used("spark.executor.cores", "spark.executor_cores", Kind.INTEGER, text=_OURS),
    _used("spark.executor.memory", "spark.executor_memory", text=_OURS),
    _used("spark.driver.memory", "spark.driver_memory", text=_OURS),
    _used("spark.start.timeout.seconds", "spark.start_timeout_s", Kind.SECONDS, text=_OURS),
    *_ignored(
        _CONNECT_REST,
        "dedicated.mode.enable.internal.rest listeners rest.advertised.host.name rest.advertised.listener "
        "rest.advertised.port response.http.headers.config access.control.allow.methods access.control.allow.origin "
        "ssl.client.auth listeners.https.*",
    ),
    *_ignored(
        "MM2 ignores client keys without an alias; write ALIAS.consumer.KEY, ALIAS.producer.KEY or ALIAS.admin.KEY",
        "consumer.* producer.* admin.*",
    ),
)

FLOW_KEYS: Final = (
    _used("enabled", "enabled", Kind.BOOLEAN, "false"),
    _used("topics", "topics.include", Kind.LIST, ".*"),
    _used("topics.exclude", "topics.exclude", Kind.LIST, r"mm2.*\.internal, .*\.replica, __.*"),
    _used("refresh.topics.enabled", "topics.refresh_enabled", Kind.BOOLEAN, "true"),
    _used("refresh.topics.interval.seconds", "topics.refresh_interval_s", Kind.INTERVAL, "600"),
    _used("replication.factor", "topics.replication_factor", Kind.INTEGER, "2"),
    _used("sync.topic.configs.enabled", "topics.sync_configs_enabled", Kind.BOOLEAN, "true"),
    _used("sync.topic.configs.interval.seconds", "topics.sync_configs_interval_s", Kind.INTERVAL, "600"),
    _used("sync.topic.configs.policy", "topics.sync_configs_policy", Kind.MAP, text=_OURS),
    _used(
        "config.properties.exclude",
        "topics.config_properties_exclude",
        Kind.LIST,
        "follower.replication.throttled.replicas, leader.replication.throttled.replicas, "
        "message.timestamp.difference.max.ms, log.message.timestamp.before.max.ms, "
        "log.message.timestamp.after.max.ms, message.timestamp.type, unclean.leader.election.enable, "
        "min.insync.replicas",
    ),
    _used("use.defaults.from", "topics.use_defaults_from", default="target"),
    _used("sync.topic.acls.enabled", "topics.sync_acls_enabled", Kind.BOOLEAN, "true"),
    _used("sync.topic.acls.interval.seconds", "topics.sync_acls_interval_s", Kind.INTERVAL, "600"),
    _used("sync.topic.acls.patterns.enabled", "topics.sync_acls_patterns", Kind.BOOLEAN, "false", text=_OURS),
    _used("sync.topic.acls.groups.enabled", "topics.sync_acls_groups", Kind.BOOLEAN, "false", text=_OURS),
    _used("sync.topic.acls.revocations.enabled", "topics.sync_acls_revocations", Kind.BOOLEAN, "false", text=_OURS),
    _used("groups", "groups.include", Kind.LIST, ".*"),
    _used("groups.exclude", "groups.exclude", Kind.LIST, "console-consumer-.*, connect-.*, __.*"),
    _used("emit.checkpoints.enabled", "groups.emit_checkpoints_enabled", Kind.BOOLEAN, "true"),
    _used("emit.checkpoints.interval.seconds", "groups.emit_checkpoints_interval_s", Kind.INTERVAL, "60"),
    _used("sync.group.offsets.enabled", "groups.sync_offsets_enabled", Kind.BOOLEAN, "false"),
    _used("sync.group.offsets.interval.seconds", "groups.sync_offsets_interval_s", Kind.INTERVAL, "60"),
    _used("refresh.groups.interval.seconds", "groups.refresh_interval_s", Kind.SECONDS, "600"),
    _used("checkpoints.topic.replication.factor", "groups.checkpoints_replication_factor", Kind.INTEGER, "3"),
    _used("group.history.enabled", "groups.history_enabled", Kind.BOOLEAN, "true", text=_OURS),
    _used("group.history.retention.seconds", "groups.history_retention_s", Kind.SECONDS, "86400", text=_OURS),
    _used("emit.offset-syncs.enabled", "offset_syncs.enabled", Kind.BOOLEAN, "true"),
    _used("offset-syncs.topic.location", "offset_syncs.location", default="source"),
    _used("offset-syncs.topic.replication.factor", "offset_syncs.replication_factor", Kind.INTEGER, "3"),
    *_ignored("offsets are told every second, and where each run of records begins", "offset.lag.max"),
    _used("emit.heartbeats.enabled", "heartbeats.emit_enabled", Kind.BOOLEAN, "true"),
    _used("emit.heartbeats.interval.seconds", "heartbeats.emit_interval_s", Kind.INTERVAL, "1"),
    _used("heartbeats.topic.replication.factor", "heartbeats.replication_factor", Kind.INTEGER, "3"),
    _used("heartbeats.replication.enabled", "heartbeats.replication_enabled", Kind.BOOLEAN, "true"),
    _used("replication.policy.class", "policy.class_name", default=f"{_MIRROR}DefaultReplicationPolicy"),
    _used("replication.policy.separator", "policy.separator", default="."),
    _used(
        "replication.policy.internal.topic.separator.enabled",
        "policy.internal_topic_separator_enabled",
        Kind.BOOLEAN,
        "true",
    ),
    _used("replication.policy.*", "policy.options"),
    _used("delivery.guarantee", "produce.delivery_guarantee", default="exactly_once", text=_OURS),
    _used("shared.remote.topics", "topics.shared_remote", Kind.LIST, text=_OURS),
    _used("topics.map", "topics.map", Kind.NAMES, text=_OURS),
    _used("topics.rename", "topics.rename", Kind.RENAMES, text=_OURS),
    _used("topics.start", "topics.start", text=_START),
    _used("topics.start.overrides", "topics.start_overrides", Kind.LIST, text=_OURS),
    _used("provenance.headers.enabled", "provenance.enabled", Kind.BOOLEAN, "false", text=_OURS),
    _used("provenance.max.hops", "provenance.max_hops", Kind.INTEGER, text=_OURS),
    _used("emit.statistics.enabled", "statistics.emit_enabled", Kind.BOOLEAN, "true", text=_OURS),
    _used("emit.statistics.interval.seconds", "statistics.emit_interval_s", Kind.INTERVAL, "60", text=_OURS),
    _used("statistics.retention.seconds", "statistics.retention_s", Kind.SECONDS, "2592000", text=_OURS),
    _used("trouble.policy", "trouble.policy", default="stop", text=_OURS),
    *(_used(f"trouble.policy.{kind}", f"trouble.{kind}", text=_OURS) for kind in TROUBLE_KINDS),
    _refused(
        "topic.filter.class",
        "use topics and topics.exclude, or a Python replication policy",
        f"{_MIRROR}DefaultTopicFilter",
    ),
    _refused("group.filter.class", "use groups and groups.exclude", f"{_MIRROR}DefaultGroupFilter"),
    _refused(
        "config.property.filter.class",
        "use config.properties.exclude and use.defaults.from",
        f"{_MIRROR}DefaultConfigPropertyFilter",
    ),
    _refused(
        "forwarding.admin.class",
        "topics are created through Kafka's own API; create them with your tool before the flow starts, or remove it",
        "org.apache.kafka.clients.admin.ForwardingAdmin",
    ),
    _used("transforms", "transforms.steps", Kind.LIST, text=_PYTHON_TRANSFORMS),
    _used("transforms.*", "transforms.steps"),
    _used("transform.errors", "transforms.errors", default="stop", text=_OURS),
    _used("transform.dead.letter.topic", "transforms.dead_letter_topic", text=_OURS),
    _refused("predicates", "predicates are Java classes of Connect's transformations; remove them", ""),
    _refused("predicates.*", "predicates are Java classes of Connect's transformations; remove them"),
    *_CONVERTERS,
    *_ignored(
        "work is spread by the coordinator; say --replicators N or scale N instead", "tasks.max tasks.max.enforce"
    ),
    *_ignored(
        "groups are looked at continuously; their filter alone decides, so turn off emit.checkpoints.enabled and "
        "sync.group.offsets.enabled instead",
        "refresh.groups.enabled",
    ),
    *_ignored("requests have timeouts of their own and are repeated", "admin.timeout.ms consumer.poll.timeout.ms"),
    *_ignored(_JMX, "metric.reporters metric.names.formats"),
    *_ignored(_CONNECT_ERRORS, "errors.*"),
    *_ignored(_EXACTLY_ONCE, "exactly.once.support transaction.boundary transaction.boundary.interval.ms"),
    *_ignored("the flow's name says it", "source.cluster.alias target.cluster.alias name"),
    *_ignored(
        "there are no Connect connectors; the flow's actors do their work",
        "connector.class connector.plugin.version config.action.reload task.assigned.partitions task.assigned.groups "
        "task.index header.converter.plugin.version",
    ),
    *_ignored(_CONNECT_STORAGE, "offsets.storage.topic"),
    *_ignored("remote topics are created by MM2's rules, as MM2 itself does", "topic.creation.*"),
    *_ignored("the offset-syncs topic needs no clients of its own", "offset-syncs.topic.* offset-syncs-*"),
    *_ignored(_OFFSET_SYNCS_CLIENT, "producer.* source.producer.* target.producer.*"),
    *_ignored("admin requests need no tuning", "admin.* source.admin.* target.admin.*"),
    *_ignored("only data is consumed, and from the source", "target.consumer.*"),
    *_ignored("Connect gives them to sink connectors only", "consumer.override.* admin.override.*"),
    _refused(
        "source.cluster.*", "connections belong to a cluster: write SOURCE.KEY, or give the cluster a second alias"
    ),
    _refused(
        "target.cluster.*", "connections belong to a cluster: write TARGET.KEY, or give the cluster a second alias"
    ),
)

_TLS = "TLS 1.2 and 1.3 with the cipher suites of this machine's OpenSSL are used"
_JAVA_TLS = "TLS is OpenSSL's, not the Java machine's"
_TOKENS = "tokens are fetched again before they expire and are checked by the broker"
_JAVA_LOGIN = "it names a Java class; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER with client credentials"

SECURITY_KEYS: Final = (
    _used("security.protocol", "security.protocol", default="PLAINTEXT"),
    _used("ssl.truststore.location", "security.ssl.truststore_location"),
    _used("ssl.truststore.type", "security.ssl.truststore_type", default="JKS"),
    _used("ssl.truststore.password", "security.ssl.truststore_password", Kind.SECRET),
    _used("ssl.truststore.certificates", "security.ssl.truststore_certificates"),
    _used("ssl.keystore.location", "security.ssl.keystore_location"),
    _used("ssl.keystore.type", "security.ssl.keystore_type", default="JKS"),
    _used("ssl.keystore.password", "security.ssl.keystore_password", Kind.SECRET),
    _used("ssl.keystore.key", "security.ssl.keystore_key", Kind.SECRET),
    _used("ssl.keystore.certificate.chain", "security.ssl.keystore_certificate_chain"),
    _used("ssl.key.password", "security.ssl.key_password", Kind.SECRET),
    _used("ssl.endpoint.identification.algorithm", "security.ssl.endpoint_identification_algorithm", default="https"),
    _used("sasl.mechanism", "security.sasl.mechanism", default="GSSAPI"),
    _used("sasl.jaas.config", "security.sasl", Kind.SECRET),
    _used("sasl.oauthbearer.token.endpoint.url", "security.sasl.token_endpoint_url"),
    _used("sasl.oauthbearer.client.credentials.client.id", "security.sasl.client_id"),
    _used("sasl.oauthbearer.client.credentials.client.secret", "security.sasl.client_secret", Kind.SECRET),
    _used("sasl.oauthbearer.scope", "security.sasl.scope"),
    _refused("sasl.client.callback.handler.class", _JAVA_LOGIN),
    _refused(
        "sasl.login.callback.handler.class",
        _JAVA_LOGIN,
        f"{_OAUTH}OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}secured.OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
    ),
    _refused("sasl.login.class", _JAVA_LOGIN),
    _refused(
        "sasl.kerberos.*", "Kerberos is not offered; use SCRAM-SHA-512, PLAIN over TLS, OAUTHBEARER or mutual TLS"
    ),
    _refused(
        "sasl.oauthbearer.jwt.retriever.class",
        _JAVA_LOGIN,
        f"{_OAUTH}DefaultJwtRetriever",
        f"{_OAUTH}ClientCredentialsJwtRetriever",
    ),
    _refused(
        "sasl.oauthbearer.assertion.*",
        "tokens by signed assertion are not offered; use the client credentials grant (client id and secret)",
    ),
    _refused("ssl.engine.factory.class", "it names a Java class; use PEM, JKS or PKCS12 stores"),
    _refused("security.providers", "it names Java classes; remove it", ""),
    *_ignored(_TLS, "ssl.protocol ssl.enabled.protocols ssl.cipher.suites"),
    *_ignored(
        _JAVA_TLS, "ssl.provider ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation"
    ),
    *_ignored(_TOKENS, "sasl.login.* sasl.oauthbearer.*"),
)

#: Keys of a cluster that every client of it shares.
CLUSTER_KEYS: Final = (_used("bootstrap.servers", "bootstrap_servers", Kind.LIST), *SECURITY_KEYS)

_COMMON_CLIENT_KEYS: Final = (
    *CLUSTER_KEYS,
    *_ignored(
        "connections are kept, and opened again with growing pauses",
        "client.dns.lookup connections.max.idle.ms reconnect.backoff.ms reconnect.backoff.max.ms retry.backoff.ms "
        "retry.backoff.max.ms retries default.api.timeout.ms socket.connection.setup.timeout.max.ms "
        "metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms bootstrap.controllers",
    ),
    *_ignored(_JMX, "metric.reporters metrics.* enable.metrics.push"),
    *_ignored("clients are named after the system, the flow and their role", "client.id"),
    *_ignored("config.providers belong to the top of the file", "config.providers config.providers.*"),
)

_RESET = (
    "where a partition without any progress begins; in the file it also means trouble.policy.source_removed = skip, "
    "unless a trouble.policy is there: copying goes on at the first record that is left"
)

CONSUMER_KEYS: Final = (
    _used("isolation.level", "fetch.isolation_level", default="read_uncommitted"),
    _used("auto.offset.reset", "fetch.auto_offset_reset", default="earliest", text=_RESET),
    _used("fetch.min.bytes", "fetch.min_bytes", Kind.INTEGER, "1"),
    _used("fetch.max.wait.ms", "fetch.max_wait_ms", Kind.INTEGER, "500"),
    _used("fetch.max.bytes", "fetch.max_bytes", Kind.INTEGER, "52428800"),
    _used("max.partition.fetch.bytes", "fetch.max_partition_bytes", Kind.INTEGER, "1048576"),
    _used("receive.buffer.bytes", "fetch.receive_buffer_bytes", Kind.INTEGER, "65536"),
    _used("client.rack", "cluster.client_rack"),
    _used("request.timeout.ms", "cluster.request_timeout_ms", Kind.INTEGER, "30000"),
    _used("metadata.max.age.ms", "cluster.metadata_max_age_ms", Kind.INTEGER, "300000"),
    _used("socket.connection.setup.timeout.ms", "cluster.connection_setup_timeout_ms", Kind.INTEGER, "10000"),
    _refused("interceptor.classes", "interceptors are Java classes; remove them", ""),
    *_ignored(_BYTES_ONLY, "key.deserializer value.deserializer"),
    *_ignored(
        _GROUPLESS,
        "group.id group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms session.timeout.ms "
        "max.poll.interval.ms partition.assignment.strategy enable.auto.commit auto.commit.interval.ms "
        "share.acknowledgement.mode share.acquire.mode internal.throw.on.fetch.stable.offset.unsupported",
    ),
    *_ignored("batches are copied, not records; replicator_buffer_bytes bounds what is held", "max.poll.records"),
    *_ignored("checksums are always checked", "check.crcs"),
    *_ignored(
        "nothing is created on the source; internal topics are never copied",
        "allow.auto.create.topics exclude.internal.topics",
    ),
    *_ignored("nothing is produced to the source", "send.buffer.bytes"),
    *_COMMON_CLIENT_KEYS,
)

_PIPELINE = "batches are passed on as the source has them, as many at a time as the link takes"

PRODUCER_KEYS: Final = (
    _used(
        "compression.type",
        "produce.compression_type",
        default="none",
        text="applied to batches that are not compressed on the source; compressed ones pass as they are",
    ),
    _used("max.request.size", "produce.max_request_bytes", Kind.INTEGER, "1048576"),
    _used("request.timeout.ms", "produce.request_timeout_ms", Kind.INTEGER, "30000"),
    _used("send.buffer.bytes", "produce.send_buffer_bytes", Kind.INTEGER, "131072"),
    _refused("interceptor.classes", "interceptors are Java classes; remove them", ""),
    *_ignored(_PIPELINE, "batch.size linger.ms max.in.flight.requests.per.connection"),
    *_ignored("replicator_buffer_bytes bounds what is held", "buffer.memory max.block.ms"),
    *_ignored("a batch counts as copied only when all in-sync replicas have it", "acks"),
    *_ignored(
        _EXACTLY_ONCE,
        "enable.idempotence transactional.id transaction.timeout.ms transaction.two.phase.commit.enable",
    ),
    *_ignored("a batch is sent until it is acknowledged", "delivery.timeout.ms"),
    *_ignored("a batch keeps its partition", "partitioner.*"),
    *_ignored("batches are compressed at the codec's own level", "compression.*"),
    *_ignored(_BYTES_ONLY, "key.serializer value.serializer"),
    *_ignored("answers to what is produced are small", "receive.buffer.bytes"),
    *_ignored("metadata.max.age.ms of the cluster's consumer holds for all of its clients", "metadata.max.age.ms"),
    *_ignored(
        "socket.connection.setup.timeout.ms of the cluster's consumer holds for all",
        "socket.connection.setup.timeout.ms",
    ),
    *_ignored("topics are known from the coordinator", "metadata.max.idle.ms"),
    *_COMMON_CLIENT_KEYS,
)

ADMIN_KEYS: Final = (
    *_ignored(
        "admin requests need no tuning",
        "request.timeout.ms receive.buffer.bytes send.buffer.bytes metadata.max.age.ms "
        "socket.connection.setup.timeout.ms",
    ),
    *_COMMON_CLIENT_KEYS,
)

WORKER_KEYS: Final = (
    *_ignored(_EXACTLY_ONCE, "exactly.once.source.support"),
    *_ignored(_CONNECT_STORAGE, "offset.storage.* config.storage.* status.storage.* offset.flush.*"),
    *_ignored(
        _CONNECT_CLUSTER,
        "group.id client.id connect.protocol connector.client.config.override.policy heartbeat.interval.ms "
        "session.timeout.ms rebalance.timeout.ms scheduled.rebalance.max.delay.ms task.* worker.* plugin.discovery "
        "plugin.path topic.creation.enable topic.tracking.*",
    ),
    *_ignored(
        _CONNECT_REST,
        "inter.worker.* admin.listeners admin.listeners.https.* listeners listeners.https.* rest.* "
        "response.http.headers.config access.control.* ssl.client.auth",
    ),
    *_ignored(
        "in MM2 it tunes the Connect worker only; for the data write ALIAS.consumer.KEY or ALIAS.producer.KEY",
        "client.dns.lookup connections.max.idle.ms metadata.* receive.buffer.bytes send.buffer.bytes reconnect.* "
        "request.timeout.ms retry.* socket.connection.* client.rack",
    ),
    *_ignored(_JMX, "metric.reporters metrics.*"),
    *_ignored("config.providers belong to the top of the file", "config.providers config.providers.*"),
    *_CONVERTERS,
)

#: Defaults that differ from MM2's and its clients' on purpose: key -> why ours is better.
DEVIATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "refresh.topics.interval.seconds": "a new topic is copied within seconds; looking is cheap",
        "replication.factor": "MM2's 2 can't be created on a single broker",
        "emit.checkpoints.interval.seconds": "a group that fails over re-reads seconds, not a minute",
        "sync.group.offsets.enabled": "groups can fail over without a tool; live groups are never overwritten",
        "sync.group.offsets.interval.seconds": "a group that fails over re-reads seconds, not a minute",
        "refresh.groups.interval.seconds": "a new group is carried over within seconds",
        "checkpoints.topic.replication.factor": "3 can't be created on fewer brokers",
        "offset-syncs.topic.replication.factor": "3 can't be created on fewer brokers",
        "heartbeats.topic.replication.factor": "3 can't be created on fewer brokers",
        "isolation.level": "aborted records are not records: MM2's default copies them, and consumers see them",
        "fetch.max.bytes": "memory of a replicator is bounded",
        "max.partition.fetch.bytes": "one partition alone fills a long link",
        "receive.buffer.bytes": "the kernel sizes it; 64 KiB throttles a long link",
        "metadata.max.age.ms": "moved leaders and new partitions are seen sooner",
        "compression.type": "batches stay compressed as the source has them; none is taken apart",
        "max.request.size": "many partitions share a request on a long link",
        "send.buffer.bytes": "the kernel sizes it; 128 KiB throttles a long link",
    }
)


def find_key(keys: Iterable[Key], name: str) -> Key | None:
    """The row for a key: that of its own name, or else the longest ``*`` row that it begins with."""
    best: Key | None = None
    for key in keys:
        if key.name == name:
            return key
        if (
            key.name.endswith("*")
            and name.startswith(key.name[:-1])
            and (best is None or len(key.name) > len(best.name))
        ):
            best = key
    return best


def nearest(name: str, known: Iterable[str]) -> str:
    """`` (did you mean X?)`` for the most similar known name, or nothing."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {found[0]}?" if found else ""
