"""The command `schemas`: what of the source's schema registry the target has, and why not all of it."""

from __future__ import annotations

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
from mirror_ray.cli.output import Columns, column, or_dash, or_empty, render
from mirror_ray.cli.system import with_system
from mirror_ray.mirror import Mirror

_SCHEMAS: Columns = (
    column("FLOW", "flow"),
    column("SUBJECT", "subject"),
    column("VERSION", "version"),
    column("TYPE", "kind"),
    column("SOURCE ID", "source_id"),
    column("TARGET SUBJECT", "target_subject"),
    column("TARGET ID", "target_id", or_dash),
    ("STATE", lambda row: f"{row['state']} (deleted)" if row["deleted"] else row["state"]),
    column("PROBLEM", "problem", or_empty),
)


def schemas(
    flow: FlowArgument = None,
    problems: Annotated[
        bool, typer.Option("--problems", help="Only those that the target lacks or has otherwise.")
    ] = False,
    output: FormatOption = OutputFormat.table,
    watch: WatchOption = False,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Show the schemas of the source's registry: what they are in the target's, and why one is not there."""

    def show(system: Mirror) -> None:
        found = [status for status in system.schemas(flow) if not problems or status.differs]
        render(columns.rows(found), _SCHEMAS, output)

    with_system(name, address, show, watch=watch)
