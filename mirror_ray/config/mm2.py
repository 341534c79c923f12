"""MM2's ``mm2.properties``: its grammar, which flows exist, and which value wins.

Source: ``org.apache.kafka.connect.mirror.{MirrorMakerConfig,MirrorConnectorConfig}`` of Kafka 4.3.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from pydantic import BaseModel

from mirror_ray.config import keys as table
from mirror_ray.config.addresses import MOST_CLUSTERS, illegal_alias, too_many_clusters
from mirror_ray.config.base import comma_separated, section_of
from mirror_ray.config.checks import apply_offset_reset, check_flow, check_loops, secret_notes
from mirror_ray.config.connection import CLUSTER_CONSUMER_KEYS, build_cluster, shared_connection
from mirror_ray.config.fields import (
    POLICY_OPTIONS,
    FieldValues,
    RawValue,
    read_entries,
    referred_texts,
    resolve_references,
    stripped,
)
from mirror_ray.config.gateway import GatewaySettings, check_gateway
from mirror_ray.config.keys import ConfigKey, KeyUse, ValueKind, find_key
from mirror_ray.config.keys.registry import REGISTRY_PREFIX, URL_KEY
from mirror_ray.config.loaded import MOST_LISTED, ConfigNote, LoadedConfig, config_error
from mirror_ray.config.mm2_grammar import place_key
from mirror_ray.config.mm2_lists import take_tokens, take_transforms, unlisted_transforms
from mirror_ray.config.reference import our_default
from mirror_ray.config.registry_checks import check_registry
from mirror_ray.config.registry_connection import take_registry
from mirror_ray.config.schema_checks import missing_registry
from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings, SystemSettings
from mirror_ray.config.transforms import transform_notes, with_routes
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.names import FlowName

#: Sections of the system's settings that the top of the file may set.
_SECTIONS: Final = {
    name: section
    for name, field in SystemSettings.model_fields.items()
    if (section := section_of(field.annotation)) is not None
}
_CLIENT_PREFIXES = ("consumer.", "producer.", "admin.")


def load_mm2(text: str, environ: Mapping[str, str]) -> LoadedConfig:
    """Resolve the text of an ``mm2.properties`` file.

    Raises:
        ConfigError: With one sentence for each mistake in the file, naming its key.
    """
    return load_entries(read_entries(text), environ)


def load_entries(entries: Mapping[str, str], environ: Mapping[str, str]) -> LoadedConfig:
    """The same of keys and values, as they are written.

    Raises:
        ConfigError: With one sentence for each mistake, naming its key.
    """
    problems: list[str] = []
    properties = resolve_references(entries, environ, problems)
    try:
        return _checked(properties, environ, problems)
    except ConfigError as error:
        raise config_error(error.problems, referred_texts(properties)) from None


def _checked(properties: Mapping[str, RawValue], environ: Mapping[str, str], problems: list[str]) -> LoadedConfig:
    aliases = _aliases(properties, problems)
    notes = list(_check_keys(properties, aliases, problems))
    problems.extend(unlisted_transforms(properties))
    if len(problems) > MOST_LISTED:
        raise ConfigError(*problems)
    flows = _flow_settings(properties, aliases, problems)
    clusters = _cluster_settings(properties, aliases, environ, problems, notes)
    sections = {name: _section(name, kind, properties, problems) for name, kind in _SECTIONS.items()}
    problems.extend(check_gateway(sections["gateway"], environ) if sections["gateway"] is not None else ())
    if not problems:
        flows = list(with_routes(flows))
        problems.extend(check_loops(flows))
    if problems:
        raise ConfigError(*problems)
    settings = MirrorSettings(clusters=clusters, flows=tuple(flows), **sections)
    notes += secret_notes(settings.gateway, lambda field: f"gateway.{field}")
    notes += transform_notes(flows)
    return LoadedConfig(settings=settings, notes=(*dict.fromkeys(notes), *_default_notes(properties, aliases)))


def _aliases(properties: Mapping[str, RawValue], problems: list[str]) -> tuple[str, ...]:
    listed = properties.get("clusters")
    found = tuple(dict.fromkeys(comma_separated(listed.text))) if listed else ()
    if not found:
        problems.append("clusters: missing; list the aliases of the clusters, for example clusters = A, B")
    if len(found) > MOST_CLUSTERS:
        raise ConfigError(f"clusters: {too_many_clusters(len(found))}")
    problems.extend(f"clusters: {illegal}" for alias in found if (illegal := illegal_alias(alias)) is not None)
    return found


def _check_keys(
    properties: Mapping[str, RawValue], aliases: Sequence[str], problems: list[str]
) -> Iterator[ConfigNote]:
    """Report keys that are refused or unknown; yield notes on those that are ignored or mean something else."""
    for full in properties:
        if len(problems) > MOST_LISTED:
            problems.append("further keys were not looked at")
            return
        row = place_key(full, aliases)
        if isinstance(row, str):
            problems.append(f"{full}: {row}")
        elif row.use is KeyUse.REFUSED and properties[full].text.strip() not in row.accepted:
            problems.append(f"{full}: {row.text}")
        elif row.use is KeyUse.IGNORED:
            yield ConfigNote(kind="ignored", key=full, text=row.text)
        elif row.use is KeyUse.USED and row.text:
            yield ConfigNote(kind="differs", key=full, text=row.text)
        elif row.kind is ValueKind.INTERVAL and properties[full].text.strip().startswith("-"):
            yield ConfigNote(kind="off", key=full, text="a negative interval turns off what it is for, as in MM2")


def flow_names(properties: Mapping[str, RawValue], aliases: Sequence[str]) -> Iterator[FlowName]:
    """Yield the flows that exist: those that are enabled or have heartbeats, which is all by default."""
    heartbeats = _is_true(properties, "emit.heartbeats.enabled", default=True)
    for source in aliases:
        for target in aliases:
            flow = FlowName(source, target)
            enabled = _is_true(properties, f"{flow}.enabled", default=False)
            emits = _is_true(properties, f"{flow}.emit.heartbeats.enabled", default=heartbeats)
            if source != target and (enabled or emits):
                yield flow


def cluster_config(properties: Mapping[str, RawValue], alias: str) -> dict[str, RawValue]:
    """MM2's ``clusterProps``: a cluster's keys; its clients inherit its connection, and it those at the file's top."""
    config = stripped(properties, f"{alias}.")
    for key, value in properties.items():
        if key.startswith(REGISTRY_PREFIX):
            config.setdefault(key, value)
    for origin in (dict(config), properties):
        for key, value in origin.items():
            if find_key(table.CLUSTER_KEYS, key) is not None:
                config.setdefault(key, value)
                for prefix in _CLIENT_PREFIXES:
                    config.setdefault(f"{prefix}{key}", value)
    return config


def has_registry(properties: Mapping[str, RawValue], alias: str) -> bool:
    """Whether a cluster has a schema registry."""
    url = cluster_config(properties, alias).get(URL_KEY)
    return url is not None and bool(url.text.strip())


def connector_config(properties: Mapping[str, RawValue], flow: FlowName) -> dict[str, RawValue]:
    """The keys that MM2 gives a flow's connectors; later ones win."""
    config = {key: value for key, value in properties.items() if _is_connector_key(key)}
    for role, alias in (("source", flow.source), ("target", flow.target)):
        for key, value in cluster_config(properties, alias).items():
            config[f"{role}.cluster.{key}"] = value
            if key.startswith(_CLIENT_PREFIXES):
                config[f"{role}.{key}"] = value
    config.update(stripped(properties, f"{flow}."))
    return config


def source_consumer_config(connector: Mapping[str, RawValue]) -> dict[str, RawValue]:
    """The consumer's keys. A flow's own ``consumer.*`` loses against the source cluster's, as in MM2."""
    return {**stripped(connector, "consumer."), **stripped(connector, "source.consumer.")}


def data_producer_config(properties: Mapping[str, RawValue], flow: FlowName) -> dict[str, RawValue]:
    """The producer's keys: the target's ``producer.*``, then the flow's ``producer.override.*``."""
    worker = cluster_config(properties, flow.target)
    connector = connector_config(properties, flow)
    return {**stripped(worker, "producer."), **stripped(connector, "producer.override.")}


def _is_connector_key(key: str) -> bool:
    row = find_key(table.FLOW_KEYS, key)
    return row is not None and (row.name == key or row.field in (POLICY_OPTIONS, "transforms.steps"))


def _rows(keys: Sequence[ConfigKey], field_prefix: str) -> tuple[ConfigKey, ...]:
    return tuple(key for key in keys if key.field.startswith(field_prefix))


def _flow_settings(
    properties: Mapping[str, RawValue], aliases: Sequence[str], problems: list[str]
) -> list[FlowSettings]:
    flows = []
    having = [alias for alias in aliases if has_registry(properties, alias)]
    for name in flow_names(properties, aliases):
        connector = connector_config(properties, name)
        fields = FieldValues()
        fields.put("name", name, str(name))
        fields.put("enabled", False, f"{name}.enabled")
        fields.take(table.FLOW_KEYS, connector, problems)
        take_transforms(fields, connector)
        fields.take_policy_options(connector)
        fields.take(_rows(table.CONSUMER_KEYS, "fetch."), source_consumer_config(connector), problems)
        producer = data_producer_config(properties, name)
        if "compression.type" in producer and producer["compression.type"].text.strip().lower() == "none":
            del producer["compression.type"]
        fields.take(_rows(table.PRODUCER_KEYS, "produce."), producer, problems)
        apply_offset_reset(fields.values)
        flow = fields.build(FlowSettings, problems, str(name))
        if flow is not None:
            problems.extend(check_flow(flow, partial(fields.origin, fallback=str(name))))
            if (why := missing_registry(flow, having)) is not None:
                problems.append(f"{fields.origin('schemas.sync_enabled', str(name))}: {why}")
            flows.append(flow)
    return flows


def _section(name: str, kind: type[BaseModel], properties: Mapping[str, RawValue], problems: list[str]) -> Any:
    """One section of the system's settings; None where something is wrong with it."""
    fields, prefix = FieldValues(), f"{name}."
    rows = _rows(table.DRIVER_KEYS, prefix)
    fields.take((replace(row, field=row.field.removeprefix(prefix)) for row in rows), properties, problems)
    if kind is GatewaySettings:
        take_tokens(fields, properties, problems)
    return fields.build(kind, problems, name)


def _is_true(given: Mapping[str, RawValue], key: str, *, default: bool) -> bool:
    return given[key].text.strip().lower() == "true" if key in given else default


def _cluster_settings(
    properties: Mapping[str, RawValue],
    aliases: Sequence[str],
    environ: Mapping[str, str],
    problems: list[str],
    notes: list[ConfigNote],
) -> dict[str, ClusterSettings]:
    flows = list(flow_names(properties, aliases))
    clusters = {}
    for alias in aliases:
        config = cluster_config(properties, alias)
        fields = FieldValues()
        fields.put("alias", alias, "clusters")
        advice = partial("all clients of a cluster share one connection setup, so write {}.{} once".format, alias)
        connection = shared_connection(config, table.CLUSTER_KEYS, _CLIENT_PREFIXES, advice, problems)
        if "bootstrap.servers" not in connection:
            problems.append(f"{alias}.bootstrap.servers: missing; write host:port, more of them separated by commas")
            continue
        connectors = [connector_config(properties, flow) for flow in flows if flow.source == alias]
        enabled = [connector for connector in connectors if _is_true(connector, "enabled", default=False)]
        consumers = [source_consumer_config(connector) for connector in enabled]
        shared = _agreed(consumers or [stripped(config, "consumer.")], alias, problems)
        take_registry(fields, config, alias, problems)
        fallback = f"{alias}.sasl.mechanism"
        cluster = build_cluster(fields, connection, shared, problems, alias=alias, fallback=fallback)
        if cluster is not None:
            problems.extend(check_registry(cluster.registry, partial(fields.origin, fallback=alias), environ))
            notes += secret_notes(cluster, partial(fields.origin, fallback=fallback))
            clusters[alias] = cluster
    return clusters


def _agreed(consumers: Sequence[Mapping[str, RawValue]], alias: str, problems: list[str]) -> dict[str, RawValue]:
    """Consumer keys that hold for a whole cluster here, although MM2 lets flows differ in them."""
    agreed: dict[str, RawValue] = {}
    for key in (row.name for row in CLUSTER_CONSUMER_KEYS):
        texts = {consumer[key].text if key in consumer else None for consumer in consumers}
        given = [consumer[key] for consumer in consumers if key in consumer]
        if len(texts) > 1:
            problems.append(f"{given[0].key}: holds for a whole cluster; write {alias}.consumer.{key} instead")
        elif given:
            agreed[key] = given[0]
    return agreed


def _default_notes(properties: Mapping[str, RawValue], aliases: Sequence[str]) -> Iterator[ConfigNote]:
    used: set[str] = set()
    for full in properties:
        row = place_key(full, aliases)
        if isinstance(row, ConfigKey):
            used.add(row.field)
    for rows in (table.FLOW_KEYS, table.CONSUMER_KEYS, table.PRODUCER_KEYS):
        for key in rows:
            if key.deviates and key.field not in used:
                text = f"not set: {our_default(key)} instead of MM2's {key.default}: {key.deviates}"
                yield ConfigNote(kind="default", key=key.name, text=text)
