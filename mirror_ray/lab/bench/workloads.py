"""The workloads: their questions, their measurements, and their contenders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mirror_ray.lab.bench.contenders import (
    BASELINE,
    MIRROR_RAY,
    MM2,
    MM2_EXACTLY_ONCE,
    MM2_TUNED,
    MM2_TUNED_EXACTLY_ONCE,
    ON_RAY,
    RECOMPRESSING,
    Contender,
    scaled,
)
from mirror_ray.lab.bench.measurements import (
    ClusterSite,
    CopyMeasurement,
    DataSpec,
    GroupsMeasurement,
    HalfLoadMeasurement,
    Measurement,
    RestartMeasurement,
    StartMeasurement,
    TrickleMeasurement,
    sized,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Measurements that answer one question, and their contenders. ``repeats``: how often each measurement is run."""

    name: str
    title: str
    contenders: tuple[Contender, ...]
    measurements: tuple[Measurement, ...]
    repeats: int = 1
    #: Further measurements, each of one contender alone.
    further: tuple[tuple[Measurement, Contender], ...] = ()

    def without(self, system: str) -> Workload:
        """The same without the contenders of a system."""
        return replace(
            self,
            contenders=tuple(contender for contender in self.contenders if contender.system != system),
            further=tuple(
                (measurement, contender) for measurement, contender in self.further if contender.system != system
            ),
        )

    def sized(self, share: float) -> Workload:
        """The same with this share of the records."""
        return replace(
            self,
            measurements=tuple(sized(measurement, share) for measurement in self.measurements),
            further=tuple((sized(measurement, share), contender) for measurement, contender in self.further),
        )

    def runs(self) -> Sequence[tuple[Contender, Measurement]]:
        """Each contender with each of its measurements, once."""
        found = [(contender, measurement) for contender in self.contenders for measurement in self.measurements]
        return [*found, *((contender, measurement) for measurement, contender in self.further)]


def workloads(*, quick: bool, size: float = 1.0) -> tuple[Workload, ...]:
    """All workloads, or with ``quick`` those that say most, shortened; each with the share ``size`` of its records."""
    found = (*_short(quick=quick), *(() if quick else _long()))
    return found if size == 1 else tuple(workload.sized(size) for workload in found)


def broker_warm_up(site: ClusterSite, size: float = 1.0) -> tuple[Measurement, ...]:
    """What is run before anything counts, to warm up the brokers.

    Their virtual machines need a minute of work on two cores to compile what is used; the first contender would pay.
    """
    measurements = (
        CopyMeasurement(workload="throughput", case="warm-up", site=site, data=_large(500_000), limit_s=20),
        CopyMeasurement(workload="small-batches", case="warm-up", site=site, data=_small(500_000), limit_s=20),
        TrickleMeasurement(workload="trickle", case="warm-up", site=site, seconds=10 if site.far else 30),
    )
    return tuple(sized(measurement, size) for measurement in measurements)


def _large(records: int, partitions: int = 8) -> DataSpec:
    """Large batches, as a busy producer that compresses makes them."""
    return DataSpec(records=records, record_bytes=1000, batch_records=500, codec="zstd", partitions=partitions)


def _small(records: int) -> DataSpec:
    """Small batches."""
    return DataSpec(records=records, record_bytes=100, batch_records=10, codec="none")


def _short(*, quick: bool) -> tuple[Workload, ...]:
    mm2 = (MM2, MM2_TUNED) if quick else (MM2, MM2_TUNED, MM2_EXACTLY_ONCE, MM2_TUNED_EXACTLY_ONCE)
    repeats = 1 if quick else 2
    large, half = _large(500_000 if quick else 1_000_000), _large(300_000 if quick else 2_000_000)
    small = CopyMeasurement(workload="small-batches", data=_small(500_000 if quick else 1_000_000))
    everything = RestartMeasurement(workload="restart", case="all of it, started again", data=half, alone=True)
    replicator = RestartMeasurement(workload="restart", case="one replicator", data=half, completely=False)
    return (
        Workload(
            name="throughput",
            title="Records of 1 KB, zstd, 500 in a batch",
            contenders=(MIRROR_RAY, *mm2, BASELINE),
            measurements=(CopyMeasurement(workload="throughput", data=large),),
            repeats=repeats,
        ),
        Workload(
            name="small-batches",
            title="Records of 100 B, 10 in a batch",
            contenders=(MIRROR_RAY, *((MM2_TUNED,) if quick else (MM2, MM2_TUNED)), BASELINE),
            measurements=(small,),
            further=((small, RECOMPRESSING),),
            repeats=repeats,
        ),
        Workload(
            name="trickle",
            title="500 records a second",
            contenders=(MIRROR_RAY, *mm2[:2], BASELINE),
            measurements=(TrickleMeasurement(workload="trickle", seconds=15 if quick else 30),),
            repeats=repeats,
        ),
        Workload(
            name="start",
            title="From the start of the process to the first record, and until a new topic is copied",
            contenders=(MIRROR_RAY, ON_RAY, *mm2),
            measurements=(StartMeasurement(workload="start", discovery_limit_s=10 if quick else 20),),
        ),
        Workload(
            name="restart",
            title="Killed (SIGKILL) half-way",
            contenders=(MIRROR_RAY, MM2, *(() if quick else (MM2_EXACTLY_ONCE,))),
            measurements=(everything,),
            further=((replicator, MIRROR_RAY),),
        ),
    )


def _long() -> tuple[Workload, ...]:
    pair = (MIRROR_RAY, MM2_TUNED)
    return (
        Workload(
            name="codecs",
            title="Records of 1 KB, 100 in a batch, by codec",
            contenders=(*pair, BASELINE),
            measurements=tuple(
                CopyMeasurement(
                    workload="codecs",
                    case=codec,
                    data=DataSpec(records=300_000, record_bytes=1000, batch_records=100, codec=codec),
                )
                for codec in ("none", "gzip", "snappy", "lz4", "zstd")
            ),
        ),
        Workload(
            name="single-records",
            title="Records of 1 KB, each a batch of its own",
            contenders=(MIRROR_RAY, MM2, MM2_TUNED, RECOMPRESSING, BASELINE),
            measurements=(
                CopyMeasurement(
                    workload="single-records",
                    data=DataSpec(records=300_000, record_bytes=1000, batch_records=1, codec="none"),
                ),
            ),
        ),
        Workload(
            name="many-trickles",
            title="200 partitions with two records a second each",
            contenders=(MIRROR_RAY, MM2, MM2_TUNED, BASELINE),
            measurements=(
                TrickleMeasurement(
                    workload="many-trickles", seconds=20, records_per_s=400, partitions=200, busy=200, alone=True
                ),
            ),
        ),
        Workload(
            name="transactions",
            title="500 records a second in transactions of 100 ms",
            contenders=(MIRROR_RAY, MM2, MM2_TUNED, BASELINE),
            measurements=(TrickleMeasurement(workload="transactions", seconds=30, commit_every_s=0.1),),
        ),
        Workload(
            name="half-load",
            title="500 records a second beside half of what can be copied",
            contenders=(MIRROR_RAY,),
            measurements=(HalfLoadMeasurement(workload="half-load", seconds=20, data=_large(1_000_000), alone=True),),
            repeats=3,
        ),
        Workload(
            name="large-records",
            title="Records of 900 KB, uncompressed",
            contenders=pair,
            measurements=(
                CopyMeasurement(
                    workload="large-records",
                    data=DataSpec(records=2_000, record_bytes=900_000, batch_records=1, codec="none"),
                ),
            ),
            repeats=3,
        ),
        Workload(
            name="many-partitions",
            title="2,000 partitions, ten of them with 500 records a second",
            contenders=pair,
            measurements=(
                TrickleMeasurement(
                    workload="many-partitions", seconds=30, partitions=2000, busy=10, idle_s=30, alone=True
                ),
            ),
        ),
        _wan(),
        Workload(
            name="groups",
            title="Consumer groups that lag by up to 10,000 records",
            contenders=(MIRROR_RAY, MM2),
            measurements=(GroupsMeasurement(workload="groups", alone=True),),
        ),
        Workload(
            name="scale",
            title="Records of 1 KB, zstd, 500 in a batch, by replicators and tasks",
            contenders=tuple(scaled(contender, workers) for workers in (1, 2, 4) for contender in pair),
            measurements=(CopyMeasurement(workload="scale", data=_large(500_000, partitions=16)),),
        ),
        _repack(),
        _from_cold(),
        Workload(
            name="rf3",
            title="A target of three brokers, replication factor 3",
            contenders=pair,
            measurements=(CopyMeasurement(workload="rf3", data=_large(500_000), site=ClusterSite(target_brokers=3)),),
            repeats=2,
        ),
    )


def _from_cold() -> Workload:
    return Workload(
        name="from-cold",
        title="Brokers and processes from cold: from the start of the process to the last record of a backlog",
        contenders=(MIRROR_RAY, MM2, MM2_TUNED),
        measurements=tuple(
            CopyMeasurement(
                workload="from-cold", case=case, site=ClusterSite(cold=True), data=data, at_start=True, alone=True
            )
            for case, data in (("500 x 1 KB, zstd", _large(1_000_000)), ("10 x 100 B", _small(1_000_000)))
        ),
    )


def _wan() -> Workload:
    sides: tuple[Literal["source", "target"], ...] = ("source", "target")
    sites = [ClusterSite(far=side, round_trip_ms=round_trip_ms) for side in sides for round_trip_ms in (20, 100)]
    measurements = tuple(
        CopyMeasurement(
            workload="wan",
            case=f"{site.far} {site.round_trip_ms} ms away, {partitions} partition{'s' if partitions > 1 else ''}",
            site=site,
            data=DataSpec(records=400_000, record_bytes=1000, batch_records=16, codec="none", partitions=partitions),
            limit_s=15,
            alone=True,
        )
        for site in sites
        for partitions in (1, 8)
    )
    defaults = tuple((measurement, MM2) for measurement in measurements if "100 ms away, 1 " in measurement.case)
    return Workload(
        name="wan",
        title="A long link on one side, batches of 16 KB",
        contenders=(MIRROR_RAY, MM2_TUNED),
        measurements=measurements,
        further=defaults,
    )


def _repack() -> Workload:
    data = DataSpec(records=200_000, record_bytes=500, batch_records=100, codec="zstd")
    compacted = (
        ("cleanup.policy", "compact"),
        ("segment.bytes", "1048576"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("segment.ms", "1000"),
    )
    measurements = (
        CopyMeasurement(
            workload="repack",
            case="compacted source",
            data=replace(data, records=400_000, topic_configs=compacted, keys=100_000),
            at_start=True,
            alone=True,
        ),
        CopyMeasurement(
            workload="repack",
            case="LogAppendTime source",
            data=replace(data, topic_configs=(("message.timestamp.type", "LogAppendTime"),)),
        ),
        CopyMeasurement(
            workload="repack", case="uncompressed, as it is", data=replace(data, record_bytes=1000, codec="none")
        ),
    )
    return Workload(
        name="repack",
        title="Batches that can't be passed on as they are",
        contenders=(MIRROR_RAY, MM2_TUNED),
        measurements=measurements,
        further=((measurements[-1], RECOMPRESSING),),
    )
