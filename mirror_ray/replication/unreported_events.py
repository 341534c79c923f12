"""Events of a replicator that its coordinator may not have heard of: an answer can be lost, or come too late."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Final

from mirror_ray.model.assignment import ReplicatorReport

#: While nobody asks for them; beyond, the oldest are dropped.
_KEPT: Final = 1000


class UnreportedEvents:
    """Keeps events until the coordinator has said that it has them, and puts them into each report until then."""

    def __init__(self) -> None:
        self._events: deque[tuple[int, str, str]] = deque(maxlen=_KEPT)
        self._end = 0

    def into(self, report: ReplicatorReport, heard: int) -> ReplicatorReport:
        """The report with every event that was not heard, its own being the newest.

        ``heard``: how many events of this process the coordinator has had, as ``events_end`` of a report said.
        """
        self._events.extend(report.events)
        self._end += len(report.events)
        while self._events and self._end - len(self._events) < heard:
            self._events.popleft()
        return replace(report, events=tuple(self._events), events_end=self._end)
