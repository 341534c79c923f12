"""The command groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from mirror_ray.attach import attach
from mirror_ray.cli import columns
from mirror_ray.cli.options import (
    DEFAULT_NAME,
    AddressOption,
    FlowArgument,
    FormatOption,
    NameOption,
    OutputFormat,
    WatchOption,
)
from mirror_ray.cli.output import Columns, Row, emit, out, table, watching
from mirror_ray.cli.printable import one_line
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


def groups(
    flow: FlowArgument = None,
    group: Annotated[
        str | None, typer.Option("--group", metavar="GROUP", help="One group only, by partition.", show_default=False)
    ] = None,
    output: FormatOption = OutputFormat.table,
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
        out().print(one_line(f"{each.flow}  {each.group}  {each.state}{f': {each.reason}' if each.reason else ''}"))
    partitions = [{"group": row["group"], **each} for row in rows for each in row["partitions"]]
    out().print(table(partitions, _PARTITIONS))
