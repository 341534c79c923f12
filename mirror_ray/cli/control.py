"""Commands that change a running system: down, scale, pause, resume, resolve."""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from mirror_ray import runtime
from mirror_ray.cli import INTERRUPTED_CODE
from mirror_ray.cli.options import DEFAULT_NAME, AddressOption, NameOption, YesOption, name_option, possible_replicators
from mirror_ray.cli.output import say, stopped_text
from mirror_ray.cli.printable import printable
from mirror_ray.cli.system import RequiredFlow
from mirror_ray.model.errors import ConfigError

_Scope = Annotated[str | None, typer.Argument(metavar="[TOPIC[:PARTITION]]", help="Only this part of it.")]


def _bound(option: str, text: str) -> Any:
    return typer.Option(option, metavar="N", min=1, callback=possible_replicators, help=text)


def down(
    deadline_s: Annotated[
        float, typer.Option("--deadline", metavar="SECONDS", min=0, help="How long draining may take.")
    ] = 30.0,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Drain and stop: nothing is lost or copied twice at the next `up`."""
    with runtime.attach(name, address) as system:
        drained = system.down(deadline_s)
    say(f"{name} {stopped_text(drained=drained)}")


def scale(
    replicators: Annotated[
        int | None, typer.Argument(metavar="[N]", min=1, callback=possible_replicators, help="How many.")
    ] = None,
    *,
    minimum: Annotated[int | None, _bound("--min", "By load and lag, at least so many.")] = None,
    maximum: Annotated[int | None, _bound("--max", "By load and lag, at most so many.")] = None,
    auto: Annotated[
        bool, typer.Option("--auto", help="By load and lag again, within the bounds that there are.")
    ] = False,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Set the number of replicators, or let it follow load and lag. Few partitions move, the others never stop."""
    by_load = auto or minimum is not None or maximum is not None
    if by_load == (replicators is not None):
        raise typer.BadParameter("say how many, or else --auto or --min N --max M")
    with runtime.attach(name, address) as system:
        if replicators is None:
            system.scale_by_load(minimum, maximum)
        else:
            system.scale(replicators)
    what = "by load and lag" if replicators is None else f"to {replicators} replicators"
    say(f"{name} scales {what}; `mirror-ray replicators --watch{name_option(name)}` shows it")


def pause(
    flow: RequiredFlow, scope: _Scope = None, address: AddressOption = None, name: NameOption = DEFAULT_NAME
) -> None:
    """Stop copying a flow, a topic or a partition, until `resume`. It outlives a restart."""
    topic, partition = parse_scope(scope)
    with runtime.attach(name, address) as system:
        system.pause(flow, topic, partition)
    say(f"paused {flow}{f' {scope}' if scope else ''}")


def resume(
    flow: RequiredFlow, scope: _Scope = None, address: AddressOption = None, name: NameOption = DEFAULT_NAME
) -> None:
    """Copy on where `pause` stopped; give it what was given to `pause`."""
    topic, partition = parse_scope(scope)
    with runtime.attach(name, address) as system:
        system.resume(flow, topic, partition)
    say(f"resumed {flow}{f' {scope}' if scope else ''}")


class FaultAnswer(StrEnum):
    """How a fault is resolved."""

    skip = "skip"
    resync = "resync"


_MEANING = {
    FaultAnswer.skip: "give up what is lost, record it, and go on",
    FaultAnswer.resync: "copy anew what can be copied; where the remote partition does not fit it is emptied first",
}


def resolve(
    flow: RequiredFlow,
    scope: Annotated[str, typer.Argument(metavar="TOPIC[:PARTITION]", help="What is in trouble, see `status`.")],
    by: Annotated[FaultAnswer, typer.Option(help="The answer; docs/operations.md says what each does.")],
    yes: YesOption = False,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Answer, once, the trouble of a stopped partition or of a refused topic."""
    topic, partition = parse_scope(scope)
    if topic is None:
        raise ConfigError("name what is to be resolved: TOPIC or TOPIC:PARTITION")
    confirm(f"{flow} {scope}: {_MEANING[by]}. Go on?", yes=yes)
    with runtime.attach(name, address) as system:
        resolved = system.resolve(flow, topic, partition, by=by.value)
    say(f"{flow}: {by.value} for {', '.join(resolved)}; `mirror-ray events{name_option(name)}` tells when it is done")


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal.

    Raises:
        ConfigError: There is nobody to ask.
        Exit: The answer is no (1), or Ctrl-C (130).
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError("there is no terminal to ask on: say --yes")
    try:
        agreed = typer.confirm(printable(question), err=True)
    except typer.Abort as aborted:
        interrupted = isinstance(aborted.__context__, KeyboardInterrupt)
        raise typer.Exit(INTERRUPTED_CODE if interrupted else 1) from None
    if not agreed:
        raise typer.Exit(1)


def parse_scope(text: str | None) -> tuple[str | None, int | None]:
    """Read ``TOPIC`` or ``TOPIC:PARTITION``; a topic's name has no colon.

    Raises:
        ConfigError: What follows the colon is no partition.
    """
    if text is None:
        return None, None
    topic, colon, partition = text.partition(":")
    if not topic or (colon and not re.fullmatch(r"[0-9]{1,9}", partition)):
        raise ConfigError(f"{text!r} is neither TOPIC nor TOPIC:PARTITION, for example orders or orders:3")
    return topic, int(partition) if colon else None
