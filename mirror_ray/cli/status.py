"""Commands that show a running system: status, lag, topics, groups, replicators, events, gaps."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

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
from mirror_ray.cli.output import Columns, column, count, emit, or_dash, or_empty, out, render, say, table
from mirror_ray.cli.printable import one_line
from mirror_ray.cli.system import with_system
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import ConfigError
from mirror_ray.observe.groups import GroupStatus
from mirror_ray.observe.status import PartitionStatus, SystemStatus
from mirror_ray.records import kernel

_UNHEALTHY = ("degraded", "unreachable")
_GROUPS: Columns = (
    column("FLOW", "flow"),
    column("GROUP", "group"),
    column("SOURCE", "source_state", or_dash),
    column("STATE", "state"),
    ("SYNCED", lambda row: f"{sum(p['state'] == 'synced' for p in row['partitions'])}/{len(row['partitions'])}"),
    column("REASON", "reason", or_empty),
)
_GROUP_PARTITIONS: Columns = (
    column("GROUP", "group"),
    column("TOPIC", "topic"),
    column("PARTITION", "partition"),
    column("SOURCE OFFSET", "source_offset"),
    column("REMOTE TOPIC", "remote_topic", or_dash),
    column("TARGET OFFSET", "target_offset", columns.offset),
    ("EXACT", lambda row: "-" if row["target_offset"] is None else "yes" if row["exact"] else "no"),
    column("STATE", "state"),
    column("REASON", "reason", or_empty),
)


def status(
    output: FormatOption = OutputFormat.table,
    watch: WatchOption = False,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Show flows and replicators at a glance. Exit 1 when a flow is degraded or a cluster unreachable."""
    last: list[SystemStatus] = []

    def show(system: Mirror) -> None:
        now = system.status()
        last[:] = [now]
        emit(asdict(now), output, lambda: print_status(now))

    with_system(name, address, show, watch=watch)
    if any(flow.state in _UNHEALTHY for flow in last[0].flows):
        raise typer.Exit(1)


def lag(
    *,
    flow: FlowArgument = None,
    topic: Annotated[str | None, typer.Option(help="One topic only.")] = None,
    above: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Exit 1 if a partition lags more than N records.")
    ] = None,
    output: FormatOption = OutputFormat.table,
    watch: WatchOption = False,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Show how far each partition is behind its source: last stable offset less what the target has acknowledged."""
    last: list[PartitionStatus] = []

    def show(system: Mirror) -> None:
        last[:] = [status for status in system.partitions(flow) if topic in (None, status.topic)]
        emit(columns.json_rows(last), output, lambda: out().print(table(columns.rows(last), columns.LAG)))

    with_system(name, address, show, watch=watch)
    _check_bound(last, above)


def _check_bound(partitions: list[PartitionStatus], above: int | None) -> None:
    if above is None:
        return
    exceeding = [status for status in partitions if status.lag_records is None or status.lag_records > above]
    for status in exceeding:
        known = "unknown lag" if status.lag_records is None else f"lag {count(status.lag_records)}"
        say(f"{status.flow} {status.topic}-{status.partition}: {known} ({status.state}), allowed {count(above)}", "red")
    if exceeding:
        raise typer.Exit(1)


def topics(
    flow: FlowArgument = None,
    output: FormatOption = OutputFormat.table,
    watch: WatchOption = False,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Show the topics that flows copy, their remote topics, and why one is not copied."""

    def show(system: Mirror) -> None:
        rows = columns.rows(system.topics(flow))
        render(rows, columns.priced(columns.TOPICS, rows, system.status().currency), output)

    with_system(name, address, show, watch=watch)


def groups(
    flow: FlowArgument = None,
    group: Annotated[str | None, typer.Option("--group", metavar="GROUP", help="One group only, by partition.")] = None,
    output: FormatOption = OutputFormat.table,
    watch: WatchOption = False,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Show consumer groups: whether their committed offsets are the same on both sides, and why not."""

    def show(system: Mirror) -> None:
        found = [status for status in system.groups(flow) if group in (None, status.group)]
        if group is None:
            render(columns.rows(found), _GROUPS, output)
            return
        if not found:
            raise ConfigError(f"no flow syncs a group {group!r}: see groups and groups.exclude in its configuration")
        emit(columns.rows(found), output, lambda: _print_group(found))

    with_system(name, address, show, watch=watch)


def _print_group(found: list[GroupStatus]) -> None:
    for status in found:
        reason = f": {status.reason}" if status.reason else ""
        out().print(one_line(f"{status.flow}  {status.group}  {status.state}{reason}"))
    partitions = [{"group": status.group, **asdict(partition)} for status in found for partition in status.partitions]
    out().print(table(partitions, _GROUP_PARTITIONS))


def replicators(
    output: FormatOption = OutputFormat.table,
    watch: WatchOption = False,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Show the replicators: where they run, what they hold, and what they cost."""

    def show(system: Mirror) -> None:
        found = system.replicators
        emit(columns.json_rows(found), output, lambda: out().print(table(columns.rows(found), columns.REPLICATORS)))

    with_system(name, address, show, watch=watch)


def events(
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="How many, the newest.")] = 50,
    output: FormatOption = OutputFormat.table,
    watch: WatchOption = False,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Show what happened and why, the newest last."""
    with_system(
        name, address, lambda system: render(columns.rows(system.events(limit)), columns.EVENTS, output), watch=watch
    )


def gaps(
    flow: FlowArgument = None,
    output: FormatOption = OutputFormat.table,
    watch: WatchOption = False,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Show skipped ranges: what partitions went on without, by which policy or resolution."""
    with_system(
        name, address, lambda system: render(columns.rows(system.gaps(flow)), columns.GAPS, output), watch=watch
    )


def print_status(status: SystemStatus) -> None:
    """The tables of `status`."""
    console = out()
    console.print(
        f"{status.name}: {len(status.flows)} flows, {columns.replicators_text(status, len(status.replicators))},"
        f" coordinator {status.coordinator_pid} on {status.coordinator_node}"
    )
    if status.elastic is not None and status.elastic.why:
        console.print(f"replicators by load: {status.elastic.why}", style="dim", soft_wrap=True)
    if status.gateway is not None:
        console.print(f"web UI and metrics: {status.gateway}", soft_wrap=True)
    console.print()
    flows = columns.rows(status.flows)
    console.print(table(flows, columns.priced(columns.FLOWS, flows, status.currency)))
    for flow in status.flows:
        if flow.why:
            console.print(f"{flow.flow}: {flow.why}", style="dim", soft_wrap=True)
        if flow.schemas is not None:
            console.print(f"{flow.flow}: {flow.schemas}", style="dim", soft_wrap=True)
    console.print()
    console.print(table(columns.rows(status.replicators), columns.REPLICATORS))
    for replicator in status.replicators:
        if not replicator.has_kernel:
            console.print(f"{replicator.id} on {replicator.node}: {kernel.UNAVAILABLE}", style="dim", soft_wrap=True)
    for backfill in status.backfills:
        console.print(f"\nbackfill {backfill}", soft_wrap=True)
    problems = columns.status_lines(status)
    if problems:
        console.print()
        for problem in problems:
            console.print(problem, style="red", soft_wrap=True)
