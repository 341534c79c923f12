"""The command `audit`, and the audit log of commands that make changes without a running system."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from mirror_ray import runtime
from mirror_ray.cli.columns import date
from mirror_ray.cli.options import (
    DEFAULT_NAME,
    AddressOption,
    FlowArgument,
    FormatOption,
    NameOption,
    OutputFormat,
    WatchOption,
)
from mirror_ray.cli.output import Columns, Row, column, or_dash, render, say, watching
from mirror_ray.cli.system import ConfigOption, parse_flow
from mirror_ray.cli.times import TIME_FORMS, parse_time
from mirror_ray.model.errors import ConfigError, NotReadyError
from mirror_ray.whoami import whoami

if TYPE_CHECKING:
    from mirror_ray.config.settings import MirrorSettings
    from mirror_ray.kafka.audit_log import AuditLog
    from mirror_ray.model.names import FlowName

_FLUSH_S = 10.0
_DAY_MS = 86_400_000


def _outcome(row: Row) -> str:
    return row["outcome"] if row["error"] is None else f"{row['outcome']}: {row['error']}"


_COLUMNS: Columns = (
    column("TIME", "time_ms", date),
    ("WHO", lambda row: row["operator"] or f"{row['system']} {row['component']}"),
    column("FLOW", "flow"),
    column("KIND", "kind"),
    column("CLUSTER", "cluster", or_dash),
    column("SUBJECT", "subject"),
    column("BEFORE", "before", or_dash),
    column("AFTER", "after", or_dash),
    ("OUTCOME", _outcome),
)


def audit(
    flow: FlowArgument = None,
    *,
    since: Annotated[str | None, typer.Option(metavar="TIME", help=f"{TIME_FORMS}. Default: a day ago.")] = None,
    cluster: Annotated[str | None, typer.Option(metavar="ALIAS", help="Only what was changed on it.")] = None,
    kind: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="Such as create_topic or pause; may be given again.")
    ] = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="How many, the newest.")] = 100,
    config: ConfigOption = None,
    output: FormatOption = OutputFormat.table,
    watch: WatchOption = False,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Show what was changed on clusters and what operators did: who, what, before and after; the newest last."""
    from mirror_ray.config.load import load_settings
    from mirror_ray.kafka.audit_topics import read_audit
    from mirror_ray.model.audit import AuditQuery

    flow_name = parse_flow(flow) if flow is not None else None
    _since_ms(since)
    if config is not None:
        settings = load_settings(config).settings
    else:
        with runtime.attach(name, address) as system:
            settings = system.settings()
    if flow_name is not None:
        settings.flow(flow_name)

    def show() -> None:
        query = AuditQuery(
            since_ms=_since_ms(since), flow=flow, cluster=cluster, kinds=frozenset(kind or ()), limit=limit
        )
        render([asdict(entry) for entry in asyncio.run(read_audit(settings, query))], _COLUMNS, output)

    watching(show, watch=watch)


def _since_ms(text: str | None) -> int:
    now_ms = int(time.time() * 1000)
    return now_ms - _DAY_MS if text is None else parse_time(text, now_ms)


@contextmanager
def audited(
    settings: MirrorSettings, flow: FlowName, name: str, command: str, *, dry_run: bool = False
) -> Iterator[AuditLog]:
    """Write an operator's command to the flow's audit log, and wait for the log at the end.

    Returns:
        The log for what is changed inside, in the operator's name; a dry run writes nothing.

    Raises:
        MirrorError: ``audit.required`` is set, and the log can't be written: nothing inside was done.
    """
    from mirror_ray.kafka.audit_log import UNRECORDED
    from mirror_ray.kafka.audit_logs import AuditLogs
    from mirror_ray.model.audit import AuditPrincipal
    from mirror_ray.model.cluster_change import ClusterChange

    if dry_run:
        yield UNRECORDED
        return
    audit_logs = AuditLogs(AuditPrincipal(system=name, component=command, operator=whoami()))
    audit_log = audit_logs.of(settings, flow)
    entries = audit_log.begin([ClusterChange(kind=command, cluster="", subject=f"flow {flow}")])
    try:
        yield audit_log
    except BaseException as error:
        refused = isinstance(error, ConfigError | NotReadyError)
        text = str(error) or type(error).__name__
        audit_log.end(entry.with_outcome("refused" if refused else "unknown", text) for entry in entries)
        raise
    else:
        audit_log.end(entry.with_outcome("done") for entry in entries)
    finally:
        if not audit_logs.flush(_FLUSH_S):
            for problem in audit_logs.problems().values():
                say(f"not everything is in the audit log: {problem}", "yellow")
