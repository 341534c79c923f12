"""The figures: what each is called, how it is written, and which of them a workload's table has. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from mirror_ray.lab.bench.results import Spread
from mirror_ray.report.number_format import UNKNOWN, lasting, number, per_second, share, short, size


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. ``words`` writes a value of it."""

    heading: str
    words: Callable[[float | None], str]
    better: Literal["more", "less"] = "less"


def _seconds(value: float | None) -> str:
    return lasting(None if value is None else value * 1000)


def _cpu(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


FIGURES: Final[Mapping[str, Figure]] = {
    "records_per_s": Figure("records/s", short, "more"),
    "source_bytes_per_s": Figure("fetched", per_second, "more"),
    "target_bytes_per_s": Figure("produced", per_second, "more"),
    "seconds": Figure("took", _seconds),
    "cpu_s": Figure("CPU", _cpu),
    "cpu_s_per_million": Figure("CPU for 1 M", _cpu),
    "ray_cpu_s": Figure("Ray's CPU", _cpu),
    "memory_bytes": Figure("memory", size),
    "process_bytes": Figure("largest process", size),
    "disk_ratio": Figure("target / source bytes", lambda value: UNKNOWN if value is None else f"{value:.2f}"),
    "latency_p50_ms": Figure("p50", lasting),
    "latency_p95_ms": Figure("p95", lasting),
    "latency_p99_ms": Figure("p99", lasting),
    "cpu_share": Figure("of a core", share),
    "idle_cpu_share": Figure("of a core, idle", share),
    "ray_cpu_share": Figure("Ray's", share),
    "first_record_s": Figure("first record after", _seconds),
    "start_cpu_s": Figure("CPU until then", _cpu),
    "discovery_s": Figure("new topic copied after", _seconds),
    "copied_at_kill": Figure("copied when killed", number),
    "standstill_s": Figure("longest standstill after it", _seconds),
    "doubled": Figure("doubled", number),
    "reread_mean": Figure("read again, mean", number),
    "reread_most": Figure("read again, most", number),
    "skipped": Figure("skipped", number),
    "commit_delay_s": Figure("commit carried over after", _seconds),
}

_COPY: Final = (
    "records_per_s",
    "source_bytes_per_s",
    "target_bytes_per_s",
    "cpu_s_per_million",
    "ray_cpu_s",
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
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "trickle": _TRICKLE,
    "many-partitions": _TRICKLE,
    "start": ("first_record_s", "start_cpu_s", "discovery_s"),
    "restart": ("standstill_s", "copied_at_kill", "doubled"),
    "groups": ("reread_mean", "reread_most", "skipped", "commit_delay_s"),
}


def columns(workload: str) -> tuple[str, ...]:
    """The figures of a workload's table; the first one is the one that is drawn and compared."""
    return _COLUMNS.get(workload, _COPY)


def leading(workload: str) -> str:
    """The figure that says most about a workload."""
    return {"trickle": "latency_p99_ms", "many-partitions": "cpu_share", "wan": "source_bytes_per_s"}.get(
        workload, columns(workload)[0]
    )


def words(name: str, spread: Spread | None) -> str:
    """A figure over all runs: the median, and the least and most where they are others."""
    write = FIGURES[name].words
    if spread is None:
        return UNKNOWN
    middle, least, most = write(spread.median), write(spread.least), write(spread.most)
    return middle if least == most else f"{middle} ({least} to {most})"
