"""What a race has found: figures, by workload, case and contender. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from mirror_ray.lab.bench.copy_result import CopyResult


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredValue:
    """One run of one leg. ``figures``: by their names in ``figures.py``."""

    workload: str
    case: str
    contender: str
    round: int
    figures: Mapping[str, float] = field(default_factory=dict)
    judgement: CopyResult | None = None
    #: What a reader must know of this run.
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A figure over all runs."""

    median: float
    least: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """All runs of a leg by a contender."""

    workload: str
    case: str
    contender: str
    runs: int
    figures: Mapping[str, Spread]
    #: The sum over all runs; None: no copy was compared.
    judgement: CopyResult | None
    notes: tuple[str, ...]


def rows(measures: Sequence[MeasuredValue]) -> list[ResultRow]:
    """Measures by workload, case and contender, in the order of their first runs."""
    found: dict[tuple[str, str, str], list[MeasuredValue]] = {}
    for each in measures:
        found.setdefault((each.workload, each.case, each.contender), []).append(each)
    return [_row(runs) for runs in found.values()]


def _row(runs: Sequence[MeasuredValue]) -> ResultRow:
    names = dict.fromkeys(name for run in runs for name in run.figures)
    judged = [run.judgement for run in runs if run.judgement is not None]
    return ResultRow(
        workload=runs[0].workload,
        case=runs[0].case,
        contender=runs[0].contender,
        runs=len(runs),
        figures={name: _spread([run.figures[name] for run in runs if name in run.figures]) for name in names},
        judgement=sum(judged, CopyResult()) if judged else None,
        notes=tuple(dict.fromkeys(run.note for run in runs if run.note)),
    )


def _spread(values: Sequence[float]) -> Spread:
    return Spread(median=median(values), least=min(values), most=max(values))
