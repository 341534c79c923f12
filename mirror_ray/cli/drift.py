"""The command drift."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from mirror_ray.cli.audit import audited
from mirror_ray.cli.compare import reasons
from mirror_ray.cli.control import confirm
from mirror_ray.cli.options import (
    DEFAULT_NAME,
    AddressOption,
    FormatOption,
    NameOption,
    OutputFormat,
    TopicsArgument,
    YesOption,
)
from mirror_ray.cli.output import Columns, column, emit, or_dash, or_empty, out, say, table
from mirror_ray.cli.system import ConfigOption, RequiredFlow, find_system, parse_flow

if TYPE_CHECKING:
    from mirror_ray.config.settings import FlowSettings, MirrorSettings
    from mirror_ray.topics.drift import Drift, Remedies


class DriftKind(StrEnum):
    """What may have drifted."""

    missing = "missing"
    extra = "extra"
    name = "name"
    partitions = "partitions"
    replication = "replication"
    config = "config"
    acl = "acl"
    schema = "schema"
    unknown = "unknown"


_COLUMNS: Columns = (
    column("DRIFT", "kind"),
    column("REMOTE TOPIC", "remote_topic"),
    column("WHAT", "what"),
    column("EXPECTED", "expected", or_dash),
    column("FOUND", "found", or_dash),
    column("RECONCILE", "remedy", or_dash),
    column("NOTE", "advice", or_empty),
)


def drift(
    flow: RequiredFlow,
    topics: TopicsArgument = None,
    reconcile: Annotated[
        bool, typer.Option("--reconcile", help="Show what would be done, ask, and bring the target back.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --reconcile: show it, and do nothing.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Count configs and ACLs although the flow does not keep them in step.")
    ] = False,
    ignore: Annotated[
        list[DriftKind] | None,
        typer.Option("--ignore", metavar="KIND", help="Leave this kind out; may be given again."),
    ] = None,
    yes: YesOption = False,
    config: ConfigOption = None,
    output: FormatOption = OutputFormat.table,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Show what differs between a flow's target and what source and configuration say. Exit 1 if anything does.

    With --reconcile, exit 0 when everything that could be brought back was, and nothing else is left.
    """
    flow_name = parse_flow(flow)
    with find_system(config, name, address, flow_name) as (settings, mirror):
        chosen = settings.flow(flow_name)
        not_copied = reasons(mirror, flow_name)

    def read_drift() -> Drift:
        from mirror_ray.topics.reconciliation import find

        schemas = DriftKind.schema not in (ignore or ())
        found = asyncio.run(find(settings, chosen, topics or (), not_copied, every=every, schemas=schemas))
        return found.without({str(kind) for kind in ignore or ()})

    found, failed = read_drift(), list[str]()
    if reconcile and not dry_run and found.remedies:
        if output is OutputFormat.table:
            _print(found)
        confirm(f"{flow}: do what RECONCILE says. Go on?", yes=yes)
        failed = _reconcile(settings, chosen, found.remedies, name)
        found = read_drift()
    rows = [asdict(difference) for difference in found.findings]
    emit({"flow": flow, "drifted": bool(rows), "findings": rows, "failed": failed}, output, lambda: _print(found))
    for text in failed:
        say(f"failed: {text}", "red")
    if rows or failed:
        raise typer.Exit(1)


def _reconcile(settings: MirrorSettings, flow: FlowSettings, remedies: Remedies, name: str) -> list[str]:
    from mirror_ray.topics.reconciliation import reconcile

    with audited(settings, flow.name, name, "drift_reconcile") as audit_log:
        return asyncio.run(reconcile(settings, flow, remedies, audit_log))


def _print(drift: Drift) -> None:
    console = out()
    if drift.findings:
        console.print(table([asdict(difference) for difference in drift.findings], _COLUMNS))
    kinds = Counter(difference.kind for difference in drift.findings)
    console.print(f"drift: {', '.join(f'{number} {kind}' for kind, number in kinds.items()) or 'none'}")
