"""The difference between two settings of a system: which keys change, and what that does to its flows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from pydantic import BaseModel

from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.model.names import FlowName

#: What a change of a key does, from the least to the most. ``system``: nothing to a flow. ``beside``: it changes what
#: runs beside the copying. ``groups``: the flow's consumer groups are read anew, copying goes on. ``topics``: topics
#: are added, removed or renamed, the others are copied on. ``restart``: the flow is drained and started again.
Effect = Literal["system", "beside", "groups", "topics", "restart"]

#: Sections of a flow that change while its partitions are copied on.
_LIVE: Final[Mapping[str, Effect]] = {
    "topics": "topics",
    "groups": "groups",
    "heartbeats": "beside",
    "trouble": "beside",
    "limits": "beside",
    "schemas": "beside",
}
#: Keys, by their beginnings, whose effect is not that of their section.
_EXCEPTIONS: Final[Mapping[str, Effect]] = {
    "topics.refresh": "beside",
    "topics.replication_factor": "beside",
    "topics.sync_": "beside",
    "topics.config_properties_exclude": "beside",
    "topics.use_defaults_from": "beside",
    "topics.shared_remote": "restart",
    "heartbeats.replication_enabled": "topics",
    "offsets.prefix_max": "topics",
    **dict.fromkeys(("schemas.sync_enabled", "schemas.ids", "schemas.topics"), "restart"),
}
#: Fields that change with other flows; their effect on this one shows in which topics it copies.
_DERIVED: Final = {"all_names", "all_provenance", "both_registries"}
#: Keys of a system that every flow depends on.
_EVERY_FLOW: Final = {"lease_ms", "audit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """One key that differs, by its path in the native form; a value is None where it is not set. Secrets are masked."""

    key: str
    before: str | None
    after: str | None
    effect: Effect

    def __str__(self) -> str:
        return f"{self.key}: {_or_none(self.before)} -> {_or_none(self.after)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowChange:
    """What happens to a flow with its routes."""

    flow: str
    verdict: Literal["unchanged", "configured", "restarted", "started", "ended"]
    keys: tuple[KeyChange, ...] = ()

    def __str__(self) -> str:
        sections = sorted({change.key.partition(".")[0] for change in self.keys})
        return f"{self.flow} {self.verdict}" + (f" ({', '.join(sections)})" if sections else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsDifference:
    """What a change of settings does to a running system, or would do."""

    flows: tuple[FlowChange, ...]
    system: tuple[KeyChange, ...]
    #: Identifies the settings that run, so that the change is applied to no others; "": nothing runs, or not asked for.
    onto: str = ""

    @property
    def nothing(self) -> bool:
        """Whether nothing changes."""
        return not self.system and all(flow.verdict == "unchanged" for flow in self.flows)

    @property
    def keys(self) -> list[tuple[str, KeyChange]]:
        """Every key that differs; a key of a flow follows the flow's name."""
        of_flows = [(f"{flow.flow} {change.key}", change) for flow in self.flows for change in flow.keys]
        return [*of_flows, *((change.key, change) for change in self.system)]

    def __str__(self) -> str:
        parts = [str(flow) for flow in self.flows]
        if self.system:
            parts.append(f"system configured ({', '.join(change.key for change in self.system)})")
        return ", ".join(parts) or "no flow"


def effect_of(key: str) -> Effect:
    """What a change of a key of a flow does; ``key`` as in ``topics.include``."""
    for prefix, effect in _EXCEPTIONS.items():
        if key.startswith(prefix):
            return effect
    return _LIVE.get(key.partition(".")[0], "restart")


def data_path(settings: MirrorSettings, name: FlowName) -> tuple[object, ...] | None:
    """The settings that copying a partition of a flow depends on; None: the flow does not run.

    While they stay equal no partition has to stop. A backfill has those of its flow; a route has those of its flow too.
    """
    flows = {flow.name: flow for flow in settings.flows if flow.enabled}
    if name.configured not in flows or name.live not in flows:
        return None
    clusters = (settings.clusters[name.source], settings.clusters[name.target])
    return _copying(flows[name.live]), _copying(flows[name.configured]), settings.lease_ms, settings.audit, *clusters


def _copying(flow: FlowSettings) -> FlowSettings:
    defaults = FlowSettings(name=flow.name, enabled=flow.enabled)
    left: dict[str, object] = {section: getattr(defaults, section) for section in {*_LIVE, *_DERIVED}}
    left["topics"] = defaults.topics.model_copy(update={"shared_remote": flow.topics.shared_remote})
    left["schemas"] = flow.schemas.model_copy(
        update={name: default for name, default in defaults.schemas if effect_of(f"schemas.{name}") != "restart"}
    )
    left["offsets"] = flow.offsets.model_copy(update={"prefix_max": defaults.offsets.prefix_max})
    return flow.model_copy(update=left)


def changed(before: MirrorSettings | None, after: MirrorSettings) -> SettingsDifference:
    """What happens to a system that runs with ``before`` when it gets ``after``; None: nothing runs."""
    old = {flow.name: flow for flow in before.flows if flow.enabled and flow.name.is_live} if before is not None else {}
    new = {flow.name: flow for flow in after.flows if flow.enabled and flow.name.is_live}
    flows = [_flow_change(name, before, after) for name in sorted({*old, *new})]
    system = _system(before, after) if before is not None else ()
    return SettingsDifference(flows=tuple(flows), system=tuple(system))


def rescaled(found: SettingsDifference, running: int, wanted: int) -> SettingsDifference:
    """The difference with the number of replicators that ``scale`` or an option sets in place of the settings' own."""
    if running == wanted:
        return found
    others = tuple(change for change in found.system if change.key != "replicators")
    number = KeyChange(key="replicators", before=str(running), after=str(wanted), effect="system")
    return replace(found, system=(*others, number))


def _flow_change(name: FlowName, before: MirrorSettings | None, after: MirrorSettings) -> FlowChange:
    was = data_path(before, name) if before is not None else None
    now = data_path(after, name)
    if before is None or was is None:
        return FlowChange(flow=str(name), verdict="started")
    if now is None:
        return FlowChange(flow=str(name), verdict="ended")
    keys = [
        KeyChange(key=key, before=old, after=new, effect=effect_of(key))
        for key, old, new in _differences(before.flow(name), after.flow(name))
    ]
    for alias in (name.source, name.target):
        keys += [
            KeyChange(key=f"clusters.{alias}.{key}", before=old, after=new, effect="restart")
            for key, old, new in _differences(before.clusters[alias], after.clusters[alias])
        ]
    verdict: Literal["restarted", "configured", "unchanged"] = "configured" if keys else "unchanged"
    return FlowChange(flow=str(name), verdict="restarted" if was != now else verdict, keys=tuple(keys))


def _system(before: MirrorSettings, after: MirrorSettings) -> Iterator[KeyChange]:
    own: dict[str, object] = {"flows": (), "clusters": {}}
    for key, old, new in _differences(before.model_copy(update=own), after.model_copy(update=own)):
        effect: Effect = "restart" if key.partition(".")[0] in _EVERY_FLOW else "system"
        yield KeyChange(key=key, before=old, after=new, effect=effect)


def _differences(before: BaseModel, after: BaseModel, path: str = "") -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the path of each key that differs, with its value before and after."""
    for field in type(before).model_fields:
        if field in _DERIVED:
            continue
        old, new = getattr(before, field), getattr(after, field)
        if old == new:
            continue
        key = f"{path}{field}"
        if isinstance(old, BaseModel) and isinstance(new, BaseModel) and type(old) is type(new):
            yield from _differences(old, new, f"{key}.")
        else:
            yield key, _shown(old), _shown(new)


def _shown(value: object) -> str | None:
    match value:
        case None:
            return None
        case tuple() | list():
            return ", ".join(str(_shown(item)) for item in value)
        case dict():
            return ", ".join(f"{key}:{_shown(entry)}" for key, entry in value.items())
        case _:
            # Secrets mask themselves, also within models.
            return str(value)


def _or_none(text: str | None) -> str:
    return "none" if text is None else text or "empty"
