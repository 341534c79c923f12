"""Options that several commands share."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class OutputFormat(StrEnum):
    """How data is printed."""

    table = "table"
    json = "json"
    yaml = "yaml"


def config_file(text: str | Path) -> Path:
    """Read the name of a file; an empty one would mean the current directory."""
    if text == "":
        raise typer.BadParameter("the name of the file is empty")
    return Path(text)


def possible_replicators(number: int | None) -> int | None:
    """Check a number of replicators; None, of an option that was left out, is passed on."""
    from mirror_ray.config.numbers import REPLICATORS

    try:
        return None if number is None else int(REPLICATORS.check(number))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


ConfigArgument = Annotated[
    Path, typer.Argument(metavar="CONFIG", parser=config_file, help="An mm2.properties or a YAML file.")
]
FormatOption = Annotated[OutputFormat, typer.Option("-o", "--output", help="How to print it.")]
NameOption = Annotated[str, typer.Option("--name", help="Name of the running system.")]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        envvar="RAY_ADDRESS",
        help="Ray's address. Without it: the system's own Ray on this machine, else the Ray that runs here.",
    ),
]
WatchOption = Annotated[bool, typer.Option("-w", "--watch", help="Print it again every two seconds, until Ctrl-C.")]
FlowArgument = Annotated[str | None, typer.Argument(metavar="[FLOW]", help="One flow only, for example 'A->B'.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
TopicsArgument = Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", help="Topics of the source.")]
SecondsOption = Annotated[float | None, typer.Option("--for", metavar="SECONDS", min=0, help="End after so long.")]

DEFAULT_NAME = "mirror"


def name_option(name: str) -> str:
    """What has to be added to a command in a message, so that it is about the system of that name."""
    return "" if name == DEFAULT_NAME else f" --name {shlex.quote(name)}"
