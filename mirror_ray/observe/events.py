"""What happened: events and skipped ranges, and the log of the newest events."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from mirror_ray.model.fault import FaultKind, FaultPolicy

_KEPT = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of the event log: a sentence on what happened and why."""

    time_ms: int
    #: ``info`` or ``warning`` or ``error``.
    level: str
    #: The flow, topic, partition or replicator.
    subject: str
    text: str
    #: Grows by one with each event of a coordinator's life.
    number: int = 0

    def __str__(self) -> str:
        time = datetime.fromtimestamp(self.time_ms / 1000).astimezone()
        return f"{time:%H:%M:%S}  {self.subject}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GapStatus:
    """A skipped range of a partition, or one that was copied again. Ends are not included; -1: none."""

    flow: str
    topic: str
    partition: int
    kind: FaultKind
    policy: FaultPolicy
    time_ms: int
    source_from: int
    source_to: int
    target_from: int
    target_to: int
    text: str

    def __str__(self) -> str:
        time = datetime.fromtimestamp(self.time_ms / 1000).astimezone()
        return (
            f"{time:%Y-%m-%d %H:%M:%S}  {self.flow}  {self.topic}-{self.partition}  {self.kind}: {self.policy}"
            f"  source {offsets(self.source_from, self.source_to)}"
            f"  target {offsets(self.target_from, self.target_to)}  {self.text}"
        )


def offsets(first: int, end: int) -> str:
    """A range of offsets as text, or ``-`` for none."""
    return "-" if first < 0 else f"{first} to {end}"


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
