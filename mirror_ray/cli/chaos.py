"""The command chaos: kills and freezes everything repeatedly, and compares every record at the end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Annotated

import typer

from mirror_ray import own_ray, runtime
from mirror_ray.cli import foreground
from mirror_ray.cli.options import NameOption
from mirror_ray.cli.output import out, say
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.writing import writing

if TYPE_CHECKING:
    from mirror_ray.config.settings import MirrorSettings
    from mirror_ray.lab.chaos.chaos_report import ChaosOutcome, ChaosSettings

_FAULT_OF_THE_RUN = 4


def chaos(
    faults: Annotated[int, typer.Option(min=1, help="How many faults; from 12 on each kind is among them.")] = 100,
    seed: Annotated[int, typer.Option(help="The same faults in the same order for the same seed.")] = 1,
    report_path: Annotated[
        Path | None, typer.Option("--report", metavar="FILE.md", help="Write the report there, too.")
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            help="A new directory for the clusters' data and logs and the system's events, to be kept; without it a"
            " temporary one, kept where the copies are not what they should be.",
        ),
    ] = None,
    forget_every_s: Annotated[
        float,
        typer.Option(
            "--forget-every",
            metavar="SECONDS",
            min=0.1,
            help="How often brokers look for producers to forget, those of old records; Kafka's default is 600.",
        ),
    ] = 600.0,
    preserve_offsets: Annotated[
        bool,
        typer.Option(
            "--preserve-offsets",
            help="The flows have offsets = preserve, the sources begin at offsets of 1,000,000 and 3,000,000,000, and"
            " groups commit: records and groups must have the same offsets on both sides. Takes some minutes more.",
        ),
    ] = False,
    farthest_offset: Annotated[
        int,
        typer.Option(
            "--farthest-offset", min=1, help="With --preserve-offsets, where the log begins that begins last."
        ),
    ] = 3_000_000_000,
    name: NameOption = "chaos",
) -> None:
    """Kill and freeze replicators, the coordinator and brokers while records flow, then compare every record.

    All on this machine: two real Kafka clusters, flows both ways, plain, transactional and compacted topics. 100 faults
    take about half an hour. Exit 0: the copies are what they should be; 1: they are not, or something did not recover.
    """
    from mirror_ray.lab.chaos.chaos_report import ChaosSettings, chaos_report

    if own_ray.find(name) is not None:
        raise MirrorError(f"{name} runs already on this machine: `mirror-ray down --name {name}` ends it")
    with foreground.interruptible():
        settings = ChaosSettings(
            seed=seed,
            faults=faults,
            forget_every_s=forget_every_s,
            preserve_offsets=preserve_offsets,
            farthest_offset=farthest_offset,
        )
        outcome = _run(name, directory, settings)
    text = chaos_report(outcome)
    out().print(text, soft_wrap=True)
    if report_path is not None:
        with writing(report_path):
            report_path.write_text(text)
    if outcome.source_problems:
        raise typer.Exit(_FAULT_OF_THE_RUN)
    if not outcome.equal:
        raise typer.Exit(1)


def _run(name: str, kept: Path | None, settings: ChaosSettings) -> ChaosOutcome:
    """Run in the directory ``kept``, or in a temporary one that is kept unless everything is well."""
    from mirror_ray.lab.chaos.chaos_run import run_chaos

    if kept is not None and kept.exists():
        raise ConfigError(f"--dir {kept} exists: name a new directory")
    directory = kept or Path(tempfile.mkdtemp(prefix="mirror-ray-chaos-"))
    logs = [str(directory)]

    @contextmanager
    def start_system(flows: MirrorSettings, replicators: int) -> Iterator[Mirror]:
        with runtime.start(flows, name, None, replicators=replicators, detach=False) as started:
            own = own_ray.find(name)
            logs.extend([f"{own.session_dir}/logs"] if own is not None else [])
            yield started.system

    well = False
    try:
        outcome = run_chaos(settings, directory, start_system, say)
        well = outcome.equal and not outcome.source_problems
    finally:
        if well and kept is None:
            rmtree(directory, ignore_errors=True)
        else:
            say(f"the logs of the brokers and the system's events, and Ray's, are kept: {', '.join(logs)}", "yellow")
    return outcome
