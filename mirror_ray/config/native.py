"""The native form, read and written: YAML, checked by these models; ``schema.json`` is made from them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import WithDefaultSchema

from mirror_ray.config.addresses import MOST_CLUSTERS, illegal_alias, too_many_clusters
from mirror_ray.config.base import UnknownFieldError, field_path
from mirror_ray.config.checks import apply_offset_reset, check_flow, check_loops, check_security, secret_notes
from mirror_ray.config.document import path_text, read_document
from mirror_ray.config.fields import message
from mirror_ray.config.gateway import check_gateway
from mirror_ray.config.keys import nearest
from mirror_ray.config.loaded import MOST_LISTED, ConfigNote, LoadedConfig, config_error
from mirror_ray.config.providers import STANDARD_PROVIDERS, ConfigProvider, build_providers, resolve
from mirror_ray.config.registry_checks import check_registry
from mirror_ray.config.schema_checks import missing_registry
from mirror_ray.config.secrets import Secret, SecretReference
from mirror_ray.config.settings import (
    ClusterSettings,
    FlowSettings,
    MirrorSettings,
    NativeCluster,
    NativeFlow,
    SystemSettings,
)
from mirror_ray.config.transforms import transform_notes, with_routes
from mirror_ray.model.names import FlowName


class NativeConfig(SystemSettings):
    """A configuration in the native form."""

    version: Literal[1]
    clusters: dict[str, NativeCluster]
    defaults: NativeFlow = NativeFlow()
    #: Flows by name, ``A->B``. Only these exist.
    flows: dict[str, NativeFlow]


class _NativeSchema(GenerateJsonSchema):
    """Without what repeats: titles that are fields' names, and defaults of sections, which their fields have."""

    def field_title_should_be_set(self, _schema: object) -> bool:
        return False

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        is_section = isinstance(schema.get("default"), BaseModel)
        return self.generate_inner(schema["schema"]) if is_section else super().default_schema(schema)


def json_schema() -> dict[str, Any]:
    """The JSON schema of the native form."""
    schema = NativeConfig.model_json_schema(schema_generator=_NativeSchema)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "mirror-ray configuration"
    return schema


def load_native(text: str, environ: Mapping[str, str]) -> LoadedConfig:
    """Resolve the text of a YAML file in the native form.

    Raises:
        ConfigError: With one sentence for each mistake, naming its path.
    """
    problems: list[str] = []
    resolved = _resolve(read_document(text), build_providers(STANDARD_PROVIDERS, environ), (), problems)
    config: NativeConfig | None = None
    try:
        config = NativeConfig.model_validate(resolved)
    except ValidationError as invalid:
        # A reference that could not be resolved is reported once, by its own sentence.
        reported = {problem.partition(":")[0] for problem in problems}
        problems += [
            # The hints of sentences take time; those that are only counted have none.
            _sentence(mistake["type"], mistake["loc"], mistake["msg"]) if number < MOST_LISTED else str(mistake["loc"])
            for number, mistake in enumerate(invalid.errors(include_input=False, include_url=False))
            if path_text(mistake["loc"]) not in reported
        ]
    if config is not None:
        settings = _settings(config, environ, problems)
        if settings is not None and not problems:
            return LoadedConfig(settings=settings, notes=(*_secret_notes(settings), *transform_notes(settings.flows)))
    raise config_error(problems, _referred_texts(resolved))


def _referred_texts(node: object) -> Iterator[str]:
    """Yield the values that the references of the document lead to."""
    if isinstance(node, SecretReference):
        yield str(node)
    elif isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from _referred_texts(child)


def _secret_notes(settings: MirrorSettings) -> Iterator[ConfigNote]:
    for alias, cluster in settings.clusters.items():
        yield from secret_notes(cluster, partial(_prefixed, f"clusters.{alias}"))
    yield from secret_notes(settings.gateway, partial(_prefixed, "gateway"))


def _settings(config: NativeConfig, environ: Mapping[str, str], problems: list[str]) -> MirrorSettings | None:
    if len(config.clusters) > MOST_CLUSTERS:
        problems.append(f"clusters: {too_many_clusters(len(config.clusters))}")
        return None
    clusters = {}
    for alias, cluster in config.clusters.items():
        clusters[alias] = ClusterSettings(alias=alias, **dict(cluster))
        problems.extend(check_security(cluster.security, partial(_prefixed, f"clusters.{alias}")))
        if not cluster.bootstrap_servers:
            problems.append(f"clusters.{alias}.bootstrap_servers: empty; write host:port")
        problems.extend(check_registry(cluster.registry, partial(_prefixed, f"clusters.{alias}"), environ))
        if (illegal := illegal_alias(alias)) is not None:
            problems.append(f"clusters: {illegal}")
    problems.extend(check_gateway(config.gateway, environ))
    flows = list(_flows(config, problems))
    if problems:
        return None
    flows = list(with_routes(flows))
    problems.extend(f"flows: {sentence}" for sentence in check_loops(flows))
    return MirrorSettings(
        clusters=clusters, flows=tuple(flows), **{name: getattr(config, name) for name in SystemSettings.model_fields}
    )


def _flows(config: NativeConfig, problems: list[str]) -> Iterator[FlowSettings]:
    defaults = config.defaults.model_dump(exclude_unset=True)
    having = [alias for alias, cluster in config.clusters.items() if cluster.registry is not None]
    for text, native in config.flows.items():
        try:
            name = FlowName.parse(text)
        except ValueError as error:
            problems.append(f"flows.{text}: {error}")
            continue
        if name.source == name.target:
            problems.append(f"flows.{text}: a flow from {name.source} to itself")
        known = ", ".join(config.clusters)
        for alias in (name.source, name.target):
            if alias not in config.clusters:
                hint = nearest(alias, config.clusters)
                problems.append(f"flows.{text}: {alias!r} is not one of the clusters ({known}){hint}")
        merged = _merge(defaults, native.model_dump(exclude_unset=True))
        apply_offset_reset(merged)
        flow = FlowSettings.model_validate({"enabled": True, **merged, "name": name})
        problems.extend(check_flow(flow, partial(_prefixed, f"flows.{text}")))
        if (why := missing_registry(flow, having)) is not None:
            problems.append(f"flows.{text}.schemas.sync_enabled: {why}")
        yield flow


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge sections; lists and values of ``over`` replace those of ``base``."""
    merged = dict(base)
    for key, value in over.items():
        mine = merged.get(key)
        merged[key] = _merge(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return merged


def _prefixed(prefix: str, path: str) -> str:
    return f"{prefix}.{path}"


def _sentence(kind: str, location: tuple[int | str, ...], text: str) -> str:
    if kind == "extra_forbidden":
        return f"{path_text(location)}: unknown key{nearest(str(location[-1]), _names_beside(location))}"
    if kind == "missing":
        return f"{path_text(location)}: missing"
    return f"{path_text(location)}: {message(text)}"


def _names_beside(location: tuple[int | str, ...]) -> tuple[str, ...]:
    """The keys that are known where an unknown one was found."""
    try:
        field_path(NativeConfig, location, into_values=True)
    except UnknownFieldError as error:
        return error.known
    return ()


def _resolve(
    node: object, providers: Mapping[str, ConfigProvider], location: tuple[int | str, ...], problems: list[str]
) -> object:
    """Replace the references in all texts of the document."""
    if isinstance(node, dict):
        return {key: _resolve(value, providers, (*location, str(key)), problems) for key, value in node.items()}
    if isinstance(node, list):
        return [_resolve(value, providers, (*location, n), problems) for n, value in enumerate(node)]
    if not isinstance(node, str) or "${" not in node:
        return node
    try:
        found, secret = resolve(node, providers), Secret(node, STANDARD_PROVIDERS)
    except LookupError as error:
        problems.append(f"{path_text(location)}: {error.args[0]}")
        return node
    return node if secret.is_literal else SecretReference.to(secret, found)


def native_form(settings: MirrorSettings) -> dict[str, Any]:
    """Settings as a document that ``load_native`` reads to the same settings again, but for secrets.

    It holds what differs from the defaults; each secret is a reference to a variable of its own. Routes and everything
    else that is derived is left out: reading the document derives it again.
    """
    clusters = {alias: _written(cluster, NativeCluster, alias) for alias, cluster in settings.clusters.items()}
    flows = {str(flow.name): _written(flow, NativeFlow) for flow in settings.flows if flow.name.is_live}
    return {"version": 1, **_written(settings, SystemSettings), "clusters": clusters, "flows": flows}


def _written(settings: BaseModel, model: type[BaseModel], path: str = "") -> dict[str, Any]:
    return {key: value for key, value in _plain(settings, path).items() if key in model.model_fields}


def _plain(value: Any, path: str) -> Any:
    match value:
        case BaseModel():
            return {
                name: _plain(getattr(value, name), f"{path}_{name}")
                for name, field in type(value).model_fields.items()
                if getattr(value, name) != field.get_default(call_default_factory=True)
            }
        case Secret():
            return value.native or "${env:" + re.sub(r"\W", "_", f"MIRROR_{path}").upper() + "}"
        case Mapping():
            return {str(key): _plain(entry, f"{path}_{key}") for key, entry in value.items()}
        case tuple() | list():
            return [_plain(item, f"{path}_{number}") for number, item in enumerate(value, 1)]
        case _:
            return value
