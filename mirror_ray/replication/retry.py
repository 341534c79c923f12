"""When a partition that could not go on is looked at again. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_ray.model.fault import PartitionFault
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.replication.backoff import backoff_s

_FIRST_S, _LAST_S = 0.02, 2.0
_FIRST_STOPPED_S, _LAST_STOPPED_S = 2.0, 30.0
#: The target's log end and its high watermark usually meet within a fetch round of its followers; they don't while too
#: few of its replicas are in sync.
_FIRST_UNSETTLED_S, _LAST_UNSETTLED_S = 0.02, 0.5
#: What passes is told of by the partition's status once it has happened more often than this, in a row.
_UNNOTICED = 5


@dataclass(slots=True)
class RetryTimes:
    """When a partition is looked at again, and how often in a row that was needed. Times are one clock's."""

    at_s: float = 0.0
    #: On the target's side, until an acknowledgement; and how often of these it was stopped.
    failures: int = 0
    stops: int = 0
    #: On the source's side, until something is fetched.
    moves: int = 0
    #: What the event log was told when it stopped, until an acknowledgement.
    told: str | None = None
    #: How often in a row its broker refused the sequence that is next by its log, with the place as it was.
    contradictions: int = 0
    contradicted_at: OffsetPair | None = None
    #: What that is called once it does not pass by itself; it is over when the target takes something.
    contradiction: PartitionFault | None = None
    #: When the target's end was read last, and how often before it was not committed.
    established_s: float = 0.0
    unsettled: int = 0

    def failed(self, now_s: float) -> None:
        """Something that passes went wrong on the target's side."""
        self.failures += 1
        self.at_s = now_s + backoff_s(self.failures, _FIRST_S, _LAST_S)

    def contradicted(self, place: OffsetPair) -> bool:
        """The broker expects another sequence at ``place``; whether that has been so too often to pass by itself."""
        self.contradictions = self.contradictions + 1 if place == self.contradicted_at else 1
        self.contradicted_at = place
        return self.contradictions > _UNNOTICED

    def stopped(self, now_s: float) -> None:
        """Nothing will change soon."""
        self.at_s = now_s + backoff_s(self.stops, _FIRST_STOPPED_S, _LAST_STOPPED_S)
        self.failures += 1
        self.stops += 1

    def not_committed(self, now_s: float) -> None:
        """The target's leader holds more than is committed."""
        self.at_s = now_s + backoff_s(self.unsettled, _FIRST_UNSETTLED_S, _LAST_UNSETTLED_S)
        self.unsettled += 1

    def established(self, now_s: float) -> None:
        """The target's end was read."""
        self.established_s, self.unsettled = now_s, 0

    def moved(self, now_s: float) -> None:
        """To be fetched from another broker: at once if something was fetched lately, else later each time."""
        self.at_s = now_s + (backoff_s(self.moves, _FIRST_S, _LAST_S) if self.moves else 0.0)
        self.moves += 1

    def acknowledged(self) -> None:
        """The target took something."""
        self.failures, self.stops, self.told = 0, 0, None
        self.contradictions, self.contradicted_at, self.contradiction = 0, None, None

    @property
    def fails_for_long(self) -> bool:
        """Whether the target's side has failed too often in a row for it to go unnoticed."""
        return self.failures > _UNNOTICED

    @property
    def moves_for_long(self) -> bool:
        """Whether the source's side has."""
        return self.moves > _UNNOTICED

    @property
    def unsettled_for_long(self) -> bool:
        """Whether the target's end has been uncommitted too often in a row."""
        return self.unsettled > _UNNOTICED
