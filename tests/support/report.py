"""What a report has found, for tests of what it makes of it."""

from __future__ import annotations

from typing import Any

from mirror_ray.report.json_document import ReportRequest, ReportResult
from mirror_ray.report.progress import BadRecord, LogRead, ReadProgress

HOUR_MS = 3_600_000
#: 2026-11-22 00:00 UTC.
BEGIN_MS = 1_795_305_600_000


def aggregates(scale: int = 1, **changes: Any) -> dict[str, Any]:
    """The sums of a partition, or of a step of time."""
    return {
        "told": 60,
        "records": 6000 * scale,
        "batches": 60 * scale,
        "wire_bytes": 600_000 * scale,
        "source_bytes": 1_200_000 * scale,
        "uncompressed_bytes": 2_400_000 * scale,
        "measured_bytes": 60_000 * scale,
        "restarts": 0,
        "untold_records": 0,
        "told_twice": 0,
        "mismatches": 0,
        "latency_ms": {4: 3000 * scale, 13: 2900 * scale, 133: 100 * scale},
        "lag_ms": {0: 50, 10: 9, 1000: 1},
        "lag_records": {0: 50, 10: 9, 1000: 1},
        "lag_ms_max": 900,
        "lag_records_max": 950 * scale,
        "from_ms": BEGIN_MS,
        "to_ms": BEGIN_MS + HOUR_MS,
        **changes,
    }


def partition(topic: str = "orders", number: int = 0, scale: int = 1, **changes: Any) -> dict[str, Any]:
    """A row of a partition that nobody else writes to."""
    untold = changes.get("untold_records", 0)
    return {
        "topic": topic,
        "partition": number,
        "target_topic": f"A.{topic}",
        "target_partition": number,
        "shared": False,
        "codecs": ["zstd"],
        "replicators": ["1"],
        "source_topic_ids": ["s"],
        "target_topic_ids": ["t"],
        "first_target_offset": 100,
        "last_target_offset": 100 + 6000 * scale + untold,
        **aggregates(scale, **changes),
    }


def found(*partitions: dict[str, Any], **changes: Any) -> ReportResult:
    """Partitions over an hour, a step for each minute."""
    rows = list(partitions) or [partition()]
    scale = sum(row["records"] for row in rows) / 6000 / 60
    told: dict[str, Any] = {
        "progress": ReadProgress(
            flow="A->B",
            topic="mm2-ray-stats.A.internal",
            logs=(LogRead(topic_id="stats-id", partition=0, first=0, next=120),),
            files=("intervals/date=2026-11-22/read.parquet",),
        ),
        "partitions": rows,
        "steps": [{"step": BEGIN_MS + minute * 60_000, **aggregates(max(1, round(scale)))} for minute in range(60)],
        "step_ms": 60_000,
        "gaps": [],
        "target_ends": {
            (row["target_topic"], row["target_partition"]): ("t", row["last_target_offset"] + 7) for row in rows
        },
    }
    return ReportResult(**(told | changes))


def with_bad_records(text: str) -> ReadProgress:
    """Of which one begins with this text."""
    bad = BadRecord(topic_id="stats-id", partition=0, offset=7, kind="not_json", text=text)
    return ReadProgress(
        flow="A->B", topic="mm2-ray-stats.A.internal", bad={"not_json": 1, "other_version": 2}, bad_examples=(bad,)
    )


def asked(**changes: Any) -> ReportRequest:
    """Everything, at 2 cents."""
    told: dict[str, Any] = {"since_ms": None, "until_ms": None, "price_per_gb": 0.02, "currency": "USD"}
    return ReportRequest(**(told | {"created_ms": BEGIN_MS + 2 * HOUR_MS} | changes))
