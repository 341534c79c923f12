"""The benchmark's report: Markdown, and one picture for each workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirror_ray.lab.bench.bounds import latency_bounds, rate_bounds
from mirror_ray.lab.bench.contenders import BASELINE, MIRROR_RAY, MM2, MM2_TUNED
from mirror_ray.lab.bench.goals import goal_results
from mirror_ray.lab.bench.results import FIGURES, MeasuredRun, ResultRow, columns, leading, words
from mirror_ray.lab.bench.workloads import Workload
from mirror_ray.lab.judge import CopyResult
from mirror_ray.lab.report_parts import document, markdown_table
from mirror_ray.report.number_format import UNKNOWN
from mirror_ray.report.svg import Bar, bar_chart

_HOW = """\
How it is measured: before anything counts, mirror-ray copies for a minute, so that the brokers are warm. Each
contender is started on clusters that the others ran on before, with a source alias of its own, so that its remote
topics and its progress are new; every other round they come in the reverse order. It first copies 200,000 records to
warm up. The data of a workload, the same bytes for all, waits on the source within an open transaction, which every
contender, reading committed records, does not see; the commit opens it at once. The rate is that of the time from the
first records on the target to the last ones. CPU is user and system time of the contender's own processes between the
commit and the last record; that of Ray's processes is beside it. Memory is the peak of all its own processes
together, and of the largest one. In `from-cold` nothing is warm: each contender has brokers that were just started,
the backlog is there before its process starts, and what it took counts from there. After each run every record of the
source is compared with its copy. Each figure is the median of its runs, with the least and the most where they
differ.
"""
_STYLE = """\
<style>
svg{font:12px system-ui,sans-serif;background:#fff;color:#1f2328}
text{fill:#1f2328}.muted{fill:#59636e}.bar{fill:#2a78d6}
@media (prefers-color-scheme:dark){svg{background:#0d1117}text{fill:#e6edf3}.muted{fill:#9198a1}.bar{fill:#3987e5}}
</style>"""


#: A bar's label is its case and its contender.
_LABEL_LENGTH = 45


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResults:
    """A benchmark that has ended."""

    workloads: Sequence[Workload]
    rows: Sequence[ResultRow]
    #: Sentences about the machine, the versions, and the command.
    machine: str
    versions: str
    command: str
    #: The machine's processors.
    cores: int


def bench_report(results: BenchResults, pictures: Mapping[str, str]) -> str:
    """The report in Markdown. ``pictures``: each workload's picture, as a path relative to the report."""
    contenders = dict.fromkeys(contender for workload in results.workloads for contender, _ in workload.runs())
    parts = [
        "# The benchmark",
        f"{results.machine}\n{results.versions}",
        f"    {results.command}",
        summary(results.rows),
        _goals(results.rows),
        _bounds(results.rows, results.cores),
        _HOW.replace("\n", " ").strip(),
        "\n".join(f"- {contender.name}: {contender.description}" for contender in contenders),
    ]
    for workload in results.workloads:
        rows = [row for row in results.rows if row.workload == workload.name]
        if rows:
            parts.append(_section(workload, rows, pictures.get(workload.name)))
    return document(parts)


def summary(rows: Sequence[ResultRow]) -> str:
    """One line for each workload and case: who was how fast."""
    lines = []
    for workload, case in dict.fromkeys((row.workload, row.case) for row in rows):
        found = {row.contender: row for row in rows if (row.workload, row.case) == (workload, case)}
        name = leading(workload)
        ours, tuned, default = (
            row.median(name) if (row := found.get(system.name)) is not None else None
            for system in (MIRROR_RAY, MM2_TUNED, MM2)
        )
        if ours is None:
            continue
        write = FIGURES[name].words
        theirs = tuned if tuned is not None else default
        factor = _factor(ours, theirs, more=FIGURES[name].better == "more")
        lines.append([workload, case, FIGURES[name].heading, write(ours), write(tuned), write(default), factor])
    heads = ["workload", "case", "figure", MIRROR_RAY.name, MM2_TUNED.name, MM2.name, "better by"]
    return markdown_table(heads, lines)


def picture(workload: Workload, rows: Sequence[ResultRow]) -> str:
    """The leading figure of a workload as bars, an SVG file; empty where nothing was measured."""
    name = leading(workload.name)
    found = [row for row in rows if row.workload == workload.name and name in row.figures]
    if not found:
        return ""
    bars = [
        Bar(
            label=", ".join(part for part in (case, row.contender) if part),
            value=row.figures[name].median,
            text=words(name, row.figures[name]),
        )
        for case in dict.fromkeys(row.case for row in found)
        for row in found
        if row.case == case
    ]
    chart = bar_chart(f"{workload.title}: {FIGURES[name].heading}", workload.title, bars, _LABEL_LENGTH)
    return chart.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(">", f">{_STYLE}", 1)


def described(run: MeasuredRun) -> str:
    """A run in one line, for the progress output."""
    result = run.result
    known = [(FIGURES[name], result.figures[name]) for name in columns(run.workload) if name in result.figures]
    figures = [f"{figure.heading} {figure.words(value)}" for figure, value in known]
    name = f"{run.workload}{f' ({run.case})' if run.case else ''}"
    copy = f"copy {verdict(result.judgement)}" if result.judgement is not None else ""
    return f"{name}: {', '.join(filter(None, [*figures, copy, result.note]))}"


def verdict(judgement: CopyResult | None) -> str:
    """What became of the records, in words."""
    if judgement is None:
        return UNKNOWN
    counts = {
        "lost": judgement.lost,
        "doubled": judgement.doubled,
        "foreign": judgement.foreign,
        "partitions in another order": judgement.reordered,
    }
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "equal"


def _goals(rows: Sequence[ResultRow]) -> str:
    lines = [
        [result.goal.description, result.wanted, result.measured, "yes" if result.reached else "no"]
        for result in goal_results(rows)
    ]
    table = markdown_table(["what", "wanted", "measured", "reached"], lines)
    return f"## What was to be reached\n\n{table}" if lines else ""


def _bounds(rows: Sequence[ResultRow], cores: int) -> str:
    """Of each rate and each latency what bounds it; empty where nothing says that."""
    rates = [
        [
            *(bound.row.workload, bound.row.case, bound.row.contender),
            words("records_per_s", bound.row.figures["records_per_s"]),
            UNKNOWN if bound.of_baseline is None else f"{bound.of_baseline:.0%}",
            *(f"{busy:.2f}" for busy in (*bound.busy.values(), sum(bound.busy.values()))),
            bound.explanation,
        ]
        for bound in rate_bounds(rows, cores)
    ]
    latencies = [
        [
            *(bound.row.workload, bound.row.case),
            FIGURES["latency_p99_ms"].words(bound.p99_ms),
            FIGURES["written_p99_ms"].words(bound.written_p99_ms),
        ]
        for bound in latency_bounds(rows)
    ]
    users = ("mirror-ray's", "the source broker's", "the target brokers'")
    heads = ["workload", "case", "contender", "records/s", "of the floor", *users, f"of {cores} processors", "bound by"]
    parts = [
        "## What bounds it" if rates or latencies else "",
        markdown_table(heads, rates) if rates else "",
        markdown_table(["workload", "case", "p99", "p99 where they are written"], latencies) if latencies else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _section(workload: Workload, rows: Sequence[ResultRow], picture_path: str | None) -> str:
    names = [name for name in columns(workload.name) if any(name in row.figures for row in rows)]
    cases = any(row.case for row in rows)
    judged = any(row.judgement is not None for row in rows)
    baselines = {row.case: row.median("records_per_s") for row in rows if row.contender == BASELINE.name}
    has_baseline = any(baselines.values())
    heads = [*(["case"] if cases else []), "contender", *(FIGURES[name].heading for name in names)]
    heads += ["of the floor"] if has_baseline else []
    lines = [
        [
            *([row.case] if cases else []),
            row.contender,
            *(words(name, row.figures.get(name)) for name in names),
            *([_of_baseline(row, baselines.get(row.case))] if has_baseline else []),
            *([verdict(row.judgement)] if judged else []),
        ]
        for row in rows
    ]
    notes = [f"- {row.contender}{f', {row.case}' if row.case else ''}: {note}" for row in rows for note in row.notes]
    runs = max(row.runs for row in rows)
    parts = [
        f"## {workload.name}",
        f"{workload.title}. {'One run' if runs == 1 else f'Up to {runs} runs'} of each.",
        f"![{workload.title}]({picture_path})" if picture_path else "",
        markdown_table([*heads, *(["copy"] if judged else [])], lines),
        "\n".join(notes),
    ]
    return "\n\n".join(part for part in parts if part)


def _of_baseline(row: ResultRow, baseline: float | None) -> str:
    rate = row.median("records_per_s")
    return UNKNOWN if rate is None or not baseline else f"{rate / baseline:.0%}"


def _factor(ours: float, theirs: float | None, *, more: bool) -> str:
    if theirs is None or not ours or not theirs:
        return UNKNOWN
    return f"{ours / theirs if more else theirs / ours:.1f} times"
