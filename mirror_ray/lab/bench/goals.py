"""The goals, and whether the benchmark reached them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mirror_ray.lab.bench.contenders import MIRROR_RAY, MM2_TUNED, ON_RAY, RECOMPRESSING, Contender
from mirror_ray.lab.bench.results import FIGURES, ResultRow


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure to reach: ``bound``, or with ``times`` so many times the figure of MM2 tuned in the same run."""

    description: str
    workload: str
    figure: str
    case: str = ""
    contender: Contender = MIRROR_RAY
    bound: float | None = None
    times: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalResult:
    """A goal and what was measured."""

    goal: Goal
    wanted: str
    measured: str
    reached: bool


GOALS: Final = (
    Goal("records/s, 1 KB in zstd batches", "throughput", "records_per_s", times=10),
    Goal("CPU for a million of them", "throughput", "cpu_s_per_million", times=1 / 40),
    Goal("memory of a replicator meanwhile", "throughput", "process_bytes", bound=250e6),
    Goal("records/s, batches of 10 x 100 B", "small-batches", "records_per_s", times=4),
    Goal("records/s, the same, zstd asked for", "small-batches", "records_per_s", contender=RECOMPRESSING, times=4),
    Goal("their part of the source's disk", "small-batches", "disk_ratio", contender=RECOMPRESSING, bound=0.15),
    Goal("from cold, the start and 1,000,000 records of 1 KB", "from-cold", "seconds", "500 x 1 KB, zstd", times=1 / 5),
    Goal("p99 latency at 500 records/s", "trickle", "latency_p99_ms", bound=15),
    Goal("p99 latency at half of what it can copy", "half-load", "latency_p99_ms", bound=25),
    Goal("start to first record, with Ray's", "start", "first_record_s", bound=3),
    Goal("start to first record, Ray runs", "start", "first_record_s", contender=ON_RAY, bound=1.5),
    Goal("a new topic is copied after", "start", "discovery_s", bound=5),
    *(
        Goal(
            f"one partition, 16 KB batches, {side} 100 ms away",
            "wan",
            "source_bytes_per_s",
            f"{side} 100 ms away, 1 partition",
            bound=bound,
        )
        for side, bound in (("source", 120e6), ("target", 80e6))
    ),
    *(
        Goal(f"records/s, {case}", workload, "records_per_s", case, contender=contender, times=4)
        for workload, case, contender in (
            ("codecs", "gzip", MIRROR_RAY),
            ("repack", "compacted source", MIRROR_RAY),
            ("repack", "LogAppendTime source", MIRROR_RAY),
            ("repack", "uncompressed, as it is", RECOMPRESSING),
        )
    ),
    Goal("doubled after SIGKILL half-way", "restart", "doubled", "all of it, started again", bound=0),
    Goal("nothing copied after a replicator died, for", "restart", "standstill_s", "one replicator", bound=5),
    Goal("read again by a group after failover, most", "groups", "reread_most", bound=0),
)


def goal_results(rows: Sequence[ResultRow]) -> list[GoalResult]:
    """The goals that were measured, by medians."""
    found = {(row.workload, row.case, row.contender): row for row in rows}

    def value(goal: Goal, contender: Contender) -> float | None:
        row = found.get((goal.workload, goal.case, contender.name))
        return None if row is None else row.median(goal.figure)

    answers = []
    for goal in GOALS:
        measured, other = value(goal, goal.contender), value(goal, MM2_TUNED)
        if measured is None or (goal.bound is None and not other):
            continue
        answers.append(_judge(goal, measured, other or 0.0))
    return answers


def _judge(goal: Goal, measured: float, other: float) -> GoalResult:
    write = FIGURES[goal.figure].words
    bound = goal.bound if goal.bound is not None else other * (goal.times or 1)
    more = FIGURES[goal.figure].better == "more"
    wanted, text = f"{'at least' if more else 'at most'} {write(bound)}", write(measured)
    if goal.times is not None:
        wanted += f" ({_times(goal.times)} of {MM2_TUNED.name}'s {write(other)})"
        text += f" ({_times(measured / other)})"
    return GoalResult(goal=goal, wanted=wanted, measured=text, reached=measured >= bound if more else measured <= bound)


def _times(value: float) -> str:
    return f"{value:.1f} times" if value >= 1 else f"1/{1 / value:.0f}" if value else "0"
