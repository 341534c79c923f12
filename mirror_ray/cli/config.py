"""Commands that show and change the settings of a running system: config, set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mirror_ray import runtime
from mirror_ray.cli.options import DEFAULT_NAME, AddressOption, NameOption, OutputFormat
from mirror_ray.cli.output import emit, say
from mirror_ray.model.errors import ConfigError

if TYPE_CHECKING:
    from mirror_ray.config.difference import SettingsDifference

_SYSTEM = "."


def set_keys(
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="For example 'A->B'; '.': the system's own keys.")],
    keys: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE...", help="Such as topics.include=orders.*; KEY- for its default.")
    ],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would change, and change nothing.")] = False,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Change keys of a running system, until the next `up`; only what they touch stops.

    `mirror-ray config` writes the settings that then hold, for you to keep.
    """
    changes = parse_changes(keys)
    with runtime.attach(name, address) as system:
        found = system.set(None if flow == _SYSTEM else flow, changes, dry_run=dry_run)
    say_changed(f"{name} would be" if dry_run else name, found)
    if not (dry_run or found.nothing):
        say(f"it holds until the next `up`; to keep it: mirror-ray config --name {name} > FILE.yaml")


def config(
    output: Annotated[OutputFormat, typer.Option("-o", "--output", help="How to print it.")] = OutputFormat.yaml,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Write the settings of a running system as a file for `up`; each secret as a reference to a variable."""
    from mirror_ray.config.native import native_form

    if output is OutputFormat.table:
        raise ConfigError("config is written as yaml or json: -o yaml, or -o json")
    with runtime.attach(name, address) as system:
        settings = system.settings()
    emit(native_form(settings), output, lambda: None)


def parse_changes(texts: list[str]) -> dict[str, str | None]:
    """Read ``KEY=VALUE`` and ``KEY-``.

    Raises:
        ConfigError: One is neither, or a key is given twice.
    """
    changes: dict[str, str | None] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals and not text.endswith("-"):
            raise ConfigError(f"{text!r} is neither KEY=VALUE nor KEY-, for example topics.include=orders.*")
        key = key.strip() if equals else text[:-1]
        if key in changes:
            raise ConfigError(f"{key} is given twice")
        changes[key] = value if equals else None
    return changes


def say_changed(what: str, difference: SettingsDifference) -> None:
    """Print what a change affects: a line for all of it, and one for each key."""
    say(f"{what}: {difference}")
    for flow in difference.flows:
        for key in flow.keys:
            say(f"  {flow.flow} {key}")
    for key in difference.system:
        say(f"  {key}")
