"""The columns of each table, and the rows of each JSON answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from typing import Any

from mirror_ray.cli.output import Columns, Row, count, duration, size
from mirror_ray.cli.printable import one_line
from mirror_ray.observe.status import PartitionStatus, ReplicatorStatus, SystemStatus, offsets

#: Fields of `lag -o json` and `replicators -o json`: tools outside the project read them.
_LAG_FIELDS = (
    "flow",
    "topic",
    "partition",
    "source_end",
    "position",
    "lag_records",
    "lag_bytes",
    "lag_seconds",
)
_REPLICATOR_FIELDS = ("id", "node", "pid", "partitions", "records_per_s", "bytes_per_s", "cpu", "memory")

FLOWS: Columns = (
    ("FLOW", lambda row: row["flow"]),
    ("STATE", lambda row: row["state"]),
    ("TOPICS", lambda row: count(row["topics"])),
    ("COPYING", lambda row: f"{row['copying']}/{row['partitions']}"),
    ("LAG", lambda row: count(row["lag_records"])),
    ("BEHIND", lambda row: duration(row["lag_seconds"])),
    ("RECORDS/S", lambda row: count(row["records_per_s"])),
    ("BYTES/S", lambda row: size(row["bytes_per_s"])),
    ("HEARTBEAT", lambda row: duration(row["heartbeat_age_s"])),
)
#: Behind those of a flow, where there is room.
TRAFFIC: Columns = (("COMPRESSED", lambda row: ratio(row["compression"])),)
REPLICATORS: Columns = (
    ("REPLICATOR", lambda row: row["id"]),
    ("STATE", lambda row: row["state"]),
    ("NODE", lambda row: row["node"]),
    ("PID", lambda row: str(row["pid"])),
    ("PARTITIONS", lambda row: count(row["partitions"])),
    ("RECORDS/S", lambda row: count(row["records_per_s"])),
    ("BYTES/S", lambda row: size(row["bytes_per_s"])),
    ("CPU", lambda row: f"{row['cpu']:.0%}"),
    ("MEMORY", lambda row: size(row["memory"])),
)
LAG: Columns = (
    ("FLOW", lambda row: row["flow"]),
    ("TOPIC", lambda row: row["topic"]),
    ("PARTITION", lambda row: str(row["partition"])),
    ("STATE", lambda row: row["state"]),
    ("SOURCE END", lambda row: offset(row["source_end"])),
    ("POSITION", lambda row: offset(row["position"])),
    ("LAG", lambda row: count(row["lag_records"])),
    ("BYTES", lambda row: size(row["lag_bytes"])),
    ("BEHIND", lambda row: duration(row["lag_seconds"])),
    ("HELD BACK", lambda row: count(row["held_back_records"])),
)
TOPICS: Columns = (
    ("FLOW", lambda row: row["flow"]),
    ("TOPIC", lambda row: row["topic"]),
    ("REMOTE TOPIC", lambda row: row["remote_topic"]),
    ("STATE", lambda row: row["state"]),
    ("COPYING", lambda row: f"{row['copying']}/{row['partitions']}"),
    ("LAG", lambda row: count(row["lag_records"])),
    ("BEHIND", lambda row: duration(row["lag_seconds"])),
    ("RECORDS/S", lambda row: count(row["records_per_s"])),
    ("BYTES/S", lambda row: size(row["bytes_per_s"])),
    ("COMPRESSED", lambda row: ratio(row["compression"])),
    ("RECORDS", lambda row: count(row["records"])),
    ("BYTES", lambda row: size(row["bytes"])),
    ("REASON", lambda row: row["reason"] or ""),
)
EVENTS: Columns = (
    ("TIME", lambda row: _clock(row["time_ms"])),
    ("LEVEL", lambda row: row["level"]),
    ("SUBJECT", lambda row: row["subject"]),
    ("EVENT", lambda row: row["text"]),
)

GAPS: Columns = (
    ("TIME", lambda row: date(row["time_ms"])),
    ("FLOW", lambda row: row["flow"]),
    ("TOPIC", lambda row: row["topic"]),
    ("PARTITION", lambda row: str(row["partition"])),
    ("KIND", lambda row: row["kind"]),
    ("POLICY", lambda row: row["policy"]),
    ("SOURCE OFFSETS", lambda row: offsets(row["source_from"], row["source_to"])),
    ("TARGET OFFSETS", lambda row: offsets(row["target_from"], row["target_to"])),
    ("WHAT", lambda row: row["text"]),
)


def lag_fields(partitions: Iterable[PartitionStatus]) -> list[dict[str, Any]]:
    """Rows of `lag -o json`."""
    return [{field: getattr(each, field) for field in _LAG_FIELDS} for each in partitions]


def replicator_fields(replicators: Iterable[ReplicatorStatus]) -> list[dict[str, Any]]:
    """Rows of `replicators -o json`."""
    return [{field: getattr(each, field) for field in _REPLICATOR_FIELDS} for each in replicators]


def rows(values: Iterable[Any]) -> list[Row]:
    """Snapshots as rows of a table."""
    return [asdict(each) for each in values]


def replicators_text(status: SystemStatus, there: int) -> str:
    """``2/3 replicators (1–4)``: those that are there, those that should be, and the bounds of that."""  # noqa: RUF002
    bounds = f" ({status.elastic})" if status.elastic else ""
    return f"{there}/{status.desired_replicators} replicators{bounds}"


def priced(heads: Columns, found: Iterable[Row], currency: str) -> Columns:
    """The columns, and what an hour costs where a price is configured."""
    if all(row["cost_per_hour"] is None for row in found):
        return heads
    return (*heads, (f"{currency}/HOUR", lambda row: price(row["cost_per_hour"])))


def status_lines(status: SystemStatus) -> list[str]:
    """The sentences below the tables of `status`: each problem, and what to do about it."""
    return [one_line(str(each)) for each in status.problems]


def ratio(value: float | None) -> str:
    """How many times smaller than before compression; ``-`` where it is unknown."""
    return "-" if value is None else f"{value:.1f}x"


def price(value: float | None) -> str:
    """An amount of money; ``-`` where it is unknown."""
    return "-" if value is None else f"{value:,.2f}"


def offset(value: int | None) -> str:
    """An offset, or ``-`` for none."""
    return "-" if value is None or value < 0 else str(value)


def date(time_ms: int) -> str:
    """Day and time of day, local."""
    return datetime.fromtimestamp(time_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _clock(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000).astimezone().strftime("%H:%M:%S")
