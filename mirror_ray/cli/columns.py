"""The columns of each table, and the rows of each JSON answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from mirror_ray.cli.output import Columns, Row, column, count, duration, size
from mirror_ray.cli.printable import one_line
from mirror_ray.observe.events import offsets
from mirror_ray.observe.figures import Figure, Format, figures_of
from mirror_ray.observe.status import FlowStatus, PartitionStatus, ReplicatorStatus, SystemStatus, TopicStatus


def columns_of(status: type[Any], names: Iterable[str]) -> Columns:
    """The columns of a table that shows those fields of a status class."""
    figures = figures_of(status)
    return tuple((figures[name].title.upper(), _cell(name, figures[name])) for name in names)


def _cell(name: str, shown: Figure) -> Callable[[Row], str]:
    if shown.format == "pair":
        return lambda row: f"{row[name]}/{row[shown.second]}"
    written = _WRITTEN[shown.format]
    return lambda row: written(row[name])


def date(time_ms: int) -> str:
    """Format day and time of day, in local time."""
    return datetime.fromtimestamp(time_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


EVENTS: Columns = (
    column("TIME", "time_ms", lambda time_ms: date(time_ms).split()[1]),
    column("LEVEL", "level"),
    column("SUBJECT", "subject"),
    column("EVENT", "text"),
)

GAPS: Columns = (
    column("TIME", "time_ms", date),
    column("FLOW", "flow"),
    column("TOPIC", "topic"),
    column("PARTITION", "partition"),
    column("KIND", "kind"),
    column("POLICY", "policy"),
    ("SOURCE OFFSETS", lambda row: offsets(row["source_from"], row["source_to"])),
    ("TARGET OFFSETS", lambda row: offsets(row["target_from"], row["target_to"])),
    column("WHAT", "text"),
)


def json_rows(values: Iterable[PartitionStatus | ReplicatorStatus]) -> list[dict[str, Any]]:
    """The rows of `lag -o json` and `replicators -o json`."""
    return [{key: getattr(value, key) for key in value.JSON_KEYS} for value in values]


def rows(values: Iterable[Any]) -> list[Row]:
    """Make rows of a table from status values."""
    return [asdict(value) for value in values]


def replicators_text(status: SystemStatus, there: int) -> str:
    """``2/3 replicators (1–4)``: those that are there, those that should be, and the bounds of that."""  # noqa: RUF002
    bounds = f" ({status.elastic})" if status.elastic else ""
    return f"{there}/{status.desired_replicators} replicators{bounds}"


def priced(heads: Columns, found: Iterable[Row], currency: str) -> Columns:
    """Add a column with the cost per hour, if a price is configured."""
    if all(row["cost_per_hour"] is None for row in found):
        return heads
    return (*heads, (f"{currency}/HOUR", lambda row: price(row["cost_per_hour"])))


def status_lines(status: SystemStatus) -> list[str]:
    """The sentences below the tables of `status`: each problem, and what to do about it."""
    return [one_line(str(problem)) for problem in status.problems]


def price(value: float | None) -> str:
    """Format an amount of money; ``-`` if it is unknown."""
    return "-" if value is None else f"{value:,.2f}"


def offset(value: int | None) -> str:
    """Format an offset; ``-`` if there is none."""
    return "-" if value is None or value < 0 else str(value)


#: How the values of each format are written.
_WRITTEN: Final[dict[Format, Callable[[Any], str]]] = {
    "text": lambda value: value or "",
    "state": str,
    "number": str,
    "offset": offset,
    "count": count,
    "bytes": size,
    "seconds": duration,
    "ratio": lambda value: "-" if value is None else f"{value:.1f}x",
    "share": lambda value: f"{value:.0%}",
    "money": price,
}

LIVE_FLOWS: Final = columns_of(FlowStatus, FlowStatus.LIVE_COLUMNS)
FLOWS: Final = columns_of(FlowStatus, FlowStatus.CLI_COLUMNS)
REPLICATORS: Final = columns_of(ReplicatorStatus, ReplicatorStatus.CLI_COLUMNS)
LAG: Final = columns_of(PartitionStatus, PartitionStatus.CLI_COLUMNS)
TOPICS: Final = columns_of(TopicStatus, TopicStatus.CLI_COLUMNS)
