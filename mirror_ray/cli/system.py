"""What a command works on: a running system, or a configuration if none runs; and a Ray for Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirror_ray import runtime
from mirror_ray.cli.options import config_file
from mirror_ray.cli.output import say, watching
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import ConfigError, NoAnswerError, NotRunningError
from mirror_ray.model.names import FlowName

if TYPE_CHECKING:
    from mirror_ray.config.settings import MirrorSettings

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        parser=config_file,
        help="The system's configuration; needed where no system runs, or Ray is gone.",
    ),
]
RequiredFlow = Annotated[str, typer.Argument(metavar="FLOW", help="For example 'A->B'.")]


def with_system(name: str, address: str | None, show: Callable[[Mirror], None], *, watch: bool = False) -> None:
    """Call ``show`` with the running system, with ``watch`` until Ctrl-C. Raises as ``runtime.attach`` does."""
    with runtime.attach(name, address) as system:
        watching(lambda: show(system), watch=watch)


def parse_flow(flow: str) -> FlowName:
    """Read the flow that a command line names.

    Raises:
        ConfigError: It is not written as ``A->B``.
    """
    try:
        return FlowName.parse(flow)
    except ValueError as error:
        raise ConfigError(str(error)) from None


@contextmanager
def find_system(
    config: Path | None,
    name: str,
    address: str | None,
    flow: FlowName,
    *,
    must_answer: bool = False,
    or_off: bool = False,
) -> Iterator[tuple[MirrorSettings, Mirror | None]]:
    """Find the settings, and the running system if it has the flow; with ``or_off`` also if the flow is off there.

    ``must_answer``: a running system that does not answer is an error, because of what it may do meanwhile. Otherwise
    the command goes on by the configuration, if there is one.

    Raises:
        ConfigError: There is neither a configuration nor a system.
        NoAnswerError: The system does not answer, and must, or there is no configuration.
    """
    from mirror_ray.config.load import load_settings

    settings = load_settings(config).settings if config is not None else None
    try:
        mirror = runtime.attach(name, address)
    except NotRunningError as error:
        if settings is None:
            raise ConfigError(f"{error}; where none runs, name its configuration with --config FILE") from error
        yield settings, None
        return
    with mirror:
        try:
            if or_off:
                runs = any(known.name == flow for known in mirror.settings().flows)
            else:
                runs = any(status.flow == str(flow) for status in mirror.flows)
            settings = settings or mirror.settings()
        except NoAnswerError as error:
            if settings is None or must_answer:
                raise
            say(f"{error}; going on without it, by the configuration", "yellow")
            runs = False
        yield settings, mirror if runs else None


@contextmanager
def ray_for_spark(name: str, address: str | None, mirror: Mirror | None) -> Iterator[None]:
    """Connect to a Ray: that of the running system, the one at ``address``, or else a new one, which ends here.

    Raises:
        MirrorError: Ray can't be reached, or does not start.
    """
    with runtime.some_ray(f"{name}-spark", address) if mirror is None else nullcontext(), runtime.ending_with_ray():
        yield
