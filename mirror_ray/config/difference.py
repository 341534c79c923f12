"""What a change of settings touches, from single keys up to whole flows. Everything else goes on as if nothing were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from pydantic import BaseModel

from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.model.names import FlowName

#: ``topics``: topics come, go or get another name, those that stay are not touched. ``groups``: the flow's consumer
#: groups are read anew, copying goes on. ``beside``: what runs beside the copying. ``restart``: the flow is drained and
#: begun anew. ``system``: nothing of a flow. From the least to the most.
Effect = Literal["system", "beside", "groups", "topics", "restart"]

#: A flow has them changed while its partitions are copied on.
_LIVE: Final[Mapping[str, Effect]] = {
    "topics": "topics",
    "groups": "groups",
    "heartbeats": "beside",
    "trouble": "beside",
    "limits": "beside",
}
#: Other than their sections.
_EXCEPTIONS: Final[Mapping[str, Effect]] = {
    "topics.refresh": "beside",
    "topics.replication_factor": "beside",
    "topics.sync_": "beside",
    "topics.config_properties_exclude": "beside",
    "topics.use_defaults_from": "beside",
    "topics.shared_remote": "restart",
    "heartbeats.replication_enabled": "topics",
}
#: They change with other flows. What they change for this one is a matter of which topics it copies.
_DERIVED: Final = {"all_names", "all_provenance"}
#: Of a system, what every flow is written under, and kept by.
_EVERY_FLOW: Final = {"lease_ms", "audit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """One key that differs, by its path in the native form; secrets are masked. None: there is none."""

    key: str
    before: str | None
    after: str | None
    effect: Effect

    def __str__(self) -> str:
        return f"{self.key}: {_or_none(self.before)} -> {_or_none(self.after)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowChange:
    """What becomes of a flow, its routes included."""

    flow: str
    verdict: Literal["unchanged", "configured", "restarted", "started", "ended"]
    keys: tuple[KeyChange, ...] = ()

    def __str__(self) -> str:
        sections = sorted({each.key.partition(".")[0] for each in self.keys})
        return f"{self.flow} {self.verdict}" + (f" ({', '.join(sections)})" if sections else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsDifference:
    """What a change of a running system touches, or would."""

    flows: tuple[FlowChange, ...]
    system: tuple[KeyChange, ...]
    #: Tells what runs from all else that may; "": nothing does, or it was not asked.
    onto: str = ""

    @property
    def nothing(self) -> bool:
        """Whether all is as it was."""
        return not self.system and all(each.verdict == "unchanged" for each in self.flows)

    @property
    def keys(self) -> list[tuple[str, KeyChange]]:
        """Every key that differs, a flow's behind its name."""
        of_flows = [(f"{flow.flow} {each.key}", each) for flow in self.flows for each in flow.keys]
        return [*of_flows, *((each.key, each) for each in self.system)]

    def __str__(self) -> str:
        said = [str(each) for each in self.flows]
        if self.system:
            said.append(f"system configured ({', '.join(each.key for each in self.system)})")
        return ", ".join(said) or "no flow"


def effect_of(key: str) -> Effect:
    """What a change of a flow's key touches; ``key`` as in ``topics.include``."""
    for prefix, effect in _EXCEPTIONS.items():
        if key.startswith(prefix):
            return effect
    return _LIVE.get(key.partition(".")[0], "restart")


def data_path(settings: MirrorSettings, name: FlowName) -> tuple[object, ...] | None:
    """All that copying a partition of a flow depends on, beside what its assignment says; None: the flow is not run.

    While it stays equal no partition has to stop. For a backfill that of its flow; for a route that of its flow, too.
    """
    flows = {each.name: each for each in settings.flows if each.enabled}
    if name.configured not in flows or name.live not in flows:
        return None
    clusters = (settings.clusters[name.source], settings.clusters[name.target])
    return _copying(flows[name.live]), _copying(flows[name.configured]), settings.lease_ms, settings.audit, *clusters


def _copying(flow: FlowSettings) -> FlowSettings:
    defaults = FlowSettings(name=flow.name, enabled=flow.enabled)
    left: dict[str, object] = {section: getattr(defaults, section) for section in {*_LIVE, *_DERIVED}}
    left["topics"] = defaults.topics.model_copy(update={"shared_remote": flow.topics.shared_remote})
    return flow.model_copy(update=left)


def changed(before: MirrorSettings | None, after: MirrorSettings) -> SettingsDifference:
    """What is touched when a system that runs by ``before`` is brought to ``after``; None: nothing runs."""
    old = {each.name: each for each in before.flows if each.enabled and each.name.is_live} if before is not None else {}
    new = {each.name: each for each in after.flows if each.enabled and each.name.is_live}
    flows = [_flow_change(name, before, after) for name in sorted({*old, *new})]
    system = _system(before, after) if before is not None else ()
    return SettingsDifference(flows=tuple(flows), system=tuple(system))


def rescaled(found: SettingsDifference, running: int, wanted: int) -> SettingsDifference:
    """With the number of replicators, where that changes: it stands in the place of the settings' own."""
    if running == wanted:
        return found
    others = tuple(each for each in found.system if each.key != "replicators")
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
    """Paths, with the values of before and after, of all that differs."""
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
            return ", ".join(str(_shown(each)) for each in value)
        case dict():
            return ", ".join(f"{key}:{_shown(each)}" for key, each in value.items())
        case _:
            # Secrets mask themselves, in models of settings, too.
            return str(value)


def _or_none(text: str | None) -> str:
    return "none" if text is None else text or "empty"
