"""Failover drills: `failover --simulate`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

import typer

from mirror_ray import own_ray, runtime
from mirror_ray.cli import foreground
from mirror_ray.cli.output import out, say
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.names import FlowName

if TYPE_CHECKING:
    from mirror_ray.config.settings import MirrorSettings
    from mirror_ray.lab.chaos.chaos_run import StartSystem
    from mirror_ray.lab.failover_drill.drill_report import DrillSettings, KillSettings


def simulate(flow: FlowName, settings: DrillSettings, name: str) -> None:
    """Rehearse a failover and print the report. Raises typer.Exit(1) where what is guaranteed does not hold."""
    from mirror_ray.lab.failover_drill.drill import drill_failover
    from mirror_ray.lab.failover_drill.drill_report import drill_report

    with _directory(flow, name) as directory:
        outcome = drill_failover(settings, directory, _system_of(name), say)
        out().print(drill_report(outcome), soft_wrap=True)
        if outcome.wrong:
            raise typer.Exit(1)


def simulate_kills(flow: FlowName, settings: KillSettings, name: str) -> None:
    """Kill a failover and a failback in every step, and print the report. Raises as ``simulate``."""
    from mirror_ray.lab.failover_drill.drill_report import kills_report
    from mirror_ray.lab.failover_drill.kills import drill_kills

    with _directory(flow, name) as directory:
        outcome = drill_kills(settings, directory, name, _system_of(name), say)
        out().print(kills_report(outcome), soft_wrap=True)
        if outcome.wrong:
            raise typer.Exit(1)


def _system_of(name: str) -> StartSystem:
    @contextmanager
    def start_system(flows: MirrorSettings, replicators: int) -> Iterator[Mirror]:
        with runtime.start(flows, name, None, replicators=replicators, detach=False) as started:
            yield started.system

    return start_system


@contextmanager
def _directory(flow: FlowName, name: str) -> Iterator[Path]:
    """Where a simulation keeps its brokers' data and logs; they are left where it does not end well."""
    from mirror_ray.lab.failover_drill.drill import FLOW

    if flow != FLOW:
        raise ConfigError(f"a simulation makes its own clusters, A and B: mirror-ray failover '{FLOW}' --simulate")
    if own_ray.find(name) is not None:
        raise MirrorError(f"{name} runs already on this machine: give the simulation another --name")
    directory = Path(tempfile.mkdtemp(prefix="mirror-ray-failover-"))
    try:
        with foreground.interruptible():
            yield directory
    except BaseException:
        say(f"the brokers' data and logs are kept: {directory}", "yellow")
        raise
    rmtree(directory, ignore_errors=True)
