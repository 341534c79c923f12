"""Commands about a configuration: validate, plan."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mirror_ray.cli.options import ConfigArgument, FormatOption, OutputFormat
from mirror_ray.cli.output import Columns, Row, column, count, duration, emit, out, say, table
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.topics import NewRemoteTopic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mirror_ray.config.loaded import ConfigNote, LoadedConfig
    from mirror_ray.config.settings import MirrorSettings
    from mirror_ray.topics.plan import FlowPlan, SystemPlan
    from mirror_ray.topics.schema_plan import SchemaPlan


def _granted(right: Row) -> str:
    if right["missing"]:
        return "no" if right["optional"] else "NO"
    return "yes" if right["checked"] else "unknown"


_TOPICS: Columns = (
    column("ACTION", "action"),
    column("FLOW", "flow"),
    column("TOPIC", "source_topic"),
    column("REMOTE TOPIC", "remote_topic"),
    column("PARTITIONS", "partitions", count),
    column("REPLICATION", "replication_factor", count),
    column("BEGINS", "begins"),
    ("CONFIGS", lambda row: ", ".join(f"{key}={value}" for key, value in row["configs"].items())),
)
_PRESERVED: Columns = (
    column("FLOW", "flow"),
    column("TOPIC", "topic"),
    column("PARTITIONS", "partitions", count),
    column("OFFSETS TO FILL", "prefix_offsets", count),
    column("IN ONE PARTITION", "longest_prefix", count),
    column("FILLED IN", "prefix_s", duration),
    column("RUNS OF RECORDS", "runs", count),
    column("COPIED IN", "runs_s", duration),
)
_RIGHTS: Columns = (
    column("CLUSTER", "cluster"),
    ("RESOURCE", lambda row: f"{row['resource_type']} {row['resource']}"),
    ("OPERATIONS", lambda row: ", ".join(row["operations"])),
    ("GRANTED", _granted),
    column("WHY", "why"),
)

#: Of a flow's schemas that can't be registered.
_REFUSED_SHOWN: Final = 5


def validate(
    config: ConfigArgument,
    *,
    every_note: Annotated[bool, typer.Option("--all", help="List the defaults that differ from MM2's too.")] = False,
    output: FormatOption = OutputFormat.table,
) -> None:
    """Check a configuration, and the stores that it names, without touching a cluster.

    Exit 2 when it has mistakes, all of which are named.
    """
    try:
        loaded = _load_and_check(config)
    except ConfigError as error:
        if output is not OutputFormat.table:
            emit({"valid": False, "problems": list(error.problems), "notes": []}, output, lambda: None)
        raise
    notes = (*loaded.notes, *_unmerged(loaded.settings))

    def show() -> None:
        enabled = ", ".join(str(flow.name) for flow in loaded.settings.flows if flow.enabled) or "none enabled"
        out().print(f"{config}: valid; flows: {enabled}", soft_wrap=True)
        defaults = 0 if every_note else sum(note.kind == "default" for note in notes)
        for note in notes:
            if every_note or note.kind != "default":
                say(f"note: {note}")
        if defaults:
            say(
                f"note: {defaults} defaults differ from MM2's: `mirror-ray validate {config} --all` lists them;"
                " see docs/configuration.md"
            )

    emit({"valid": True, "problems": [], "notes": [asdict(note) for note in notes]}, output, show)


def _unmerged(settings: MirrorSettings) -> Sequence[ConfigNote]:
    """What is lost where the record kernel was not built."""
    from mirror_ray.config.loaded import ConfigNote
    from mirror_ray.records import kernel

    if kernel.is_available() or not any(flow.enabled and flow.merge for flow in settings.flows):
        return ()
    return (ConfigNote(kind="off", key="merge", text=f"on this machine {kernel.UNAVAILABLE}"),)


def _load_and_check(config: Path) -> LoadedConfig:
    """Load a configuration, and read the key stores and trust stores that it names.

    Raises:
        ConfigError: With all mistakes of the file, or else of the stores.
    """
    from mirror_ray.config.load import load_settings
    from mirror_ray.kafka.security import check_security

    loaded = load_settings(config)
    if unusable := [f"{config}: {problem}" for problem in check_security(loaded.settings)]:
        raise ConfigError(*unusable)
    return loaded


def plan(config: ConfigArgument, output: FormatOption = OutputFormat.table) -> None:
    """Show the topics, configs, schemas and rights that starting it needs; change nothing.

    Exit 1 if something is refused.
    """
    from mirror_ray.config.load import load_settings
    from mirror_ray.topics.planning import make_plan

    found = make_plan(load_settings(config).settings)
    emit(_plain(found), output, lambda: _print_plan(found))
    if not found.ok:
        raise typer.Exit(1)


def _print_plan(plan: SystemPlan) -> None:
    console = out()
    for cluster in plan.clusters:
        console.print(f"cluster {cluster.alias}: {cluster.brokers} brokers, id {cluster.cluster_id}")
    changes = [row for flow in plan.flows for row in _changes(flow)]
    kept = sum(1 for flow in plan.flows for topic in flow.topics if not (topic.create or topic.extend or topic.blocked))
    console.print()
    if changes:
        console.print(table(changes, _TOPICS))
    console.print(f"{len(changes)} topics to create or extend; {kept} exist as they should")
    console.print()
    costly = [
        row for flow in plan.flows for row in _preserved(flow) if row["prefix_offsets"] or row["runs"] is not None
    ]
    if costly:
        console.print(table(costly, _PRESERVED))
        console.print(
            f"{len(costly)} topics with preserved offsets that have offsets to fill first, or are compacted; estimated,"
            " see docs/offsets.md"
        )
        console.print()
    for flow in plan.flows:
        if flow.schemas is not None:
            console.print(f"schemas of {flow.flow}: {_of_schemas(flow.schemas)}", soft_wrap=True)
            console.print()
    console.print(table([asdict(right) for right in plan.rights], _RIGHTS))
    for flow in plan.flows:
        for text in [*flow.refused, *_first(flow.schemas.refused if flow.schemas is not None else ())]:
            say(f"refused: {flow.flow}: {text}", "red")
        for text in [*flow.warnings, *(warning for topic in flow.topics for warning in topic.warnings)]:
            say(f"warning: {flow.flow}: {text}", "yellow")
    for merge in plan.shared:
        say(f"note: {merge}", "yellow")
    for right in plan.missing_rights:
        say(f"missing right on cluster {right.cluster}: {'; '.join(right.missing)}", "red")


def _of_schemas(schemas: SchemaPlan) -> str:
    ids = f"ids {schemas.ids} ({schemas.ids_why})" if schemas.ids is not None else f"ids {schemas.ids_why}"
    parts = [
        f"{count(schemas.to_register)} versions of {count(schemas.to_register_subjects)} subjects to register",
        f"{count(schemas.there)} of {count(schemas.versions)} are there",
    ]
    if schemas.deleted:
        parts.append(f"{count(schemas.deleted)} soft-deleted on the source")
    if schemas.deleted_on_one_side:
        parts.append(f"{count(schemas.deleted_on_one_side)} soft-deleted on one side alone")
    return f"{ids}; {', '.join(parts)}"


def _first(refused: Sequence[str]) -> Sequence[str]:
    """The first of what is refused of schemas, which may be thousands of versions."""
    more = len(refused) - _REFUSED_SHOWN
    rest = (f"{count(more)} more schemas; `-o json` has all",) if more > 0 else ()
    return (*refused[:_REFUSED_SHOWN], *rest)


def _changes(flow: FlowPlan) -> list[dict[str, Any]]:
    changes = []
    for topic in flow.topics:
        if topic.create is not None:
            changes.append(_change(flow, "create", topic.source_topic, topic.create))
        elif topic.extend is not None:
            extended = NewRemoteTopic(name=topic.remote_topic, partitions=topic.extend.to_partitions)
            changes.append(_change(flow, "extend", topic.source_topic, extended))
    return changes + [_change(flow, "create", "-", topic) for topic in flow.internal_topics]


def _change(flow: FlowPlan, action: str, source_topic: str, topic: NewRemoteTopic) -> dict[str, Any]:
    return {
        "action": action,
        "flow": str(flow.flow),
        "source_topic": source_topic,
        "remote_topic": topic.name,
        "partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "begins": flow.begins.get(source_topic, ""),
        "configs": dict(topic.configs),
    }


def _preserved(flow: FlowPlan) -> list[dict[str, Any]]:
    return [
        {"flow": str(flow.flow), **asdict(cost), "prefix_s": cost.prefix_s, "runs_s": cost.runs_s}
        for cost in flow.preserved
    ]


def _plain(plan: SystemPlan) -> dict[str, Any]:
    """The plan as JSON: flows by name, topics that would be created or extended, rights, what is refused."""
    return {
        "ok": plan.ok,
        "clusters": [asdict(cluster) for cluster in plan.clusters],
        "flows": [
            {
                "flow": str(flow.flow),
                "enabled": flow.enabled,
                "topics": [
                    {
                        "topic": topic.source_topic,
                        "remote_topic": topic.remote_topic,
                        "begins": flow.begins.get(topic.source_topic),
                    }
                    for topic in flow.topics
                ],
                "changes": _changes(flow),
                "preserved": _preserved(flow),
                "schemas": asdict(flow.schemas) if flow.schemas is not None else None,
                "refused": list(flow.refused),
                "warnings": [*flow.warnings, *(text for topic in flow.topics for text in topic.warnings)],
            }
            for flow in plan.flows
        ],
        "rights": [asdict(right) for right in plan.rights],
        "shared": [str(merge) for merge in plan.shared],
    }
