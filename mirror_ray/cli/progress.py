"""Whether everything has been copied, and how long it may take: pure, from snapshots of a running system."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from mirror_ray.observe.status import FlowStatus, PartitionStatus, SystemStatus, TopicStatus

#: These don't move until somebody, or a later retry, does something about them.
_AT_REST = ("refused", "stopped", "paused")

#: A flow may find its last partitions between two looks.
_LOOKS_UNTIL_CAUGHT_UP = 2

_ETA_WINDOW_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpVerdict:
    """``caught_up``: nothing is left. ``blocked``: what is left does not move; ``blockers`` says what and why."""

    state: Literal["moving", "caught_up", "blocked"]
    blockers: tuple[str, ...] = ()


class CatchUp:
    """Follows a system until it has caught up, or until what is left has stood still for ``grace_s``."""

    def __init__(self, grace_s: float = 15.0) -> None:
        self._grace_s = grace_s
        self._looks = 0
        self._blocked_since_s: float | None = None

    def look(
        self,
        now_s: float,
        status: SystemStatus,
        partitions: Iterable[PartitionStatus],
        topics: Iterable[TopicStatus],
    ) -> CatchUpVerdict:
        """Judge one snapshot, taken at ``now_s`` of any clock that only grows."""
        enabled = [flow for flow in status.flows if flow.state != "idle"]
        left = [each for each in partitions if not _is_caught_up(each)]
        refused = [topic for topic in topics if topic.state == "refused"]
        if all(flow.discovered and flow.state != "unreachable" for flow in enabled):
            if not left and not refused:
                self._blocked_since_s = None
                self._looks += 1
                return CatchUpVerdict(state="caught_up" if self._looks >= _LOOKS_UNTIL_CAUGHT_UP else "moving")
            if all(each.state in _AT_REST for each in left):
                return self._blocked(now_s, left, refused)
        self._looks = 0
        self._blocked_since_s = None
        return CatchUpVerdict(state="moving")

    def _blocked(self, now_s: float, left: list[PartitionStatus], refused: list[TopicStatus]) -> CatchUpVerdict:
        self._looks = 0
        if self._blocked_since_s is None:
            self._blocked_since_s = now_s
        if now_s - self._blocked_since_s < self._grace_s:
            return CatchUpVerdict(state="moving")
        return CatchUpVerdict(state="blocked", blockers=_blockers(left, refused))


def _is_caught_up(partition: PartitionStatus) -> bool:
    return partition.state == "copying" and partition.lag_records == 0 and partition.source_end >= 0


def _blockers(left: list[PartitionStatus], refused: list[TopicStatus]) -> tuple[str, ...]:
    """One sentence for each topic, or for each partition whose topic as a whole is not refused."""
    whole = {(topic.flow, topic.topic) for topic in refused}
    lines = [f"{each.flow} {each.topic}: refused: {each.reason}" for each in refused]
    lines += [
        f"{each.flow} {each.topic}-{each.partition}: {each.state}: {each.reason or 'until `mirror-ray resume`'}"
        for each in left
        if (each.flow, each.topic) not in whole
    ]
    return tuple(lines)


class Eta:
    """Seconds until a flow has caught up, from how its lag fell lately."""

    def __init__(self) -> None:
        self._lags: dict[str, deque[tuple[float, int]]] = {}

    def seconds(self, now_s: float, flow: FlowStatus) -> float | None:
        """0 when it has caught up; None while the lag is unknown or does not fall."""
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
        fallen = before - flow.lag_records
        return flow.lag_records * (now_s - since_s) / fallen if fallen > 0 else None
