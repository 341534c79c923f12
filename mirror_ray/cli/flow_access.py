"""What a command about one flow works on: a running system, or where none runs a configuration; and a Ray for Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirror_ray.attach import attach
from mirror_ray.cli.options import config_file
from mirror_ray.cli.output import say
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
        show_default=False,
    ),
]


def parse_flow(flow: str) -> FlowName:
    """The flow that a command line names.

    Raises:
        ConfigError: It is not written as ``A->B``.
    """
    try:
        return FlowName.parse(flow)
    except ValueError as error:
        raise ConfigError(str(error)) from None


@contextmanager
def find_system(
    config: Path | None, name: str, address: str | None, flow: FlowName, *, must_answer: bool = False
) -> Iterator[tuple[MirrorSettings, Mirror | None]]:
    """The settings, and the running system where there is one that has the flow.

    ``must_answer``: what runs and does not answer is not gone on without, for what it may do meanwhile.

    Raises:
        ConfigError: There is neither a configuration nor a system.
        NoAnswerError: The system does not answer, and must, or there is no configuration.
    """
    from mirror_ray.config.load import load_settings

    settings = load_settings(config).settings if config is not None else None
    try:
        mirror = attach(name, address)
    except NotRunningError as error:
        if settings is None:
            raise ConfigError(f"{error}; where none runs, name its configuration with --config FILE") from error
        yield settings, None
        return
    with mirror:
        try:
            runs = any(each.flow == str(flow) for each in mirror.flows)
            settings = settings or mirror.settings()
        except NoAnswerError as error:
            if settings is None or must_answer:
                raise
            say(f"{error}; going on without it, by the configuration", "yellow")
            runs = False
        yield settings, mirror if runs else None


@contextmanager
def ray_for_spark(name: str, address: str | None, mirror: Mirror | None) -> Iterator[None]:
    """Connected to a Ray: that of the running system, the one at ``address``, or else one of its own, which ends here.

    Raises:
        MirrorError: Ray can't be reached, or does not start.
    """
    from mirror_ray.cli import launch

    with launch.some_ray(f"{name}-spark", address) if mirror is None else nullcontext(), launch.ending_with_ray():
        yield
