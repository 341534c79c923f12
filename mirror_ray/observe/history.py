"""The history of lag and rates for charts: a point every few seconds, for an hour."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mirror_ray.observe.system_snapshot import SystemSnapshot

EVERY_MS: Final = 5_000
_KEPT: Final = 720


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPoint:
    """One flow at one time; None: not known."""

    time_ms: int
    lag_records: int | None
    lag_seconds: float | None
    records_per_s: float
    bytes_per_s: float


class History:
    """The last hour of every flow."""

    def __init__(self) -> None:
        self._points: dict[str, deque[HistoryPoint]] = {}
        self._last_ms = 0

    def add(self, snapshot: SystemSnapshot) -> None:
        """Add a point for every flow, unless the last one is too recent. Flows that have ended are removed."""
        if snapshot.time_ms - self._last_ms < EVERY_MS - EVERY_MS // 10:
            return
        self._last_ms = snapshot.time_ms
        for flow in snapshot.system.flows:
            self._points.setdefault(flow.flow, deque(maxlen=_KEPT)).append(
                HistoryPoint(
                    time_ms=snapshot.time_ms,
                    lag_records=flow.lag_records,
                    lag_seconds=flow.lag_seconds,
                    records_per_s=flow.records_per_s,
                    bytes_per_s=flow.bytes_per_s,
                )
            )
        for ended in self._points.keys() - {flow.flow for flow in snapshot.system.flows}:
            del self._points[ended]

    def of(self, flow: str | None) -> Mapping[str, Sequence[HistoryPoint]]:
        """The points of one flow, or of all flows for None, oldest first."""
        return {name: tuple(points) for name, points in self._points.items() if flow in (None, name)}
