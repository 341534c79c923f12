"""The command bench: mirror-ray against the real MirrorMaker 2, on this machine."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Annotated, Any

import psutil
import typer

from mirror_ray import own_ray, runtime
from mirror_ray.cli import foreground
from mirror_ray.cli.options import FormatOption, OutputFormat
from mirror_ray.cli.output import Columns, column, count, emit, out, render, say
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.writing import writing

if TYPE_CHECKING:
    from mirror_ray.lab.bench.bench_report import BenchResults
    from mirror_ray.lab.bench.results import ResultRow
    from mirror_ray.lab.bench.workloads import Workload


_SCALING: Columns = (
    column("SYSTEMS", "systems"),
    column("REPLICATORS", "replicators"),
    column("PARTITIONS", "partitions", count),
    column("RECORDS", "records", count),
    column("CPU S PER MILLION", "cpu_s_per_million", "{:.3f}".format),
    column("AGAINST THE FIRST", "ratio", "{:.2f}".format),
    ("RECORDS/S", lambda row: count(row["records"] / row["seconds"])),
)


class Rival(StrEnum):
    """Whom mirror-ray can run against."""

    mm2 = "mm2"


def bench(
    against: Annotated[
        Rival | None, typer.Option(help="Run against MirrorMaker 2, too; without it mirror-ray runs alone.")
    ] = None,
    workload: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="This workload only; may be given several times.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Five workloads, shortened: under ten minutes.")] = False,
    size: Annotated[
        float, typer.Option(min=0.001, max=1.0, help="Share of the records; figures of a small one say little.")
    ] = 1.0,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--to", metavar="DIR", help="Write report.md, results.json and a picture for each workload there."
        ),
    ] = None,
    scaling: Annotated[
        bool,
        typer.Option(
            "--scaling",
            help="Instead: processor time per record, by replicators and partitions; the brokers are stubs.",
        ),
    ] = False,
    output: FormatOption = OutputFormat.table,
) -> None:
    """Run a benchmark against the real MirrorMaker 2: same data, same machine, one run.

    Two real Kafka clusters are started here and ended at the end. Without --quick it takes up to an hour and a half.
    Exit 1: a copy of mirror-ray was not equal to its source.
    """
    if scaling:
        if against or workload or quick or directory:
            raise ConfigError("--scaling runs alone: of the other options it takes --size and --output")
        _scaling(size, output)
        return
    from mirror_ray.lab.bench.bench_report import BenchResults, bench_report
    from mirror_ray.lab.bench.contender_process import NAME
    from mirror_ray.lab.bench.workloads import workloads

    chosen = _choose(workloads(quick=quick, size=size), workload or [], alone=against is None)
    if own_ray.find(NAME) is not None:
        raise MirrorError(f"{NAME} runs already on this machine: `mirror-ray down --name {NAME}` ends it")
    if os.environ.get("PYTHONDONTWRITEBYTECODE"):
        say(
            "PYTHONDONTWRITEBYTECODE is set, so every process compiles Ray anew: unset it, or starts take longer",
            "yellow",
        )
    taken = _StolenTime()
    with foreground.interruptible():
        rows = _run(chosen, size)
    results = BenchResults(
        workloads=chosen,
        rows=rows,
        machine=_machine(taken.share()),
        versions=_versions(),
        command=shlex.join(["mirror-ray", *sys.argv[1:]]),
        cores=os.cpu_count() or 1,
    )
    if directory is not None:
        _write(directory, results)
    emit(_plain(results), output, lambda: out().print(bench_report(results, {}), soft_wrap=True))
    if any(row.contender.startswith("mirror-ray") and row.judgement and not row.judgement.equal for row in rows):
        raise typer.Exit(1)


def _scaling(size: float, output: OutputFormat) -> None:
    from mirror_ray.lab.bench.core_cost import measure_core_cost

    with foreground.interruptible():
        costs = measure_core_cost(size, say)
    least = costs[0].cpu_s_per_million
    rows = [
        asdict(cost) | {"cpu_s_per_million": cost.cpu_s_per_million, "ratio": cost.cpu_s_per_million / least}
        for cost in costs
    ]
    render(rows, _SCALING, output)


def _choose(known: Sequence[Workload], names: Sequence[str], *, alone: bool) -> list[Workload]:
    """The workloads of these names, all without any; ``alone``: without MM2."""
    unknown = sorted(set(names) - {workload.name for workload in known})
    if unknown:
        there = ", ".join(workload.name for workload in known)
        raise ConfigError(f"no workload is named {', '.join(unknown)}: {there}")
    chosen = [workload for workload in known if not names or workload.name in names]
    return [workload.without("mm2") for workload in chosen] if alone else chosen


def _run(chosen: Sequence[Workload], size: float) -> list[ResultRow]:
    from mirror_ray.lab.bench.contender_process import RAY_NAME
    from mirror_ray.lab.bench.results import rows
    from mirror_ray.lab.bench.session import run_benchmark

    began_s = time.monotonic()

    def report(text: str) -> None:
        say(f"{time.monotonic() - began_s:6.0f} s  {text}")

    directory = Path(tempfile.mkdtemp(prefix="mirror-ray-bench-"))
    found: list[ResultRow] = []
    try:
        found = rows(run_benchmark(chosen, directory, partial(runtime.loopback_ray, RAY_NAME), report, size=size))
    finally:
        if found and all(row.figures for row in found):
            rmtree(directory, ignore_errors=True)
        else:
            say(f"not all was measured; the contenders' configurations and logs are in {directory}", "yellow")
    return found


def _write(directory: Path, results: BenchResults) -> None:
    from mirror_ray.lab.bench.bench_report import bench_report, picture

    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
        pictures = {}
        for workload in results.workloads:
            drawn = picture(workload, results.rows)
            if drawn:
                pictures[workload.name] = f"{workload.name}.svg"
                (directory / pictures[workload.name]).write_text(drawn)
        (directory / "report.md").write_text(bench_report(results, pictures))
        (directory / "results.json").write_text(json.dumps(_plain(results), indent=2) + "\n")
    say(f"the report is {directory / 'report.md'}")


def _plain(results: BenchResults) -> dict[str, Any]:
    return {
        "machine": results.machine,
        "versions": results.versions,
        "command": results.command,
        "cores": results.cores,
        "workloads": {workload.name: workload.title for workload in results.workloads},
        "rows": [asdict(row) for row in results.rows],
    }


def _machine(taken: float | None) -> str:
    """``taken``: the share of its processors' time that a host has taken away; None: that is not known."""
    memory_gb = psutil.virtual_memory().total / 1e9
    stolen = "" if taken is None else f" Its host took {taken:.1%} of the processors' time away."
    return (
        f"One machine for all, with {os.cpu_count()} cores{_model()} and {memory_gb:.0f} GB: {platform.system()},"
        f" {time.strftime('%Y-%m-%d', time.gmtime())}.{stolen}"
    )


def _model() -> str:
    """What the processor calls itself, where the system says so."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f" ({names[0]})" if names else ""


class _StolenTime:
    """Measures the processor time that the host takes away from now on."""

    def __init__(self) -> None:
        self._before = psutil.cpu_times()

    def share(self) -> float | None:
        now = psutil.cpu_times()
        if not hasattr(now, "steal"):
            return None
        passed = sum(now) - sum(self._before)
        return float((now.steal - self._before.steal) / passed) if passed else 0.0


def _versions() -> str:
    from importlib.metadata import version

    import mirror_ray
    from mirror_ray.jars.maven import KAFKA

    return (
        f"mirror-ray {mirror_ray.__version__}, Ray {version('ray')}, Python {platform.python_version()};"
        f" brokers and MirrorMaker 2 of {KAFKA.replace('-', ' ')}."
    )
