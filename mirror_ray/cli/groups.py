"""Commands about consumer groups: groups, translate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from mirror_ray.attach import attach
from mirror_ray.cli import columns
from mirror_ray.cli.acting import parse_scope
from mirror_ray.cli.options import (
    DEFAULT_NAME,
    AddressOption,
    FlowArgument,
    Format,
    FormatOption,
    NameOption,
    WatchOption,
)
from mirror_ray.cli.output import Columns, Row, emit, out, table, watching
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import ConfigError
from mirror_ray.observe.groups import GroupStatus

_GROUPS: Columns = (
    ("FLOW", lambda row: row["flow"]),
    ("GROUP", lambda row: row["group"]),
    ("SOURCE", lambda row: row["source_state"] or "-"),
    ("STATE", lambda row: row["state"]),
    ("SYNCED", lambda row: f"{sum(each['state'] == 'synced' for each in row['partitions'])}/{len(row['partitions'])}"),
    ("REASON", lambda row: row["reason"] or ""),
)
_PARTITIONS: Columns = (
    ("GROUP", lambda row: row["group"]),
    ("TOPIC", lambda row: row["topic"]),
    ("PARTITION", lambda row: str(row["partition"])),
    ("SOURCE OFFSET", lambda row: str(row["source_offset"])),
    ("REMOTE TOPIC", lambda row: row["remote_topic"] or "-"),
    ("TARGET OFFSET", lambda row: columns.offset(row["target_offset"])),
    ("EXACT", lambda row: "-" if row["target_offset"] is None else "yes" if row["exact"] else "no"),
    ("STATE", lambda row: row["state"]),
    ("REASON", lambda row: row["reason"] or ""),
)
_TRANSLATED: Columns = (
    ("TOPIC", lambda row: row["topic"]),
    ("PARTITION", lambda row: str(row["partition"])),
    ("SOURCE OFFSET", lambda row: columns.offset(row["source_offset"])),
    ("TARGET TOPIC", lambda row: row["target_topic"]),
    ("TARGET OFFSET", lambda row: columns.offset(row["target_offset"])),
    ("EXACT", lambda row: "yes" if row["exact"] else "no"),
    ("REASON", lambda row: row["reason"] or ""),
)


def groups(
    flow: FlowArgument = None,
    group: Annotated[
        str | None, typer.Option("--group", metavar="GROUP", help="One group only, by partition.", show_default=False)
    ] = None,
    output: FormatOption = Format.table,
    watch: WatchOption = False,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Show consumer groups: whether they stand on the target where they stand on the source, and why not."""

    def show(system: Mirror) -> None:
        found = [each for each in system.groups(flow) if group in (None, each.group)]
        if group is not None and not found:
            raise ConfigError(
                f"no flow carries a group {group!r} over: see groups and groups.exclude in its configuration"
            )
        rows = [asdict(each) for each in found]
        if group is None:
            emit(rows, output, lambda: out().print(table(rows, _GROUPS)))
        else:
            emit(rows, output, lambda: _print_group(found, rows))

    with attach(name, address) as system:
        watching(lambda: show(system), watch=watch)


def _print_group(found: Sequence[GroupStatus], rows: Sequence[Row]) -> None:
    for each in found:
        out().print(f"{each.flow}  {each.group}  {each.state}{f': {each.reason}' if each.reason else ''}")
    partitions = [{"group": row["group"], **each} for row in rows for each in row["partitions"]]
    out().print(table(partitions, _PARTITIONS))


def translate(
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="For example 'A->B'.", show_default=False)],
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="[TOPIC:PARTITION]", help="A partition of the source, with --offset.", show_default=False
        ),
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", metavar="GROUP", help="A group's offsets.", show_default=False)
    ] = None,
    offset: Annotated[
        int | None, typer.Option("--offset", metavar="N", min=0, help="An offset.", show_default=False)
    ] = None,
    back: Annotated[bool, typer.Option("--back", help="The offset is one of the remote partition.")] = False,
    output: FormatOption = Format.table,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Say where a group's offsets, or one offset, are on the other side. Exit 1 when there is no place yet."""
    topic, partition = parse_scope(place)
    with attach(name, address) as system:
        if group is not None and place is None and offset is None:
            rows = _of_group(system, flow, group)
        elif group is None and topic is not None and partition is not None and offset is not None:
            rows = [_of_offset(system, flow, topic, partition, offset, back=back)]
        else:
            raise ConfigError("give --group GROUP, or TOPIC:PARTITION and --offset N")
    emit(rows, output, lambda: out().print(table(rows, _TRANSLATED)))
    if any(row["target_offset"] is None or row["source_offset"] is None for row in rows):
        raise typer.Exit(1)


def _of_group(system: Mirror, flow: str, group: str) -> list[Row]:
    found = next((each for each in system.groups(flow) if each.group == group), None)
    if found is None:
        raise ConfigError(f"{flow} carries no group {group!r} over: see groups and groups.exclude in its configuration")
    return [
        {
            "topic": each.topic,
            "partition": each.partition,
            "source_offset": each.source_offset,
            "target_topic": each.remote_topic,
            "target_offset": each.target_offset,
            "exact": each.exact,
            "reason": each.reason,
        }
        for each in found.partitions
        if each.state != "uncopied"
    ]


def _of_offset(system: Mirror, flow: str, topic: str, partition: int, offset: int, *, back: bool) -> Row:
    found = system.translate(flow, topic, partition, offset, back=back)
    remote = next((each.remote_topic for each in system.topics(flow) if each.topic == topic), "")
    return {
        "topic": topic,
        "partition": partition,
        "source_offset": found.offset if back else offset,
        "target_topic": remote,
        "target_offset": offset if back else found.offset,
        "exact": found.exact,
        "reason": found.reason,
    }
