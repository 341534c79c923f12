"""Commands that look at a running system: status, lag, topics, replicators, events, gaps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

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
from mirror_ray.cli.output import Columns, Row, count, emit, out, say, table, watching
from mirror_ray.mirror import Mirror
from mirror_ray.observe.status import PartitionStatus, SystemStatus

_UNHEALTHY = ("degraded", "unreachable")


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

    _look(name, address, show, watch=watch)
    if any(flow.state in _UNHEALTHY for flow in last[0].flows):
        raise typer.Exit(1)


def lag(
    *,
    flow: FlowArgument = None,
    topic: Annotated[str | None, typer.Option(help="One topic only.", show_default=False)] = None,
    above: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Exit 1 if a partition lags more than N records.", show_default=False),
    ] = None,
    output: FormatOption = OutputFormat.table,
    watch: WatchOption = False,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Show how far each partition is behind its source: last stable offset less what the target has acknowledged."""
    last: list[PartitionStatus] = []

    def show(system: Mirror) -> None:
        last[:] = [each for each in system.partitions(flow) if topic in (None, each.topic)]
        emit(columns.json_rows(last), output, lambda: out().print(table(columns.rows(last), columns.LAG)))

    _look(name, address, show, watch=watch)
    _check_bound(last, above)


def _check_bound(partitions: list[PartitionStatus], above: int | None) -> None:
    if above is None:
        return
    beyond = [each for each in partitions if each.lag_records is None or each.lag_records > above]
    for each in beyond:
        known = "unknown lag" if each.lag_records is None else f"lag {count(each.lag_records)}"
        say(f"{each.flow} {each.topic}-{each.partition}: {known} ({each.state}), allowed {count(above)}", "red")
    if beyond:
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
        found = columns.rows(system.topics(flow))
        heads = columns.priced(columns.TOPICS, found, system.status().currency)
        emit(found, output, lambda: out().print(table(found, heads)))

    _look(name, address, show, watch=watch)


def replicators(
    output: FormatOption = OutputFormat.table,
    watch: WatchOption = False,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Show the replicators: where they run, what they hold, and what they cost."""

    def show(system: Mirror) -> None:
        found = system.replicators
        emit(
            columns.json_rows(found),
            output,
            lambda: out().print(table(columns.rows(found), columns.REPLICATORS)),
        )

    _look(name, address, show, watch=watch)


def events(
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="How many, the newest.")] = 50,
    output: FormatOption = OutputFormat.table,
    watch: WatchOption = False,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Show what happened and why, the newest last."""
    _list(name, address, lambda system: columns.rows(system.events(limit)), columns.EVENTS, output, watch=watch)


def gaps(
    flow: FlowArgument = None,
    output: FormatOption = OutputFormat.table,
    watch: WatchOption = False,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Show what partitions went on without, by which policy or answer."""
    _list(name, address, lambda system: columns.rows(system.gaps(flow)), columns.GAPS, output, watch=watch)


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
        console.print(f"page and metrics: {status.gateway}", soft_wrap=True)
    console.print()
    flows = columns.rows(status.flows)
    console.print(table(flows, columns.priced(columns.FLOWS, flows, status.currency)))
    for flow in status.flows:
        if flow.why:
            console.print(f"{flow.flow}: {flow.why}", style="dim", soft_wrap=True)
    console.print()
    console.print(table(columns.rows(status.replicators), columns.REPLICATORS))
    for backfill in status.backfills:
        console.print(f"\nbackfill {backfill}", soft_wrap=True)
    problems = columns.status_lines(status)
    if problems:
        console.print()
        for problem in problems:
            console.print(problem, style="red", soft_wrap=True)


def _look(name: str, address: str | None, show: Callable[[Mirror], Any], *, watch: bool) -> None:
    with attach(name, address) as system:
        watching(lambda: show(system), watch=watch)


def _list(
    name: str,
    address: str | None,
    read: Callable[[Mirror], list[Row]],
    heads: Columns,
    output: OutputFormat,
    *,
    watch: bool,
) -> None:
    def show(system: Mirror) -> None:
        found = read(system)
        emit(found, output, lambda: out().print(table(found, heads)))

    _look(name, address, show, watch=watch)
