"""What bounds mirror-ray's measured rates and latencies: the processors, the link, the brokers alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mirror_ray.lab.bench.contenders import BASELINE, MIRROR_RAY
from mirror_ray.lab.bench.results import ResultRow, leading

#: Share of the processors that counts as all of them: the time that is measured begins before the first record comes.
_ALL_BUSY: Final = 0.75
_LATENCY: Final = "latency_p99_ms"
#: Figures of CPU seconds for a million records, by who uses them.
_USED_BY: Final[Mapping[str, str]] = {
    "cpu_s_per_million": "mirror-ray",
    "source_cpu_s_per_million": "the source broker",
    "target_cpu_s_per_million": "the target brokers",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RateBound:
    """What bounds one rate."""

    row: ResultRow
    #: Processors that were busy meanwhile, by who used them.
    busy: Mapping[str, float]
    #: The rate as a share of the floor's; None: the floor was not measured.
    of_baseline: float | None
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyBound:
    """A p99 beside that of the same records where they were written; None: that was not measured."""

    row: ResultRow
    p99_ms: float
    written_p99_ms: float | None


def rate_bounds(rows: Sequence[ResultRow], cores: int) -> list[RateBound]:
    """The bounds of mirror-ray's rates on a machine with so many cores."""
    baselines = _baselines(rows, "records_per_s")
    found = []
    for row in rows:
        rate, seconds = row.median("records_per_s"), row.median("seconds")
        measured = "source_cpu_s_per_million" in row.figures and row.judgement is not None
        if rate and seconds and measured and _is_ours(row):
            busy = _busy(row, seconds)
            baseline = baselines.get((row.workload, row.case))
            of_baseline = rate / baseline if baseline else None
            found.append(RateBound(row=row, busy=busy, of_baseline=of_baseline, explanation=_explain(row, busy, cores)))
    return found


def latency_bounds(rows: Sequence[ResultRow]) -> list[LatencyBound]:
    """The bounds of mirror-ray's latencies."""
    baselines = _baselines(rows, _LATENCY)
    found = []
    for row in rows:
        p99_ms = row.median(_LATENCY)
        if p99_ms is not None and _is_ours(row) and leading(row.workload) == _LATENCY:
            written_ms = row.median("written_p99_ms") or baselines.get((row.workload, row.case))
            found.append(LatencyBound(row=row, p99_ms=p99_ms, written_p99_ms=written_ms))
    return found


def _baselines(rows: Sequence[ResultRow], figure: str) -> dict[tuple[str, str], float | None]:
    """The floor's figure by workload and case."""
    return {(row.workload, row.case): row.median(figure) for row in rows if row.contender == BASELINE.name}


def _busy(row: ResultRow, seconds: float) -> dict[str, float]:
    """Processors that were busy from the commit to the last record, the time over which both are measured."""
    millions = row.judgement.copied / row.runs / 1e6 if row.judgement is not None else 0.0
    return {user: (row.median(name) or 0.0) * millions / seconds for name, user in _USED_BY.items()}


def _explain(row: ResultRow, busy: Mapping[str, float], cores: int) -> str:
    most = max(busy, key=lambda user: busy[user])
    total = sum(busy.values())
    if total >= _ALL_BUSY * cores:
        return f"the processors, {busy[most] / total:.0%} of their work is that of {most}"
    round_trip = re.search(r"(\d+) ms away", row.case)
    bytes_per_s = row.median("source_bytes_per_s")
    if round_trip and bytes_per_s:
        on_the_way = bytes_per_s * int(round_trip[1]) / 1e9
        return f"the link, with {on_the_way:.0f} MB on the way at a time"
    return f"waiting: the processors are {total / cores:.0%} busy"


def _is_ours(row: ResultRow) -> bool:
    return row.contender.startswith(MIRROR_RAY.name)
