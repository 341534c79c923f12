"""The report of ``scale``: what each size costs, and how soon the coordinator acts."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from mirror_ray.lab.benchmarks.scale_run import PhaseCost, ScaleResult
from mirror_ray.lab.report_parts import Cell, document, machine_size, markdown_table

_WHAT = """\
The coordinator is the real one (`CoordinatorService`, with discovery, placement, state, status and metrics), alone in a
process; Ray is left out. Around it are stubs, in processes of their own. Of the clusters: at the wire, brokers that
answer Metadata, ListOffsets, OffsetForLeaderEpoch and InitProducerId. At the port: topics are created and configs read
by calls to the stubs (`make bench-topics` has the cost of the real ones), and state topics are kept by such calls, with
keys and values as in Kafka, so what librdkafka and a broker take to write them is not in here. Replicators copy
nothing; they take assignments and report as real ones do, twice a second, what has changed, pickled, as Ray passes it
on. One partition of a hundred is written to. The coordinator waits ten times as long as usual for replicators that do
not answer, for the machine is shared.

How it combines: five clusters in a full mesh, so 20 flows. Each cluster has 50 topics of its own, which are copied to
the four others: 1,000 topics as flows see them. A topic has 1, 10, 50 or 100
partitions. A replicator has 2,000 partitions; there are ten replicators at least."""

_BY_THE_CLOCK = """\
Seconds by the clock; in brackets processor seconds, and the longest turn of the event loop, which holds up all else. A
lost node is known to Ray first, which takes its own time; then leases of 4 s run out."""

_PHASES: Mapping[str, str] = {
    "start": "first start: every topic is found, created, begun, written to the state, handed out",
    "restart": "the coordinator was killed: state read, replicators adopted",
    "a new topic": "a new topic on one cluster, until its copies are handed out in four flows",
    "a tenth of the replicators lost": "a tenth of the replicators lost with their node, until others have it all",
    "a setting of every flow": "`up` that changes a setting of each flow which no copy depends on",
    "a topic excluded from one flow": "`up` that leaves a topic out of one flow, until it is let go",
}
_CALLS: Mapping[str, str] = {
    "snapshot": "a snapshot, of which all that is shown is made",
    "snapshot pickled": "the same, pickled for the gateway",
    "scrape": "`/metrics` as it comes: 2,000 partitions with series of their own",
    "scrape with every partition": "`/metrics` with every partition",
    "page": "a second of the open page",
    "status": "`/api/v1/status`",
}


def scale_report(results: Mapping[int, ScaleResult], command: str, others: Sequence[tuple[str, str]]) -> str:
    """In Markdown. ``others``: titles, and the output of commands that were run after it."""
    sizes = [f"{size:,}" for size in results]
    return document(
        [
            "# One coordinator, up to 100,000 partitions",
            _machine(command),
            _WHAT,
            "## What runs all the time",
            markdown_table(
                ("partitions", *sizes),
                [
                    ("of a core, nobody looks", *(_share(one.phases["at rest"]) for one in results.values())),
                    ("of a core, page open", *(_share(one.phases["watched"]) for one in results.values())),
                    (
                        "microseconds for a partition and second, nobody looks",
                        *(1e6 * _load(one.phases["at rest"]) / size for size, one in results.items()),
                    ),
                    ("memory, MB", *(one.figures["memory, bytes"] / 1e6 for one in results.values())),
                    (
                        "memory for a partition, KB",
                        *(one.figures["memory, bytes"] / 1e3 / size for size, one in results.items()),
                    ),
                ],
            ),
            "## How soon it acts",
            _BY_THE_CLOCK,
            markdown_table(
                ("partitions", *sizes),
                [(text, *(_cost(one.phases[name]) for one in results.values())) for name, text in _PHASES.items()],
            ),
            "## What is shown",
            "Processor milliseconds, and bytes before compression.",
            markdown_table(
                ("partitions", *sizes),
                [(text, *(_call(one, name) for one in results.values())) for name, text in _CALLS.items()],
            ),
            *(f"## {title}\n\n```\n{output.rstrip()}\n```" for title, output in others),
        ]
    )


def _machine(command: str) -> str:
    return (
        f"Written by `{command}`, on {time.strftime('%Y-%m-%d')}, on {machine_size()}, "
        f"{platform.system()}, that had other work, too; Python "
        f"{platform.python_version()}, Ray {version('ray')}. Processor time is the coordinator's; times "
        "by the clock are longer here than on a machine of one's own."
    )


def _load(cost: PhaseCost) -> float:
    return cost.cpu_s / cost.seconds


def _share(cost: PhaseCost) -> Cell:
    return f"{_load(cost):.1%}"


def _cost(cost: PhaseCost) -> Cell:
    return f"{cost.seconds:.1f} ({cost.cpu_s:.1f}; {cost.turn_s:.2f})"


def _call(one: ScaleResult, name: str) -> Cell:
    size = one.figures.get(f"{name}, bytes")
    return f"{1000 * one.figures[f'{name}, s']:,.0f} ms" + (f", {size / 1000:,.0f} KB" if size is not None else "")
