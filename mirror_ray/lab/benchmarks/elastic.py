"""What an elastic fleet does with load in waves, and what it costs against a fixed one; an hour each, by a model.

::

    make bench-elastic
    .venv/bin/python -m mirror_ray.lab.benchmarks.elastic [--capacity 470000] [--start-s 10] [--price 0.05] [--to FILE]

The rules are the coordinator's own (`coordinator/scaling_rules.py`, with the settings' defaults); the fleet is
`lab/bench/elastic_model.py`. The capacity is that of a replicator with records of 1 KB, zstd, 100 in a batch
(docs/install.md, Sizing).
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from mirror_ray.config.settings import ElasticSettings
from mirror_ray.lab.bench.elastic_model import FleetModel, FleetSecond, fixed_fleet, replicator_hours, simulate, turns
from mirror_ray.lab.benchmarks.harness import parse_arguments
from mirror_ray.lab.report_parts import document, markdown_table
from mirror_ray.report.number_format import short
from mirror_ray.report.svg import Series, line_chart

_HOUR_S: Final = 3600
_LOW, _HIGH = 0.3, 5.0
_STEP_S: Final = 15
_STYLE: Final = """\
<style>
svg{font:12px system-ui,sans-serif;background:#fff}text,.muted{fill:#59636e}
.grid{stroke:#d1d9e0}.hover{fill:transparent}
.line{fill:none;stroke-width:2}.s1{stroke:#2a78d6}.s2{stroke:#d6662a}.area{stroke:none;fill:#2a78d6;opacity:.15}
@media (prefers-color-scheme:dark){svg{background:#0d1117}text,.muted{fill:#9198a1}.grid{stroke:#3d444d}}
</style>"""

#: Load in cores' worth of records, by the time in seconds; and the length of a wave.
Wave = tuple[Callable[[float], float], int]


def _swing(period_s: int) -> Wave:
    return lambda now_s: _LOW + (_HIGH - _LOW) * (1 - math.cos(2 * math.pi * now_s / period_s)) / 2, period_s


def _steps(period_s: int, high_s: int) -> Wave:
    return lambda now_s: _HIGH if now_s % period_s >= period_s - high_s else _LOW, period_s


def _times(load: Callable[[float], float], capacity: float) -> Callable[[float], float]:
    return lambda now_s: load(now_s) * capacity


WAVES: Final[Mapping[str, Wave]] = {
    "swings, an hour each": _swing(_HOUR_S),
    "swings, 20 min each": _swing(1200),
    "swings, 3 min each": _swing(180),
    "10 min of load, 10 min without": _steps(1200, 600),
    "5 min of load, 5 min without": _steps(600, 300),
    "a minute of load in ten": _steps(600, 60),
}

_MODEL = """\
The model: records arrive evenly over the partitions and wait until they are copied, oldest first. A replicator copies
up to its capacity, and uses of a core what it does of that. One that is started copies after its start time, and is
paid from the moment it is wanted. The rules are those of the coordinator, asked every five seconds, with what a
coordinator knows: processor time, rates, lag in records and in seconds.

The target for lag is `elastic.lag_seconds`. A turn is a change of direction: out and then in, or in and then out; a
wave has two, one on its way up and one down. More than that would be flapping. The fixed fleet is what carries the
peak at `elastic.target_cpu`."""


def elastic_report(options: argparse.Namespace, picture: str) -> tuple[str, str]:
    """The report in Markdown, and its picture as SVG."""
    terms = ElasticSettings(min_replicators=1, max_replicators=options.most)
    model = FleetModel(capacity=options.capacity, start_s=options.start_s, partitions=options.partitions)
    hours = {
        title: (simulate(terms, model, _times(load, options.capacity), _HOUR_S), period_s)
        for title, (load, period_s) in WAVES.items()
    }
    rows = [
        (title, *_figures(seconds, period_s, terms), *_costs(seconds, terms, model, options.price))
        for title, (seconds, period_s) in hours.items()
    ]
    shown, _ = hours["10 min of load, 10 min without"]
    headings = (
        "load",
        "replicators",
        "turns a wave",
        "most lag, s",
        "above the target",
        "replicator-hours",
        "fixed",
        "cost",
    )
    text = document(
        [
            "# An elastic fleet under load in waves",
            _made_by(options),
            _MODEL,
            _given(terms, model, options.price),
            markdown_table(headings, rows),
            "Cost is that of an hour, and of the fixed fleet. The fourth row over time:",
            f"![Replicators and load]({picture})",
        ]
    )
    return text, _chart(shown, model)


def _made_by(options: argparse.Namespace) -> str:
    return (
        f"Written by `make bench-elastic`, on {time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, "
        f"{platform.system()}, {os.cpu_count()} cores: of the machine nothing depends, for time is simulated "
        f"(`--price {options.price:g}` for a replicator's hour is an input)."
    )


def _given(terms: ElasticSettings, model: FleetModel, price: float) -> str:
    return (
        f"{terms.min_replicators} to {terms.max_replicators} replicators of {model.capacity:,.0f} records/s, up after "
        f"{model.start_s:g} s; {model.partitions} partitions; `target_cpu` {terms.target_cpu:g}, `lag_seconds` "
        f"{terms.lag_seconds:g}, `scale_out_after_s` {terms.scale_out_after_s:g}, `scale_in_after_s` "
        f"{terms.scale_in_after_s:g}; {price:g} for a replicator's hour. Load is {_LOW:g} to {_HIGH:g} replicators' "
        "capacity."
    )


def _figures(seconds: Sequence[FleetSecond], period_s: int, terms: ElasticSettings) -> tuple[str | int | float, ...]:
    wanted = [second.wanted for second in seconds]
    late = sum(second.lag_s > terms.lag_seconds for second in seconds) / len(seconds)
    most_s = round(max(second.lag_s for second in seconds))
    return f"{min(wanted)} to {max(wanted)}", turns(wanted) * period_s / len(seconds), most_s, f"{late:.1%}"


def _costs(
    seconds: Sequence[FleetSecond], terms: ElasticSettings, model: FleetModel, price: float
) -> tuple[str | int | float, ...]:
    fixed = fixed_fleet(terms, model, max(second.arrived for second in seconds))
    hours = replicator_hours(seconds)
    return hours, fixed, f"{hours * price:.2f}; {fixed * price:.2f}"


def _chart(seconds: Sequence[FleetSecond], model: FleetModel) -> str:
    some = seconds[::_STEP_S]
    chart = line_chart(
        "Replicators and load",
        "Replicators that are wanted, and the load in replicators' capacity, over an hour",
        [1000 * _STEP_S * index for index in range(len(some))],
        1000 * _STEP_S,
        series=[
            Series(name="replicators", values=[float(second.wanted) for second in some]),
            Series(name="load", values=[second.arrived / model.capacity for second in some]),
        ],
        words=short,
    ).split("<ul ", maxsplit=1)[0]
    return chart.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(">", f">{_STYLE}", 1)


def main() -> None:
    options = parse_arguments(
        __doc__,
        capacity=(470_000.0, "records/s of a replicator"),
        start_s=(10.0, "seconds from the wish to a replicator until it copies"),
        partitions=(64, "that share the load evenly"),
        most=(10, "elastic.max_replicators"),
        price=(0.05, "of a replicator's hour"),
        to=("", "file that the report is written to, with its picture beside it; without it, it is printed"),
    )
    path = Path(options.to)
    text, chart = elastic_report(options, path.with_suffix(".svg").name)
    if options.to:
        path.write_text(text, encoding="utf-8")
        path.with_suffix(".svg").write_text(chart, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
