"""What is measured: legs, the places where they are run, and the data that they need. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSpec:
    """The records of one topic: how many, of which size, in which batches."""

    records: int
    record_bytes: int
    batch_records: int
    codec: str
    partitions: int = 8
    topic_configs: tuple[tuple[str, str], ...] = ()
    #: So many distinct keys; 0: records have none.
    keys: int = 0

    def sized(self, share: float) -> DataSpec:
        """The same with this share of the records, in whole batches, one for each partition at least."""
        batches = max(self.partitions, round(self.records * share / self.batch_records))
        return replace(self, records=batches * self.batch_records)

    def configs(self) -> dict[str, str]:
        """The topic's configuration."""
        return dict(self.topic_configs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSite:
    """Where the clusters stand.

    ``round_trip_ms``: between a contender and the cluster that is ``far``; the other one is next to it.
    """

    target_brokers: int = 1
    far: Literal["", "source", "target"] = ""
    round_trip_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One thing that is measured of each contender. ``workload`` and ``case`` name its rows."""

    workload: str
    case: str = ""
    place: ClusterSite = ClusterSite()
    #: The contender is started for this leg and for no other one.
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StartMeasurement(Measurement):
    """From the start of the process to the first record on the target; and until a topic that is new is copied."""

    discovery_box_s: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyMeasurement(Measurement):
    """A backlog is opened to a contender that is warm; measured to its last record, or for ``box_s``."""

    data: DataSpec
    box_s: float = 120.0
    #: The backlog is there before the contender starts, which does not get warm: for data that can't be held back.
    at_start: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrickleMeasurement(Measurement):
    """A few records a second, for latency and for what a contender costs while it has little to do."""

    seconds: float
    records_per_s: int = 500
    partitions: int = 8
    busy: int = 8
    #: Before, so long nothing at all.
    idle_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartMeasurement(Measurement):
    """Processes of the contender are killed (SIGKILL) when half of a backlog is copied.

    ``whole``: all of them, and it is started again. Else those that copy, and it is left to itself.
    """

    data: DataSpec
    whole: bool = True
    box_s: float = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsMeasurement(Measurement):
    """Consumer groups that lag: where they would go on after a failover, and how soon a commit is carried over."""

    records: int = 200_000
    groups: int = 20
    lag: int = 10_000
    box_s: float = 150.0


def sized(leg: Measurement, share: float) -> Measurement:
    """The same leg with this share of the records."""
    match leg:
        case CopyMeasurement() | RestartMeasurement():
            return replace(leg, data=leg.data.sized(share))
        case TrickleMeasurement():
            return replace(leg, seconds=max(1.0, leg.seconds * share))
        case _:
            return leg
