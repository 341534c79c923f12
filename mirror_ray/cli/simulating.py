"""A rehearsed failover: `failover --simulate`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

import typer

from mirror_ray import own_ray
from mirror_ray.cli import foreground, launch
from mirror_ray.cli.output import out, say
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.names import FlowName

if TYPE_CHECKING:
    from mirror_ray.chaos.rehearsal_outcome import RehearsalSettings
    from mirror_ray.config.settings import MirrorSettings


def simulate(flow: FlowName, settings: RehearsalSettings, name: str) -> None:
    """Rehearse a failover and print the report. Raises typer.Exit(1) where what is guaranteed does not hold."""
    from mirror_ray.chaos.rehearsal import FLOW, rehearse
    from mirror_ray.chaos.rehearsal_outcome import report

    if flow != FLOW:
        raise ConfigError(f"a simulation makes its own clusters, A and B: mirror-ray failover '{FLOW}' --simulate")
    if own_ray.find(name) is not None:
        raise MirrorError(f"{name} runs already on this machine: give the simulation another --name")

    @contextmanager
    def start_system(flows: MirrorSettings, replicators: int) -> Iterator[Mirror]:
        with launch.start(flows, name, None, replicators=replicators, detach=False) as started:
            yield started.system

    directory, well = Path(tempfile.mkdtemp(prefix="mirror-ray-failover-")), False
    try:
        with foreground.interruptible():
            outcome = rehearse(settings, directory, start_system, say)
        well = not outcome.wrong
    finally:
        if well:
            rmtree(directory, ignore_errors=True)
        else:
            say(f"the brokers' data and logs are kept: {directory}", "yellow")
    out().print(report(outcome), soft_wrap=True)
    if not well:
        raise typer.Exit(1)
