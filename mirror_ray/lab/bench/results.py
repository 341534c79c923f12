"""Results of a benchmark: one run's figures, all runs of a measurement, and how figures are called and written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, Literal

from mirror_ray.lab.judge import CopyResult
from mirror_ray.report.number_format import UNKNOWN, lasting, number, per_second, share, short, size


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementResult:
    """The result of one run of a measurement."""

    #: By their names in ``FIGURES``.
    figures: Mapping[str, float] = field(default_factory=dict)
    judgement: CopyResult | None = None
    #: What a reader must know of this run.
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """A result with the names of its row."""

    workload: str
    case: str
    contender: str
    result: MeasurementResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A figure over all runs."""

    median: float
    least: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """All runs of a measurement by a contender."""

    workload: str
    case: str
    contender: str
    runs: int
    figures: Mapping[str, Spread]
    #: The sum over all runs; None: no copy was compared.
    judgement: CopyResult | None
    notes: tuple[str, ...]

    def median(self, name: str) -> float | None:
        """The median of a figure; None: it was not measured."""
        return self.figures[name].median if name in self.figures else None


@dataclass(frozen=True, slots=True)
class MeasuredFigure:
    """A figure's heading, and the function that writes a value of it."""

    heading: str
    words: Callable[[float | None], str]
    better: Literal["more", "less"] = "less"


def _seconds(value: float | None) -> str:
    return lasting(None if value is None else value * 1000)


def _cpu(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


FIGURES: Final[Mapping[str, MeasuredFigure]] = {
    "records_per_s": MeasuredFigure("records/s", short, "more"),
    "source_bytes_per_s": MeasuredFigure("fetched", per_second, "more"),
    "target_bytes_per_s": MeasuredFigure("produced", per_second, "more"),
    "seconds": MeasuredFigure("took", _seconds),
    "cpu_s": MeasuredFigure("CPU", _cpu),
    "cpu_s_per_million": MeasuredFigure("CPU for 1 M", _cpu),
    "ray_cpu_s": MeasuredFigure("Ray's CPU", _cpu),
    "source_cpu_s_per_million": MeasuredFigure("source broker's", _cpu),
    "target_cpu_s_per_million": MeasuredFigure("target brokers'", _cpu),
    "memory_bytes": MeasuredFigure("memory", size),
    "process_bytes": MeasuredFigure("largest process", size),
    "disk_ratio": MeasuredFigure("target / source bytes", lambda value: UNKNOWN if value is None else f"{value:.2f}"),
    "latency_p50_ms": MeasuredFigure("p50", lasting),
    "latency_p95_ms": MeasuredFigure("p95", lasting),
    "latency_p99_ms": MeasuredFigure("p99", lasting),
    "load_records_per_s": MeasuredFigure("beside, records/s", short, "more"),
    "written_p50_ms": MeasuredFigure("p50 where they are written", lasting),
    "written_p99_ms": MeasuredFigure("p99 where they are written", lasting),
    "cpu_share": MeasuredFigure("of a core", share),
    "idle_cpu_share": MeasuredFigure("of a core, idle", share),
    "ray_cpu_share": MeasuredFigure("Ray's", share),
    "first_record_s": MeasuredFigure("first record after", _seconds),
    "start_cpu_s": MeasuredFigure("CPU until then", _cpu),
    "discovery_s": MeasuredFigure("new topic copied after", _seconds),
    "copied_at_kill": MeasuredFigure("copied when killed", number),
    "standstill_s": MeasuredFigure("longest standstill after it", _seconds),
    "doubled": MeasuredFigure("doubled", number),
    "reread_mean": MeasuredFigure("read again, mean", number),
    "reread_most": MeasuredFigure("read again, most", number),
    "skipped": MeasuredFigure("skipped", number),
    "commit_delay_s": MeasuredFigure("commit synced after", _seconds),
}

_COPY: Final = (
    "records_per_s",
    "source_bytes_per_s",
    "target_bytes_per_s",
    "cpu_s_per_million",
    "ray_cpu_s",
    "source_cpu_s_per_million",
    "target_cpu_s_per_million",
    "memory_bytes",
    "process_bytes",
    "disk_ratio",
)
_TRICKLE: Final = (
    "latency_p50_ms",
    "latency_p95_ms",
    "latency_p99_ms",
    "cpu_share",
    "idle_cpu_share",
    "ray_cpu_share",
    "memory_bytes",
    "process_bytes",
)
_HALF_LOAD: Final = (
    "latency_p50_ms",
    "latency_p99_ms",
    "written_p50_ms",
    "written_p99_ms",
    "load_records_per_s",
    "cpu_share",
    "ray_cpu_share",
    "memory_bytes",
    "process_bytes",
)
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("trickle", "many-trickles", "transactions"), _TRICKLE),
    "many-partitions": _TRICKLE,
    "half-load": _HALF_LOAD,
    "from-cold": ("seconds", *_COPY),
    "start": ("first_record_s", "start_cpu_s", "discovery_s"),
    "restart": ("standstill_s", "copied_at_kill", "doubled"),
    "groups": ("reread_mean", "reread_most", "skipped", "commit_delay_s"),
}


def columns(workload: str) -> tuple[str, ...]:
    """The figures of a workload's table."""
    return _COLUMNS.get(workload, _COPY)


def leading(workload: str) -> str:
    """The figure that says most about a workload: the one that is compared and drawn."""
    special = {"many-partitions": "cpu_share", "wan": "source_bytes_per_s", "half-load": "latency_p99_ms"}
    return special.get(workload, "latency_p99_ms" if columns(workload) is _TRICKLE else columns(workload)[0])


def words(name: str, spread: Spread | None) -> str:
    """A figure over all runs: the median, and the least and most where they differ from it."""
    write = FIGURES[name].words
    if spread is None:
        return UNKNOWN
    middle, least, most = write(spread.median), write(spread.least), write(spread.most)
    return middle if least == most else f"{middle} ({least} to {most})"


def rows(runs: Sequence[MeasuredRun]) -> list[ResultRow]:
    """Runs by workload, case and contender, in the order of their first runs."""
    found: dict[tuple[str, str, str], list[MeasurementResult]] = {}
    for run in runs:
        found.setdefault((run.workload, run.case, run.contender), []).append(run.result)
    return [_row(*names, results) for names, results in found.items()]


def _row(workload: str, case: str, contender: str, results: Sequence[MeasurementResult]) -> ResultRow:
    names = dict.fromkeys(name for result in results for name in result.figures)
    judged = [result.judgement for result in results if result.judgement is not None]
    return ResultRow(
        workload=workload,
        case=case,
        contender=contender,
        runs=len(results),
        figures={
            name: _spread([result.figures[name] for result in results if name in result.figures]) for name in names
        },
        judgement=sum(judged, CopyResult()) if judged else None,
        notes=tuple(dict.fromkeys(result.note for result in results if result.note)),
    )


def _spread(values: Sequence[float]) -> Spread:
    return Spread(median=median(values), least=min(values), most=max(values))
