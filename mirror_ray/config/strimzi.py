"""Strimzi's ``KafkaMirrorMaker2`` resource, of ``kafka.strimzi.io/v1`` and before, as the properties it stands for.

Source: Strimzi's ``api`` (``io.strimzi.api.kafka.model.mirrormaker2``) and ``KafkaMirrorMaker2Connectors``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeGuard

from mirror_ray.config.keys import nearest
from mirror_ray.config.loaded import ConfigNote, LoadedConfig, config_error
from mirror_ray.config.mm2 import load_entries
from mirror_ray.config.strimzi_properties import ResourceProperties
from mirror_ray.config.strimzi_security import put_providers, put_security, secrets_directory
from mirror_ray.model.errors import ConfigError

_GROUP: Final = "kafka.strimzi.io/"
#: Of the resource.
KIND: Final = "KafkaMirrorMaker2"
#: Annotations that stand for keys at the top of the file, which the resource has no place for.
_ANNOTATION: Final = "mirror-ray/"

_PODS: Final = "it is about the pods of Kafka Connect, which there are none of"
_CONNECT: Final = "it is Kafka Connect's, which is not used"
_PLUGIN: Final = "it is about Kafka Connect's plugin and tasks, which there are none of"
_SPEC: Final[Mapping[str, str | None]] = {
    **dict.fromkeys(("target", "mirrors")),
    "connectCluster": "flows run without Kafka Connect, and go to the target that each of them names",
    "replicas": "say --replicators N, or scale N",
    "rack": "the zone of a node is not looked up: write consumer.client.rack in sourceConnector.config",
    **dict.fromkeys(("version", "image", "resources", "template", "logging", "externalConfiguration"), _PODS),
    **dict.fromkeys(("livenessProbe", "readinessProbe", "jvmOptions", "jmxOptions"), _PODS),
    **dict.fromkeys(("metricsConfig", "tracing", "clientRackInitImage"), _PODS),
}
_CLUSTER: Final[Mapping[str, str | None]] = {
    **dict.fromkeys(("alias", "bootstrapServers", "tls", "authentication", "config")),
    **dict.fromkeys(("groupId", "configStorageTopic", "offsetStorageTopic", "statusStorageTopic"), _CONNECT),
}
_PATTERNS: Final = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.exclude",
}
_CONNECTORS: Final = ("sourceConnector", "checkpointConnector", "heartbeatConnector")
_MIRROR: Final[Mapping[str, str | None]] = dict.fromkeys((*_PATTERNS, *_CONNECTORS))
#: Of each layout; what the other one has beside it says nothing.
_IN_V1: Final[Mapping[str, str | None]] = {
    "source": None,
    **dict.fromkeys(
        ("sourceCluster", "targetCluster", "clusters"), "spec.target and each mirror's source are the clusters"
    ),
}
_BEFORE_V1: Final[Mapping[str, str | None]] = dict.fromkeys(("clusters", "sourceCluster", "targetCluster"))
_CONNECTOR: Final[Mapping[str, str | None]] = {
    **dict.fromkeys(("tasksMax", "config", "state", "pause")),
    **dict.fromkeys(("version", "autoRestart", "listOffsets", "alterOffsets"), _PLUGIN),
}


class _Mirror(NamedTuple):
    path: str
    fields: dict[str, Any]
    flow: str


def is_mirror_maker_2(document: object) -> TypeGuard[dict[str, Any]]:
    """Whether a document is such a resource."""
    return isinstance(document, dict) and document.get("kind") == KIND


def load_mirror_maker_2(document: Mapping[str, Any], environ: Mapping[str, str]) -> LoadedConfig:
    """Resolve a resource. What it says of Kafka Connect has no effect, and is noted.

    A Secret is read from a directory of its name, where it is mounted: see `secrets_directory`.

    Raises:
        ConfigError: With one sentence for each mistake, naming its path in the resource.
    """
    found = ResourceProperties(secrets_directory(environ))
    version = document.get("apiVersion")
    if not isinstance(version, str) or not version.startswith(_GROUP):
        found.problems.append(f"apiVersion: write {_GROUP}v1")
    _put_annotations(found, document.get("metadata"))
    spec = found.mapping(document.get("spec"), "spec", required=True)
    _check_fields(found, spec, "spec", {**_SPEC, **_layout(spec, "clusters")})
    _put_clusters(found, spec)
    # MM2 itself emits heartbeats in every direction.
    found.put("emit.heartbeats.enabled", False, "spec.mirrors")
    for mirror in _mirrors(found, spec):
        _put_mirror(found, mirror)
    if found.problems:
        raise config_error(found.problems, ())
    try:
        loaded = load_entries(found.texts, environ)
    except ConfigError as error:
        raise ConfigError(*map(found.sentence, error.problems)) from None
    notes = (replace(note, key=found.paths.get(note.key, note.key)) for note in loaded.notes)
    return replace(loaded, notes=(*found.notes, *notes))


def _put_annotations(found: ResourceProperties, metadata: object) -> None:
    annotations = found.mapping(found.mapping(metadata, "metadata").get("annotations"), "metadata.annotations")
    for name, value in annotations.items():
        if name.startswith(_ANNOTATION):
            found.put(name.removeprefix(_ANNOTATION), value, f"metadata.annotations.{name}")


def _check_fields(
    found: ResourceProperties, fields: Mapping[str, Any], path: str, known: Mapping[str, str | None]
) -> None:
    """Report fields that are unknown, and note those without effect: their reason is beside them."""
    for name in fields:
        if name not in known:
            found.problems.append(f"{path}.{name}: unknown field{nearest(name, known)}")
        elif (reason := known[name]) is not None:
            found.notes.append(ConfigNote(kind="ignored", key=f"{path}.{name}", text=reason))


def _is_v1(spec: Mapping[str, Any]) -> bool:
    return "target" in spec or "clusters" not in spec


def _layout(spec: Mapping[str, Any], *names: str) -> dict[str, str | None]:
    """Which of these fields, that one layout has, are known in a resource's layout."""
    known = _IN_V1 if _is_v1(spec) else _BEFORE_V1
    return {name: known[name] for name in names if name in known}


def _put_clusters(found: ResourceProperties, spec: Mapping[str, Any]) -> None:
    aliases: list[str] = []
    clusters = [
        (path, cluster, put_providers(found, found.mapping(cluster.get("config"), f"{path}.config"), f"{path}.config"))
        for path, cluster in _clusters(found, spec)
    ]
    for path, cluster, config in clusters:
        _check_fields(found, cluster, path, _CLUSTER)
        alias = cluster.get("alias")
        if not isinstance(alias, str) or not alias:
            found.problems.append(f"{path}.alias: missing; it is the name of the cluster")
            continue
        aliases.append(alias)
        found.paths.setdefault(alias, path)
        if cluster.get("bootstrapServers") is None:
            found.problems.append(f"{path}.bootstrapServers: missing; write host:port, more separated by commas")
        found.put(f"{alias}.bootstrap.servers", cluster.get("bootstrapServers"), f"{path}.bootstrapServers")
        put_security(found, alias, cluster, path)
        for key, value in config.items():
            found.put(f"{alias}.{key}", value, f"{path}.config.{key}")
    found.put("clusters", ",".join(dict.fromkeys(aliases)), "spec")


def _clusters(found: ResourceProperties, spec: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield clusters with their paths: of ``v1`` the target and each mirror's source, else those that are listed."""
    if not _is_v1(spec):
        yield from found.items(spec["clusters"], "spec.clusters")
        return
    yield "spec.target", found.mapping(spec.get("target"), "spec.target", required=True)
    for path, mirror in found.items(spec.get("mirrors"), "spec.mirrors"):
        yield f"{path}.source", found.mapping(mirror.get("source"), f"{path}.source", required=True)


def _mirrors(found: ResourceProperties, spec: Mapping[str, Any]) -> Iterator[_Mirror]:
    target = found.mapping(spec.get("target"), "spec.target").get("alias")
    mirrors = found.items(spec.get("mirrors"), "spec.mirrors")
    if not mirrors:
        found.problems.append("spec.mirrors: missing; each of its items is a flow")
    known = {**_MIRROR, **_layout(spec, "source", "sourceCluster", "targetCluster")}
    for path, fields in mirrors:
        _check_fields(found, fields, path, known)
        source = found.mapping(fields.get("source"), f"{path}.source").get("alias")
        ends = (source, target) if _is_v1(spec) else (fields.get("sourceCluster"), fields.get("targetCluster"))
        if all(ends):
            yield _Mirror(path, fields, "->".join(map(str, ends)))
        elif not _is_v1(spec):
            found.problems.append(f"{path}: sourceCluster and targetCluster are the aliases of its two clusters")


def _put_mirror(found: ResourceProperties, mirror: _Mirror) -> None:
    path, flow = mirror.path, mirror.flow
    found.paths.setdefault(flow, path)
    for name, key in _PATTERNS.items():
        found.put(f"{flow}.{key}", mirror.fields.get(name), f"{path}.{name}")
    # A connector that is not there does not run, where MM2's own configuration knows none that is not.
    copies, carries, beats = (_put_connector(found, mirror, name) for name in _CONNECTORS)
    found.put(f"{flow}.enabled", copies, f"{path}.sourceConnector")
    found.put(f"{flow}.emit.heartbeats.enabled", beats, f"{path}.heartbeatConnector")
    if not carries:
        for key in ("emit.checkpoints.enabled", "sync.group.offsets.enabled"):
            found.put(f"{flow}.{key}", False, f"{path}.checkpointConnector")


def _put_connector(found: ResourceProperties, mirror: _Mirror, name: str) -> bool:
    """Put what a connector is told; returns whether it runs."""
    path = f"{mirror.path}.{name}"
    if name not in mirror.fields:
        if name == "checkpointConnector":
            found.notes.append(ConfigNote(kind="off", key=path, text="there is none: groups are not carried over"))
        return False
    connector = found.mapping(mirror.fields[name], path)
    _check_fields(found, connector, path, _CONNECTOR)
    for key, value in found.mapping(connector.get("config"), f"{path}.config").items():
        found.put(f"{mirror.flow}.{key}", value, f"{path}.config.{key}")
    if name == "sourceConnector":
        found.put(f"{mirror.flow}.tasks.max", connector.get("tasksMax"), f"{path}.tasksMax")
    state = connector.get("state") or ("paused" if connector.get("pause") is True else "running")
    if state not in {"running", "paused", "stopped"}:
        found.problems.append(f"{path}.state: write running, paused or stopped")
    if state != "running":
        found.notes.append(ConfigNote(kind="off", key=path, text=f"it is {state}: what it is for is turned off"))
    return bool(state == "running")
