"""When a partition that could not go on is tried again."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.replication.backoff import backoff_s

_FIRST_S, _LAST_S = 0.02, 2.0
_FIRST_STOPPED_S, _LAST_STOPPED_S = 2.0, 30.0
#: The target's log end and its high watermark usually meet within a fetch round of its followers; they don't while too
#: few of its replicas are in sync.
_FIRST_UNCOMMITTED_S, _LAST_UNCOMMITTED_S = 0.02, 0.5
#: Failures that pass are shown in the partition's status once there were more than this in a row.
_UNNOTICED = 5


@dataclass(slots=True)
class RetryTimes:
    """When a partition is tried again, and how often in a row that was needed. All times are of one clock."""

    at_s: float = 0.0
    #: Failures on the target's side since the last acknowledgement, and how often the partition stopped by them.
    failures: int = 0
    stops: int = 0
    #: Changes of the source's broker since something was fetched.
    moves: int = 0
    #: Why it stopped, as the event log has it, until an acknowledgement.
    reported: str | None = None
    #: How often in a row the broker refused the sequence that is next by its log, and at which position.
    contradictions: int = 0
    contradicted_at: OffsetPair | None = None
    #: When the target's log end was read last, and how often in a row it was not committed.
    established_s: float = 0.0
    uncommitted: int = 0

    def failed(self, now_s: float) -> None:
        """Note a failure on the target's side that is expected to pass."""
        self.failures += 1
        self.at_s = now_s + backoff_s(self.failures, _FIRST_S, _LAST_S)

    def contradicted(self, position: OffsetPair) -> bool:
        """Note that the broker expects another sequence at ``position``; returns whether that lasts too long."""
        self.contradictions = self.contradictions + 1 if position == self.contradicted_at else 1
        self.contradicted_at = position
        return self.contradictions > _UNNOTICED

    def stopped(self, now_s: float) -> None:
        """Note that the partition stopped."""
        self.at_s = now_s + backoff_s(self.stops, _FIRST_STOPPED_S, _LAST_STOPPED_S)
        self.failures += 1
        self.stops += 1

    def not_committed(self, now_s: float) -> None:
        """Note that the target's leader holds more than is committed."""
        self.at_s = now_s + backoff_s(self.uncommitted, _FIRST_UNCOMMITTED_S, _LAST_UNCOMMITTED_S)
        self.uncommitted += 1

    def established(self, now_s: float) -> None:
        """Note that the target's log end was read."""
        self.established_s, self.uncommitted = now_s, 0

    def moved(self, now_s: float) -> None:
        """Note that another broker is fetched from: at once if something was fetched since, else later each time."""
        self.at_s = now_s + (backoff_s(self.moves, _FIRST_S, _LAST_S) if self.moves else 0.0)
        self.moves += 1

    def acknowledged(self) -> None:
        """Note that the target took a batch."""
        self.failures, self.stops, self.reported = 0, 0, None
        self.contradictions, self.contradicted_at = 0, None

    @property
    def fails_for_long(self) -> bool:
        """Whether the target's side failed so often in a row that the status shows it."""
        return self.failures > _UNNOTICED

    @property
    def moves_for_long(self) -> bool:
        """Whether the source's broker changed so often in a row that the status shows it."""
        return self.moves > _UNNOTICED

    @property
    def uncommitted_for_long(self) -> bool:
        """Whether the target's log end was uncommitted so often in a row that the status shows it."""
        return self.uncommitted > _UNNOTICED
