"""From the properties of MM2's MirrorClient to the settings of one cluster and a replication policy.

Source: ``org.apache.kafka.connect.mirror.MirrorClientConfig`` of Kafka 4.3.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mirror_ray.config import keys as table
from mirror_ray.config.addresses import illegal_separator
from mirror_ray.config.connection import CLUSTER_CONSUMER_KEYS, build_cluster, shared_connection
from mirror_ray.config.fields import FieldValues, RawValue, referred_texts, resolve_references
from mirror_ray.config.flow_rules import topic_names
from mirror_ray.config.keys import KeyUse, find_key, nearest
from mirror_ray.config.loaded import config_error
from mirror_ray.config.settings import ClusterSettings, NativeFlow
from mirror_ray.model.policy import SOURCE_ALIAS_CONFIG, ReplicationPolicy, load_policy
from mirror_ray.model.topic_names import NamedPolicy

_ALIAS_KEY: Final = "target.cluster.alias"
#: MM2's default for it.
_DEFAULT_ALIAS: Final = "target"

_CLIENT_PREFIXES: Final = ("admin.", "consumer.", "producer.")
_CONNECTION_ROWS: Final = (*table.CLUSTER_KEYS, *CLUSTER_CONSUMER_KEYS)
_NAMES: Final = ("topics.map", "topics.rename")
_POLICY_ROWS: Final = tuple(key for key in table.FLOW_KEYS if key.field.startswith("policy.") or key.field in _NAMES)
#: All keys of an MM2 file are accepted; those that a client does not use are ignored, as by MM2.
_ALL_ROWS: Final = (
    *table.REGISTRY_KEYS,
    *table.DRIVER_KEYS,
    *table.FLOW_KEYS,
    *table.CONSUMER_KEYS,
    *table.PRODUCER_KEYS,
    *table.ADMIN_KEYS,
    *table.WORKER_KEYS,
)


def client_settings(
    properties: Mapping[str, object], environ: Mapping[str, str]
) -> tuple[ClusterSettings, ReplicationPolicy]:
    """Read ``bootstrap.servers``, security keys, ``replication.policy.*`` and ``source.cluster.alias``.

    A connection key may also stand behind ``admin.`` or ``consumer.``. Config providers are resolved. The cluster's
    name in errors is ``target.cluster.alias``.

    Raises:
        ConfigError: With one sentence for each mistake, naming its key.
    """
    problems: list[str] = []
    given = resolve_references({key: _text(value) for key, value in properties.items()}, environ, problems)
    problems.extend(_unknown(given))
    alias = given[_ALIAS_KEY].text.strip() if _ALIAS_KEY in given else _DEFAULT_ALIAS
    prefixes, advice = _CLIENT_PREFIXES[:2], "write {} once, for all clients".format
    connection = shared_connection(given, _CONNECTION_ROWS, prefixes, advice, problems)
    cluster = _cluster(alias, connection, problems)
    policy = _policy(given, problems)
    if problems or cluster is None or policy is None:
        raise config_error(problems, referred_texts(given))
    return cluster, policy


def _text(value: object) -> str:
    """A value as it is written in a file: programs also pass numbers, booleans and lists."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _unknown(given: Mapping[str, RawValue]) -> Iterator[str]:
    for key in given:
        bare = next((key.removeprefix(prefix) for prefix in _CLIENT_PREFIXES if key.startswith(prefix)), key)
        row = find_key(_ALL_ROWS, bare)
        if row is None:
            yield f"{key}: unknown key" + nearest(bare, (row.name for row in (*_CONNECTION_ROWS, *_POLICY_ROWS)))


def _cluster(alias: str, connection: Mapping[str, RawValue], problems: list[str]) -> ClusterSettings | None:
    servers = connection.get("bootstrap.servers")
    if servers is None or not servers.text.strip():
        problems.append("bootstrap.servers: missing; write host:port, more of them separated by commas")
        return None
    for key, value in connection.items():
        row = find_key(_CONNECTION_ROWS, key)
        if row is not None and row.use is KeyUse.REFUSED and value.text.strip() not in row.accepted:
            problems.append(f"{value.key}: {row.text}")
    fields = FieldValues()
    fields.put("alias", alias, _ALIAS_KEY)
    return build_cluster(fields, connection, connection, problems, alias=alias, fallback="sasl.mechanism")


def _policy(given: Mapping[str, RawValue], problems: list[str]) -> ReplicationPolicy | None:
    fields = FieldValues()
    fields.take(_POLICY_ROWS, given, problems)
    fields.take_policy_options(given)
    behaviour = fields.build(NativeFlow, problems, "replication.policy.class")
    source = given[SOURCE_ALIAS_CONFIG].text.strip() if SOURCE_ALIAS_CONFIG in given else None
    if behaviour is None:
        return None
    try:
        policy = load_policy(behaviour.policy, source)
    except ValueError as error:
        key = "separator" if not behaviour.policy.separator else "class"
        problems.append(f"replication.policy.{key}: {error}")
        return None
    if (illegal := illegal_separator(behaviour.policy.separator, source or _DEFAULT_ALIAS)) is not None:
        problems.append(f"replication.policy.separator: {illegal}")
        return None
    return _named(policy, behaviour, source, problems)


def _named(
    policy: ReplicationPolicy, behaviour: NativeFlow, source: str | None, problems: list[str]
) -> ReplicationPolicy | None:
    """The policy with the names that the flow from ``source`` gives to remote topics."""
    topics = behaviour.topics
    if not (topics.map or topics.rename):
        return policy
    if source is None:
        problems.append(f"{SOURCE_ALIAS_CONFIG}: missing; topics.map and topics.rename are those of a flow from there")
        return None
    try:
        return NamedPolicy(policy, topic_names(topics.map, topics.rename), source)
    except ValueError as error:
        problems.append(f"topics.rename: {error}")
        return None
