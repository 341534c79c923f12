"""The settings of a flow that is reversed: the flow back copies the same topics in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirror_ray.config.settings.derived import with_all_names
from mirror_ray.config.settings.flow import FlowSettings
from mirror_ray.config.settings.system import MirrorSettings
from mirror_ray.model.names import FlowName
from mirror_ray.model.pattern_syntax import escaped


def reversed_settings(
    settings: MirrorSettings, name: FlowName, names: Mapping[str, str], others: Sequence[str] = ()
) -> MirrorSettings:
    """The settings with a flow off, and the flow back on, which does what the flow did in the other direction.

    Args:
        settings: Of the system.
        name: The flow.
        names: The flow's topics on its source, by their names on its target.
        others: Patterns of further topics on its target, which keep their names.
    """
    flow = settings.flow(name)
    topics = {
        "include": (*map(escaped, sorted(names)), *others),
        "map": dict(names),
        "rename": (),
        "shared_remote": (),
        # Where a topic was left off is in the flow's state. One that is new, or made anew, is copied whole.
        "start": "earliest",
        "start_overrides": (),
    }
    schemas = {
        "subjects_map": {target: source for source, target in flow.schemas.subjects_map.items()},
        "contexts_map": {target: source for source, target in flow.schemas.contexts_map.items()},
    }
    changed = {"topics": flow.topics.model_copy(update=topics), "schemas": flow.schemas.model_copy(update=schemas)}
    back = flow.model_copy(update={"name": name.back, "enabled": True, **changed})
    return _with(settings, flow.model_copy(update={"enabled": False}), back)


def restored_settings(settings: MirrorSettings, name: FlowName) -> MirrorSettings:
    """The settings with a flow on again, and the flow back off."""
    flow, back = settings.flow(name), settings.flow(name.back)
    return _with(settings, flow.model_copy(update={"enabled": True}), back.model_copy(update={"enabled": False}))


def without_flow(settings: MirrorSettings, name: FlowName) -> MirrorSettings:
    """The settings with a flow off."""
    return _with(settings, settings.flow(name).model_copy(update={"enabled": False}))


def is_reversed(settings: MirrorSettings, name: FlowName) -> bool:
    """Whether the flow is off and the flow back is on."""
    on = {flow.name for flow in settings.flows if flow.enabled}
    return name not in on and name.back in on


def _with(settings: MirrorSettings, *changed: FlowSettings) -> MirrorSettings:
    by_name = {flow.name: flow for flow in (*settings.flows, *changed)}
    return settings.model_copy(update={"flows": with_all_names(by_name.values())})
