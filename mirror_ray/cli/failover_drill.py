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
    from mirror_ray.lab.failover_drill.drill_report import DrillSettings, KillSettings
    from mirror_ray.lab.failover_drill.there_and_back_report import ThereAndBackSettings

    Settings = DrillSettings | KillSettings | ThereAndBackSettings


def chosen(
    groups: int, seed: int, *, planned: bool, kills: bool, identity: bool, rounds: int | None, preserve_offsets: bool
) -> Settings:
    """The simulation that the options ask for; ``rounds``: as of --there-and-back.

    Raises:
        ConfigError: They ask for two.
    """
    from mirror_ray.lab.failover_drill.drill_report import DrillSettings, KillSettings
    from mirror_ray.lab.failover_drill.there_and_back_report import ThereAndBackSettings

    if kills and rounds is not None:
        raise ConfigError("--kills and --there-and-back are two simulations: say one of them")
    if preserve_offsets and rounds is None:
        raise ConfigError("--preserve-offsets is for a simulation there and back: say --there-and-back ROUNDS, too")
    if identity and not kills:
        raise ConfigError("--identity is for a simulation with kills: say --kills, too")
    if rounds is not None:
        return ThereAndBackSettings(
            rounds=rounds, groups=groups, seed=seed, planned=planned, preserve_offsets=preserve_offsets
        )
    if kills:
        return KillSettings(groups=groups, seed=seed, identity=identity)
    return DrillSettings(groups=groups, seed=seed, planned=planned)


def simulate(flow: FlowName, settings: Settings, name: str) -> None:
    """Rehearse a failover, or both ways, or kill a failover and a failback in every step, and print the report.

    Raises:
        typer.Exit: With 1: what is guaranteed does not hold.
    """
    from mirror_ray.lab.failover_drill.drill import drill_failover
    from mirror_ray.lab.failover_drill.drill_report import DrillSettings, KillSettings, drill_report, kills_report
    from mirror_ray.lab.failover_drill.kills import drill_kills
    from mirror_ray.lab.failover_drill.there_and_back import drill_there_and_back
    from mirror_ray.lab.failover_drill.there_and_back_report import there_and_back_report

    @contextmanager
    def start_system(flows: MirrorSettings, replicators: int) -> Iterator[Mirror]:
        with runtime.start(flows, name, None, replicators=replicators, detach=False) as started:
            yield started.system

    with _directory(flow, name) as directory:
        if isinstance(settings, DrillSettings):
            outcome = drill_failover(settings, directory, start_system, say)
            wrong, text = bool(outcome.wrong), drill_report(outcome)
        elif isinstance(settings, KillSettings):
            kills = drill_kills(settings, directory, name, start_system, say)
            wrong, text = bool(kills.wrong), kills_report(kills)
        else:
            trip = drill_there_and_back(settings, directory, name, start_system, say)
            wrong, text = bool(trip.wrong), there_and_back_report(trip)
        out().print(text, soft_wrap=True)
        if wrong:
            raise typer.Exit(1)


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
