"""Changes single keys of a running system's settings, by their paths in the native form; checked like a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from mirror_ray.config.base import UnknownFieldError, comma_separated, field_path, section_of
from mirror_ray.config.checks import check_flow, check_loops
from mirror_ray.config.document import read_document
from mirror_ray.config.fields import mistakes
from mirror_ray.config.gateway import check_gateway
from mirror_ray.config.keys import nearest
from mirror_ray.config.schema_checks import missing_registry
from mirror_ray.config.settings import (
    FlowSettings,
    MirrorSettings,
    NativeFlow,
    SystemSettings,
    with_all_names,
    with_registries,
)
from mirror_ray.config.transforms import with_routes
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.names import FlowName


def with_changes(settings: MirrorSettings, flow: str | None, changes: Mapping[str, str | None]) -> MirrorSettings:
    """The settings of the running system with changed keys of one flow, or of the system if ``flow`` is None.

    ``changes``: values by key, lists separated by commas, the rest as in YAML; None: the default.

    Raises:
        ConfigError: With a sentence for each change that is refused; then nothing is changed.
    """
    problems: list[str] = []
    if flow is None:
        values = _changed(settings, SystemSettings, changes, problems)
        made = _built(SystemSettings, values, "", problems)
        if made is not None and any(key.startswith("gateway") for key in changes):
            problems.extend(check_gateway(made.gateway))
        _raise(problems)
        return settings.model_copy(update={name: getattr(made, name) for name in SystemSettings.model_fields})
    before = _find(settings, flow)
    values = _changed(before, NativeFlow, changes, problems)
    after = _built(FlowSettings, {**values, "name": before.name}, f"{flow}: ", problems) if not problems else None
    if after is not None:
        problems.extend(check_flow(after, lambda field: f"{flow}: {field}"))
        having = [alias for alias, cluster in settings.clusters.items() if cluster.registry is not None]
        if (why := missing_registry(after, having)) is not None:
            problems.append(f"{flow}: schemas.sync_enabled: {why}")
    _raise(problems)
    live = [flow if flow.name != before.name else after for flow in settings.flows if flow.name.is_live]
    flows = with_all_names(with_routes(flow for flow in live if flow is not None))
    flows = with_registries(flows, settings.clusters)
    _raise([f"{flow}: {sentence}" for sentence in check_loops(flows)])
    return settings.model_copy(update={"flows": flows})


def _find(settings: MirrorSettings, flow: str) -> FlowSettings:
    try:
        name = FlowName.parse(flow)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if not name.is_live:
        raise ConfigError(f"{flow} follows its flow: set {name.live}")
    return settings.flow(name)


def _changed(
    before: BaseModel, model: type[BaseModel], changes: Mapping[str, str | None], problems: list[str]
) -> dict[str, Any]:
    """The values of ``model``'s fields in ``before``, with the changes."""
    values = before.model_dump(include=set(model.model_fields))
    for key, text in changes.items():
        try:
            _put(values, model, key, text)
        except ValueError as error:
            problems.append(f"{key}: {error}")
    return values


def _put(values: dict[str, Any], model: type[BaseModel], key: str, text: str | None) -> None:
    """Set the value at a path, or remove it if ``text`` is None.

    Raises:
        ValueError: There is no such key.
    """
    try:
        (*parents, name), field, rest = field_path(model, key.split("."))
    except UnknownFieldError as error:
        raise ValueError(f"unknown key{nearest(error.name, error.known)}") from None
    for parent in parents:
        values = values.setdefault(parent, {})
    section = section_of(field.annotation)
    if rest and get_origin(field.annotation) is dict:
        entry = ".".join(rest)
        entries = {other: value for other, value in (values.get(name) or {}).items() if other != entry}
        values[name] = entries if text is None else {**entries, entry: text}
    elif rest:
        raise ValueError(f"{name} has no keys of its own")
    elif text is None:
        values.pop(name, None)
    elif section is not None and not text.lstrip().startswith("{"):
        raise ValueError(f"a section; set one of {', '.join(f'{key}.{known}' for known in section.model_fields)}")
    else:
        values[name] = _value(text, field.annotation)


def _value(text: str, annotation: object) -> object:
    kinds = {get_origin(kind) for kind in (annotation, *get_args(annotation))}
    structured = section_of(annotation) is not None or kinds & {tuple, dict}
    if structured and text.lstrip().startswith(("{", "[")):
        try:
            return read_document(text)
        except ConfigError as error:
            raise ValueError(str(error)) from error
    if tuple in kinds:
        return comma_separated(text)
    return text


def _built(
    model: type[SystemSettings | FlowSettings], values: Mapping[str, Any], prefix: str, problems: list[str]
) -> Any:
    try:
        return model.model_validate(values)
    except ValidationError as invalid:
        problems.extend(f"{prefix}{path}: {text}" for path, text in mistakes(invalid))
        return None


def _raise(problems: list[str]) -> None:
    if problems:
        raise ConfigError(*problems)
