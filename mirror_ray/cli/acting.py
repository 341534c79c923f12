"""Commands that change a running system: down, scale, pause, resume."""

from __future__ import annotations

from typing import Annotated

import typer

from mirror_ray.attach import attach
from mirror_ray.cli.options import DEFAULT_NAME, AddressOption, NameOption
from mirror_ray.cli.output import say, stopped_text
from mirror_ray.model.errors import ConfigError

_FlowToChange = Annotated[str, typer.Argument(metavar="FLOW", help="For example 'A->B'.", show_default=False)]
_Scope = Annotated[
    str | None, typer.Argument(metavar="[TOPIC[:PARTITION]]", help="Only this part of it.", show_default=False)
]


def down(
    deadline_s: Annotated[
        float, typer.Option("--deadline", metavar="SECONDS", min=0, help="How long draining may take.")
    ] = 30.0,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Drain and stop: nothing is lost or copied twice at the next `up`."""
    with attach(name, address) as system:
        drained = system.down(deadline_s)
    say(f"{name} {stopped_text(drained=drained)}")


def scale(
    replicators: Annotated[int, typer.Argument(metavar="N", min=1, help="How many.", show_default=False)],
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Set the number of replicators. Few partitions move, the others never stop."""
    with attach(name, address) as system:
        system.scale(replicators)
    say(f"{name} scales to {replicators} replicators; `mirror-ray replicators --watch` shows it")


def pause(
    flow: _FlowToChange, scope: _Scope = None, address: AddressOption = None, name: NameOption = DEFAULT_NAME
) -> None:
    """Stop copying a flow, a topic or a partition, until `resume`. It outlives a restart."""
    topic, partition = parse_scope(scope)
    with attach(name, address) as system:
        system.pause(flow, topic, partition)
    say(f"paused {flow}{f' {scope}' if scope else ''}")


def resume(
    flow: _FlowToChange, scope: _Scope = None, address: AddressOption = None, name: NameOption = DEFAULT_NAME
) -> None:
    """Copy on where `pause` stopped; give it what was given to `pause`."""
    topic, partition = parse_scope(scope)
    with attach(name, address) as system:
        system.resume(flow, topic, partition)
    say(f"resumed {flow}{f' {scope}' if scope else ''}")


def parse_scope(text: str | None) -> tuple[str | None, int | None]:
    """Read ``TOPIC`` or ``TOPIC:PARTITION``; a topic's name has no colon.

    Raises:
        ConfigError: What follows the colon is no partition.
    """
    if text is None:
        return None, None
    topic, colon, partition = text.partition(":")
    if not topic or (colon and not partition.isdecimal()):
        raise ConfigError(f"{text!r} is neither TOPIC nor TOPIC:PARTITION, for example orders or orders:3")
    return topic, int(partition) if colon else None
