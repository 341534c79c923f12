"""What is measured, on which clusters, and the data that it needs."""

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
    #: How many distinct keys; 0: records have none.
    keys: int = 0

    def sized(self, share: float) -> DataSpec:
        """The same with this share of the records, in whole batches, at least one for each partition."""
        batches = max(self.partitions, round(self.records * share / self.batch_records))
        return replace(self, records=batches * self.batch_records)

    def configs(self) -> dict[str, str]:
        """The topic's configuration."""
        return dict(self.topic_configs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSite:
    """Where the clusters are: ``round_trip_ms`` lies between a contender and the cluster that is ``far``."""

    target_brokers: int = 1
    far: Literal["", "source", "target"] = ""
    round_trip_ms: int = 0
    #: Every contender gets clusters that were just started, and that nothing has warmed up.
    cold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One thing that is measured of each contender. ``workload`` and ``case`` name its rows."""

    workload: str
    case: str = ""
    site: ClusterSite = ClusterSite()
    #: The contender is started for this measurement alone.
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StartMeasurement(Measurement):
    """From the start of the process to the first record on the target; and until a topic that is new is copied."""

    discovery_limit_s: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyMeasurement(Measurement):
    """A backlog is opened to a warm contender; measured until its last record is copied, or for ``limit_s``."""

    data: DataSpec
    limit_s: float = 120.0
    #: The backlog is there before the contender starts, which is not warmed up: for data that can't be held back.
    at_start: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrickleMeasurement(Measurement):
    """A few records a second, for latency and for what a contender costs while it has little to do."""

    seconds: float
    records_per_s: int = 500
    partitions: int = 8
    #: Partitions that get records.
    busy: int = 8
    #: How long nothing at all is written before.
    idle_s: float = 0.0
    #: The producer writes in transactions, and commits so often; 0: without.
    commit_every_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfLoadMeasurement(TrickleMeasurement):
    """The same beside half of what the contender can copy, which it shows with a backlog of such data before."""

    data: DataSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartMeasurement(Measurement):
    """Processes of the contender are killed (SIGKILL) when half of a backlog is copied.

    ``completely``: all of them, and it is started again. Otherwise those that copy, and it recovers by itself.
    """

    data: DataSpec
    completely: bool = True
    limit_s: float = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsMeasurement(Measurement):
    """Consumer groups that lag: where they would continue after a failover, and how soon a commit is synced."""

    records: int = 200_000
    groups: int = 20
    lag: int = 10_000
    limit_s: float = 150.0


def sized(measurement: Measurement, share: float) -> Measurement:
    """The same measurement with this share of the records."""
    match measurement:
        case CopyMeasurement() | RestartMeasurement():
            return replace(measurement, data=measurement.data.sized(share))
        case HalfLoadMeasurement():
            seconds = max(1.0, measurement.seconds * share)
            return replace(measurement, seconds=seconds, data=measurement.data.sized(share))
        case TrickleMeasurement():
            return replace(measurement, seconds=max(1.0, measurement.seconds * share))
        case _:
            return measurement
