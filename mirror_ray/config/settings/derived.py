"""Flows that are made from the configured ones: backfills and routes; and what each flow knows of the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mirror_ray.config.settings.cluster import ClusterSettings
from mirror_ray.config.settings.flow import (
    BackfillSettings,
    FaultSettings,
    FlowSettings,
    HeartbeatSettings,
    NamesOfFlow,
    OffsetSyncSettings,
    ProvenanceOfFlow,
    RouteSettings,
    StatisticsSettings,
)
from mirror_ray.model.names import FlowName
from mirror_ray.model.pattern_syntax import escaped


def backfill_settings(flow: FlowSettings, identity: str, backfill: BackfillSettings | None = None) -> FlowSettings:
    """The settings of a backfill of a flow. It publishes no statistics, and its faults wait for a decision.

    ``backfill``: what it copies; None where that does not matter.
    """
    changed: dict[str, object] = {
        "name": FlowName(flow.name.source, flow.name.target, identity),
        "backfill": backfill,
        "statistics": StatisticsSettings(emit_enabled=False),
        "trouble": FaultSettings(),
    }
    if backfill is not None:
        starts = " ".join(f"{partition}@{start}" for partition, start, _ in backfill.ranges)
        topic = backfill.topic.replace(".", r"\.")
        topics = {"start": "earliest", "start_overrides": (f"{topic}={starts}",)}
        changed["topics"] = flow.topics.model_copy(update=topics)
    return flow.model_copy(update=changed)


def route_settings(flow: FlowSettings, route: RouteSettings) -> FlowSettings:
    """The settings of a route of a flow: it has the flow's topics and transforms, and keeps the records that go there.

    The flow itself does what is done once for a source topic: heartbeats, offset syncs, statistics, the history of
    groups, ACLs on groups, and the dead letters of records that a transform fails on.
    """
    shared = (escaped(route.to),) if route.rename else ()
    topics = {
        "map": route.map,
        "rename": route.rename,
        "shared_remote": (*flow.topics.shared_remote, *shared),
        "sync_acls_groups": False,
    }
    errors = "stop" if flow.transforms.errors == "stop" else "skip"
    changed: dict[str, object] = {
        "name": flow.name._replace(route=route.to),
        "route": route,
        "topics": flow.topics.model_copy(update=topics),
        "groups": flow.groups.model_copy(update={"history_enabled": False}),
        "offset_syncs": OffsetSyncSettings(enabled=False),
        "heartbeats": HeartbeatSettings(emit_enabled=False, replication_enabled=False),
        "statistics": StatisticsSettings(emit_enabled=False),
        "transforms": flow.transforms.model_copy(update={"errors": errors}),
    }
    return flow.model_copy(update=changed)


def with_all_names(flows: Iterable[FlowSettings]) -> tuple[FlowSettings, ...]:
    """The flows, each with the names that all of them give, and with those of them that write provenance headers."""
    given = tuple(flows)
    names = tuple(
        NamesOfFlow(flow=flow.name, map=flow.topics.map, rename=flow.topics.rename)
        for flow in given
        if flow.enabled and (flow.topics.map or flow.topics.rename)
    )
    provenance = tuple(
        ProvenanceOfFlow(
            flow=flow.name, include=flow.topics.include, exclude=flow.topics.exclude, max_hops=flow.provenance.max_hops
        )
        for flow in given
        if flow.enabled and flow.provenance.enabled and flow.route is None
    )
    known = {"all_names": names, "all_provenance": provenance}
    return tuple(
        flow if (flow.all_names, flow.all_provenance) == (names, provenance) else flow.model_copy(update=known)
        for flow in given
    )


def with_registries(flows: Iterable[FlowSettings], clusters: Mapping[str, ClusterSettings]) -> tuple[FlowSettings, ...]:
    """The flows, each with whether both of its clusters have a schema registry."""
    having = {alias for alias, cluster in clusters.items() if cluster.registry is not None}
    return tuple(
        flow.model_copy(update={"both_registries": {flow.name.source, flow.name.target} <= having}) for flow in flows
    )
