"""The tables of figures in the README and in the docs are what the race's results come to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mirror_ray.lab.bench.results import FIGURES

_ROOT = Path(__file__).parents[3]
_HEADROOM = 0.7
#: What a row of the sizing table says, and where its figures are: workload, case, contender.
_SIZING = {
    "1 KB, zstd, 500 in a batch": ("throughput", "", "mirror-ray"),
    "1 KB, zstd, 100 in a batch": ("codecs", "zstd", "mirror-ray"),
    "1 KB, uncompressed, 100 in a batch": ("codecs", "none", "mirror-ray"),
    "100 B, uncompressed, 10 in a batch": ("small-batches", "", "mirror-ray"),
    "1 KB, uncompressed, each a batch of its own": ("single-records", "", "mirror-ray"),
    "900 KB": ("large-records", "", "mirror-ray"),
    "1 KB in batches of 16 KB, target 100 ms away, 8 partitions": (
        "wan",
        "target 100 ms away, 8 partitions",
        "mirror-ray",
    ),
    "the same, source 100 ms away": ("wan", "source 100 ms away, 8 partitions", "mirror-ray"),
    "1 KB, zstd, target of three brokers, replication factor 3": ("rf3", "", "mirror-ray"),
    "a topic with LogAppendTime": ("repack", "LogAppendTime source", "mirror-ray"),
    "a compacted topic": ("repack", "compacted source", "mirror-ray"),
    "uncompressed, recompressed with zstd on the way": ("repack", "uncompressed, as it is", "mirror-ray zstd"),
}


class _Row(NamedTuple):
    """A row of the README's table: figures of mirror-ray, MM2 tuned and MM2, or of whom is named instead of them."""

    name: str
    workload: str
    figures: tuple[str, ...]
    case: str = ""
    contenders: tuple[str, ...] = ("mirror-ray", "mm2 tuned", "mm2")


_FAR = ("source_bytes_per_s",)
_KILLED = "all of it, started again"
_README = (
    _Row("1 KB in zstd batches of 500, records/s", "throughput", ("records_per_s",)),
    _Row(
        "the same, with MM2's exactly-once mode",
        "throughput",
        ("records_per_s",),
        contenders=("mirror-ray", "mm2 tuned eos", "mm2 eos"),
    ),
    _Row("CPU for a million of them", "throughput", ("cpu_s_per_million",)),
    _Row("memory, largest process", "throughput", ("process_bytes",)),
    _Row("100 B in batches of 10, records/s", "small-batches", ("records_per_s",)),
    _Row("1 KB, each a batch of its own, records/s", "single-records", ("records_per_s",)),
    _Row("500 records a second: latency p50; p99", "trickle", ("latency_p50_ms", "latency_p99_ms")),
    _Row("one partition, target 100 ms away", "wan", _FAR, "target 100 ms away, 1 partition"),
    _Row("eight partitions, target 100 ms away", "wan", _FAR, "target 100 ms away, 8 partitions"),
    _Row("one partition, source 100 ms away", "wan", _FAR, "source 100 ms away, 1 partition"),
    _Row("target of three brokers, replication factor 3, records/s", "rf3", ("records_per_s",)),
    _Row("2,000 partitions, ten of them busy; all idle: of a core", "many-partitions", ("cpu_share", "idle_cpu_share")),
    _Row("start of the process to the first record", "start", ("first_record_s",)),
    _Row("the same, on a Ray that runs", "start", ("first_record_s",), contenders=("mirror-ray on Ray",)),
    _Row("a new topic is copied after", "start", ("discovery_s",)),
    _Row("doubled after SIGKILL half-way through 2,000,000 records", "restart", ("doubled",), _KILLED),
    _Row("longest standstill after it", "restart", ("standstill_s",), _KILLED),
    _Row("the same, one replicator killed", "restart", ("standstill_s",), "one replicator"),
    _Row("read again by a group after a failover: mean; most", "groups", ("reread_mean", "reread_most")),
    _Row("a commit is synced after", "groups", ("commit_delay_s",)),
)

_Figures = Mapping[tuple[str, str, str], Mapping[str, Any]]


def _measured() -> _Figures:
    rows = json.loads((_ROOT / "docs/benchmarks/race/results.json").read_text())["rows"]
    return {(row["workload"], row["case"], row["contender"]): row["figures"] for row in rows}


def _sizing_table() -> list[str]:
    figures = _measured()
    lines = [
        "| records | measured records/s | CPU seconds for a million | plan with, records/s | MB/s |",
        "|---|---|---|---|---|",
    ]
    for name, where in _SIZING.items():
        rate, cpu_s, bytes_per_s = (
            figures[where][key]["median"] for key in ("records_per_s", "cpu_s_per_million", "source_bytes_per_s")
        )
        planned = _HEADROOM * min(rate, 1_000_000 / cpu_s)
        figures_of_it = (rate, cpu_s, planned, bytes_per_s / rate * planned / 1e6)
        lines.append(f"| {name} | {' | '.join(map(_short, figures_of_it))} |")
    return lines


def _short(number: float) -> str:
    """Two figures: one run does not say more."""
    rounded = float(f"{number:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def _readme_table() -> list[str]:
    figures = _measured()
    lines = ["| what | mirror-ray | mm2 tuned | mm2 |", "|---|---|---|---|"]
    for row in _README:
        cells = [
            _cell(figures.get((row.workload, row.case, contender), {}), row.figures) for contender in row.contenders
        ]
        lines.append(f"| {row.name} | {' | '.join([*cells, '', ''][:3])} |")
    return lines


def _cell(measured: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """As in the report; empty where nothing was measured."""
    return "; ".join(FIGURES[name].words(measured[name]["median"]) for name in names if name in measured)


def _between(text: str, begin: str, end: str) -> list[str]:
    return text.partition(f"<!-- {begin} -->\n")[2].partition(f"<!-- {end} -->")[0].strip().splitlines()


def test_the_sizing_table_is_made_from_the_race() -> None:
    """Each row by the formula that stands above it; the expected table is in the failure."""
    text = (_ROOT / "docs/install.md").read_text()
    assert _between(text, "sizing: checked by a test", "sizing end") == _sizing_table()


def test_the_readmes_table_is_made_from_the_race() -> None:
    """The expected table is in the failure."""
    text = (_ROOT / "README.md").read_text()
    assert _between(text, "figures: checked by a test", "figures end") == _readme_table()
