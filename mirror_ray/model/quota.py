"""What one replicator may read for a flow, and for how long it was throttled."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_ray.model.names import FlowName


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaShare:
    """A replicator's share of a flow's limits, until the coordinator sends another."""

    flow: FlowName
    #: None: no limit but those of ``topics``.
    bytes_per_s: float | None = None
    #: Topics with a limit of their own.
    topics: tuple[tuple[str, float], ...] = ()
    #: By topic: 0 comes first, 1 takes what that leaves, and so on. Topics that are not named have ``usual_rank``.
    ranks: tuple[tuple[str, int], ...] = ()
    usual_rank: int = 0

    @property
    def lowest_rank(self) -> int:
        """The rank that comes last; 0: all are alike."""
        return max([self.usual_rank, *(rank for _, rank in self.ranks)])


@dataclass(frozen=True, slots=True)
class ThrottledTime:
    """Seconds in which reading or writing was throttled, by what. Only ever grows while its process lives."""

    #: By limits of the configuration.
    limit_s: float = 0.0
    #: By a quota of the source's brokers, and of the target's (``throttle_time_ms``, KIP-219).
    source_s: float = 0.0
    target_s: float = 0.0

    def __add__(self, other: ThrottledTime) -> ThrottledTime:
        return ThrottledTime(
            self.limit_s + other.limit_s, self.source_s + other.source_s, self.target_s + other.target_s
        )

    def __sub__(self, before: ThrottledTime) -> ThrottledTime:
        return ThrottledTime(
            self.limit_s - before.limit_s, self.source_s - before.source_s, self.target_s - before.target_s
        )


class ThrottleCounter:
    """Seconds of waiting; those in which several waited at the same time count once."""

    __slots__ = ("_until_s", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._until_s = 0.0

    def wait(self, now_s: float, wait_s: float) -> None:
        """Count ``wait_s`` from now on."""
        until_s = now_s + wait_s
        self.seconds += max(0.0, until_s - max(now_s, self._until_s))
        self._until_s = max(self._until_s, until_s)
