"""What one coordinator costs at 1,000 to 100,000 partitions, and how soon it acts; writes docs/benchmarks/scale.md.

::

    make bench-scale
    .venv/bin/python -m mirror_ray.lab.benchmarks.scale [--partitions 1000,10000] [--profile start] [--to FILE]

The coordinator is the real one, in a process of its own. Around it are stubs: brokers that answer Metadata,
ListOffsets, OffsetForLeaderEpoch and InitProducerId at the wire, and replicators that copy nothing and report as real
ones do. State topics are kept by the stubs, as JSON. Each of five clusters has 50 topics of its own, which are copied
to the four others: 20 flows with 1,000 topics.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from mirror_ray.lab.bench.piped_process import piped_process
from mirror_ray.lab.benchmarks.harness import parse_arguments
from mirror_ray.lab.benchmarks.scale_ports import ScaleWorld
from mirror_ray.lab.benchmarks.scale_report import scale_report
from mirror_ray.lab.benchmarks.scale_run import ScaleResult, run_phases, run_restart
from mirror_ray.lab.benchmarks.scale_stubs import ScaleShape, serve_clusters, serve_fleet

_EACH: Final = 2_000
_LEAST: Final = 10


def measure(partitions: int, groups: int, profiled: str) -> ScaleResult:
    """All phases with so many partitions."""
    shape = ScaleShape(partitions=partitions, replicators=max(_LEAST, partitions // _EACH))
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scale-")))
        clusters, fleet = str(directory / "clusters"), str(directory / "fleet")
        addresses = stack.enter_context(piped_process(serve_clusters, clusters, shape)).recv()
        stack.enter_context(piped_process(serve_fleet, fleet, shape.busy)).recv()
        world = ScaleWorld(
            shape=shape,
            addresses=addresses,
            clusters_path=clusters,
            fleet_path=fleet,
            settings_file=directory / "settings",
            groups=groups,
        )
        with piped_process(run_phases, world, profiled) as coordinator:
            result: ScaleResult = coordinator.recv()
        with piped_process(run_restart, world, profiled) as coordinator:
            result.phases |= coordinator.recv().phases
    return result


def others() -> Iterator[tuple[str, str]]:
    """What a coordinator of this size has beside it, by the benchmarks that have it."""
    yield "5,000 consumer groups, on real brokers (`make bench-carry`)", _output("group_sync", "--partitions", "20")
    yield "Idle partitions of a replicator, between stub brokers", _output("scale_idle")


def _output(module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", f"mirror_ray.lab.benchmarks.{module}", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    options = parse_arguments(
        __doc__,
        partitions=("1000,10000,50000,100000", "sizes, each measured by itself"),
        groups=(5000, "consumer groups that the checkpoint actor reports of"),
        profile=("", "the phase whose most expensive functions are printed"),
        alone=(False, "without the benchmarks of groups and idle replicators"),
        to=("", "file that the report is written to; without it, it is printed"),
    )
    results: dict[int, ScaleResult] = {}
    for partitions in map(int, options.partitions.split(",")):
        results[partitions] = measure(partitions, options.groups, options.profile)
        for name, cost in results[partitions].phases.items():
            print(f"{partitions:,} partitions, {name}: {cost.seconds:.1f} s, {cost.cpu_s:.1f} s CPU", flush=True)
    alone = " --alone" if options.alone else ""
    command = f"make bench-scale ARGS='--partitions {options.partitions}{alone}'"
    report = scale_report(results, command, [] if options.alone else list(others()))
    if options.to:
        Path(options.to).write_text(report, encoding="utf-8")
    else:
        print(report)


if __name__ == "__main__":
    main()
