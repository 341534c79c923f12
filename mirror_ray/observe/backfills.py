"""The status of backfills, as ``mirror-ray backfill`` shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mirror_ray.model.backfill import BackfillRange, BackfillRecord

BackfillState = Literal["planned", "starting", "copying", "paused", "stopped", "refused", "done", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPartition:
    """The range of one partition, without its end, and the next source offset to copy."""

    partition: int
    start: int
    end: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillStatus:
    """One backfill. ``name`` is what `pause`, `resume`, `resolve` and `lag` know it by."""

    name: str
    flow: str
    topic: str
    into: str
    #: The range as the operator wrote it.
    asked: str
    behind: bool
    state: BackfillState
    reason: str | None
    started_ms: int
    partitions: tuple[BackfillPartition, ...]
    records_per_s: float = 0.0
    bytes_per_s: float = 0.0

    @property
    def offsets(self) -> int:
        """The number of source offsets that it covers, offset gaps included."""
        return sum(partition.end - partition.start for partition in self.partitions)

    @property
    def copied(self) -> int:
        """The number of these offsets that are copied."""
        return sum(partition.position - partition.start for partition in self.partitions)

    @property
    def eta_seconds(self) -> float | None:
        """Seconds until it is done at this rate; None: not known."""
        if self.state == "done":
            return 0.0
        return (self.offsets - self.copied) / self.records_per_s if self.records_per_s >= 1 else None

    def __str__(self) -> str:
        share = self.copied / self.offsets if self.offsets else 1.0
        state = f"{self.state}: {self.reason}" if self.reason else self.state
        return f"{self.name}  {self.topic} into {self.into}  {self.copied:,} of {self.offsets:,} ({share:.0%})  {state}"


def backfill_status(
    name: str,
    record: BackfillRecord,
    *,
    state: BackfillState,
    reason: str | None = None,
    positions: Mapping[int, int] | None = None,
    rates: tuple[float, float] = (0.0, 0.0),
) -> BackfillStatus:
    """The status of a backfill; ``positions``: those of the partitions that have begun."""
    known = dict(record.positions) | dict(positions or {})
    return BackfillStatus(
        name=name,
        flow=name.partition("#")[0],
        topic=record.topic,
        into=record.into,
        asked=record.said,
        behind=record.behind,
        state=state,
        reason=reason,
        started_ms=record.time_ms,
        partitions=tuple(
            BackfillPartition(
                partition=copied.partition,
                start=copied.start,
                end=copied.end,
                position=_position(copied, known.get(copied.partition)) if record.phase != "done" else copied.end,
            )
            for copied in record.ranges
        ),
        records_per_s=rates[0],
        bytes_per_s=rates[1],
    )


def _position(copied: BackfillRange, known: int | None) -> int:
    return copied.start if known is None else min(copied.end, max(copied.start, known))
