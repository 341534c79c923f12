"""Decides from snapshots of a running system whether everything is copied, and how long it may take."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from mirror_ray.observe.status import FlowStatus, PartitionStatus, SystemStatus, TopicStatus

#: States in which a partition makes no progress until somebody, or a later retry, resolves it.
_BLOCKED_STATES = ("refused", "stopped", "paused")

#: A flow may discover its last partitions between two snapshots.
_SNAPSHOTS_UNTIL_CAUGHT_UP = 2

_ETA_WINDOW_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpVerdict:
    """``caught_up``: nothing is left. ``blocked``: what is left makes no progress; ``blockers`` says what and why."""

    state: Literal["moving", "caught_up", "blocked"]
    blockers: tuple[str, ...] = ()


class CatchUp:
    """Follows a system until it has caught up, or until what is left was blocked for ``grace_s``."""

    def __init__(self, grace_s: float = 15.0) -> None:
        self._grace_s = grace_s
        self._snapshots = 0
        self._blocked_since_s: float | None = None

    def update(
        self, now_s: float, status: SystemStatus, partitions: Iterable[PartitionStatus], topics: Iterable[TopicStatus]
    ) -> CatchUpVerdict:
        """Add a snapshot that was taken at ``now_s`` of any monotonic clock, and return the verdict."""
        enabled = [flow for flow in status.flows if flow.state != "idle"]
        left = [partition for partition in partitions if not _is_caught_up(partition)]
        refused = [topic for topic in topics if topic.state == "refused"]
        if all(flow.discovered and flow.state != "unreachable" for flow in enabled):
            if not left and not refused:
                self._blocked_since_s = None
                self._snapshots += 1
                return CatchUpVerdict(state="caught_up" if self._snapshots >= _SNAPSHOTS_UNTIL_CAUGHT_UP else "moving")
            if all(partition.state in _BLOCKED_STATES for partition in left):
                return self._blocked(now_s, left, refused)
        self._snapshots = 0
        self._blocked_since_s = None
        return CatchUpVerdict(state="moving")

    def _blocked(self, now_s: float, left: list[PartitionStatus], refused: list[TopicStatus]) -> CatchUpVerdict:
        self._snapshots = 0
        if self._blocked_since_s is None:
            self._blocked_since_s = now_s
        if now_s - self._blocked_since_s < self._grace_s:
            return CatchUpVerdict(state="moving")
        return CatchUpVerdict(state="blocked", blockers=_blockers(left, refused))


def _is_caught_up(partition: PartitionStatus) -> bool:
    return partition.state == "copying" and partition.lag_records == 0 and partition.source_end >= 0


def _blockers(left: list[PartitionStatus], refused: list[TopicStatus]) -> tuple[str, ...]:
    """One sentence for each topic, or for each partition whose topic as a whole is not refused."""
    refused_topics = {(topic.flow, topic.topic) for topic in refused}
    return (
        *(f"{topic.flow} {topic.topic}: refused: {topic.reason}" for topic in refused),
        *(
            f"{part.flow} {part.topic}-{part.partition}: {part.state}: {part.reason or 'until `mirror-ray resume`'}"
            for part in left
            if (part.flow, part.topic) not in refused_topics
        ),
    )


class Eta:
    """Estimates when a flow has caught up, from how its lag has decreased."""

    def __init__(self) -> None:
        self._lags: dict[str, deque[tuple[float, int]]] = {}

    def seconds(self, now_s: float, flow: FlowStatus) -> float | None:
        """Return the seconds left: 0 if it has caught up; None while the lag is unknown or does not decrease."""
        if flow.lag_records is None:
            self._lags.pop(flow.flow, None)
            return None
        lags = self._lags.setdefault(flow.flow, deque())
        lags.append((now_s, flow.lag_records))
        while now_s - lags[0][0] > _ETA_WINDOW_S:
            lags.popleft()
        if flow.lag_records == 0:
            return 0.0
        since_s, before = lags[0]
        decrease = before - flow.lag_records
        return flow.lag_records * (now_s - since_s) / decrease if decrease > 0 else None
