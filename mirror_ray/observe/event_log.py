"""The event log: the newest events, and the number of all events by level."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping

from mirror_ray.observe.status import Event

_KEPT = 2000


class EventLog:
    """Keeps the newest 2,000 events; the number of an event grows by one with each."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        """``wall_ms`` returns ms since the epoch, for events without a time of their own."""
        self._wall_ms = wall_ms
        self._events: deque[Event] = deque(maxlen=_KEPT)
        self._counts: Counter[str] = Counter()
        self._number = 0

    def emit(self, level: str, subject: str, text: str, time_ms: int | None = None) -> None:
        """Add an event. ``level`` is info, warning or error; ``time_ms``: when it happened, None: now."""
        self._number += 1
        self._counts[level] += 1
        at_ms = self._wall_ms() if time_ms is None else time_ms
        self._events.append(Event(time_ms=at_ms, level=level, subject=subject, text=text, number=self._number))

    def newest(self, limit: int) -> tuple[Event, ...]:
        """The newest events, oldest first."""
        return tuple(self._events)[-limit:] if limit > 0 else ()

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of events by level since the log began."""
        return dict(self._counts)
