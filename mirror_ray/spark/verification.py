"""The first look of a verification, by Spark: both sides read and hashed by its executors, joined there.

Only what differs comes to this process: numbers of ranges, and of compacted topics the keys. What is said of them is
said by the same code as without Spark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.spark.kafka import read_ranges
from mirror_ray.verification.job import CompareJob, FirstPass, FirstPassResult
from mirror_ray.verification.partition_log import PartitionLog
from mirror_ray.verification.ranges import ComparedRange, gather_spans, merge_spans

#: Offsets that a task reads, and tasks at most.
_TASK_OFFSETS = 250_000
_MOST_TASKS = 10_000
#: Stretches of a partition that are read apart; what lies between the nearest is read along where there are more.
_MOST_STRETCHES = 16
#: A partition with fewer offsets is read here: a task of Spark, and its consumer, would cost more than that.
SMALL_OFFSETS = 10_000
#: So often retention may take what is being read before it is left to the plain look.
_ATTEMPTS = 3
#: What Spark's connector says then.
_DATA_LOSS = ("failOnDataLoss", "data may have been lost", "OffsetOutOfRange")

_TABLE = (
    "topic string, partition int, bucket bigint, first bigint, end bigint, job int, range int, stamped boolean,"
    " keys_below bigint"
)


class _RemovedError(Exception):
    """Records were deleted while they were read."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One cluster, and where jobs and ranges lie on it."""

    cluster: ClusterSettings
    read_committed: bool
    partition: Callable[[CompareJob], TopicPartition]
    span: Callable[[ComparedRange], tuple[int, int]]


class SparkFirstPass:
    """See ``FirstPass``."""

    def __init__(
        self,
        spark: SparkSession,
        clusters: tuple[ClusterSettings, ClusterSettings],
        logs: Callable[[CompareJob], tuple[PartitionLog, PartitionLog]],
        plain: FirstPass,
        small_offsets: int = SMALL_OFFSETS,
    ) -> None:
        """Prepare.

        Args:
            spark: The session.
            clusters: The source and the target.
            logs: A job's partition on both sides.
            plain: Looks at small partitions, and takes over where retention takes records faster than they are read.
            small_offsets: What a small partition is.
        """
        self._spark = spark
        self._clusters = clusters
        self._logs = logs
        self._plain = plain
        self._small_offsets = small_offsets

    async def run(self, jobs: Sequence[CompareJob]) -> Sequence[FirstPassResult]:
        """See ``FirstPass``.

        Raises:
            MirrorError: Spark failed; names its error.
        """
        small = [each for each in jobs if not self._is_for_spark(each)]
        large = [each for each in jobs if self._is_for_spark(each)]
        looks = iter(await self._plain.run(small)), iter(await self._look_at_large(large))
        return [next(looks[self._is_for_spark(each)]) for each in jobs]

    def _is_for_spark(self, job: CompareJob) -> bool:
        """Whether it is worth a task; transforms are not carried to Spark's executors."""
        return _offsets(job) >= self._small_offsets and not job.transformed

    async def _look_at_large(self, jobs: Sequence[CompareJob]) -> Sequence[FirstPassResult]:
        if not jobs:
            return []
        remaining = list(jobs)
        for _ in range(_ATTEMPTS):
            try:
                looks = await asyncio.to_thread(self._look, remaining)
            except _RemovedError:
                remaining = [await self._still_there(job) for job in jobs]
                continue
            return [_with_torn(*each) for each in zip(jobs, remaining, looks, strict=True)]
        return await self._plain.run(jobs)

    async def _still_there(self, job: CompareJob) -> CompareJob:
        """Without the ranges whose beginnings were deleted; of a compacted partition without those beginnings."""
        source, target = self._logs(job)
        starts = await asyncio.gather(source.start(), target.start())
        if job.compacted:
            return replace(job, ranges=tuple(_clipped(each, starts[0], starts[1]) for each in job.ranges))
        there = [n for n in job.chosen if job.ranges[n].source >= starts[0] and job.ranges[n].target >= starts[1]]
        return replace(job, chosen=tuple(there))

    def _look(self, jobs: Sequence[CompareJob]) -> list[FirstPassResult]:
        try:
            by_range = self._look_at_ranges({n: job for n, job in enumerate(jobs) if not job.compacted})
            by_key = self._look_at_keys({n: job for n, job in enumerate(jobs) if job.compacted})
        except (PySparkException, Py4JJavaError) as error:
            text = str(error)
            if any(each in text for each in _DATA_LOSS):
                raise _RemovedError from error
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            why = next((line for line in lines if line.startswith("Caused by")), lines[0] if lines else repr(error))
            raise MirrorError(
                f"Spark could not read and compare: {why}; its logs are in Ray's session directory, and without --spark"
                " this process compares"
            ) from error
        return [(by_range | by_key)[number] for number in range(len(jobs))]

    def _look_at_ranges(self, jobs: Mapping[int, CompareJob]) -> dict[int, FirstPassResult]:
        if not jobs:
            return {}
        source, target = (_sums(self._placed(side, jobs)) for side in self._sides(jobs))
        joined = source.alias("s").join(target.alias("t"), ["job", "range"], "full_outer")
        same = reduce(Column.__and__, (F.col(f"s.{c}").eqNullSafe(F.col(f"t.{c}")) for c in ("records", "one", "two")))
        rows = (
            joined.groupBy("job")
            .agg(
                F.sum(F.when(same, F.col("s.records"))).alias("records"),
                F.collect_list(F.when(~same, F.col("range"))).alias("ranges"),
            )
            .collect()
        )
        found = {
            row["job"]: FirstPassResult(
                records=row["records"] or 0,
                target_records=row["records"] or 0,
                ranges=tuple(sorted(row["ranges"])),
            )
            for row in rows
        }
        return {number: found.get(number, FirstPassResult()) for number in jobs}

    def _look_at_keys(self, jobs: Mapping[int, CompareJob]) -> dict[int, FirstPassResult]:
        if not jobs:
            return {}
        source, target = (_lasts(self._placed(side, jobs)) for side in self._sides(jobs))
        both = source.alias("s").join(target.alias("t"), ["job", "key"], "full_outer")
        live = [F.coalesce(~F.col(f"{side}.last.dead"), F.lit(False)) for side in "st"]
        alike = reduce(Column.__and__, (F.col(f"s.last.{c}").eqNullSafe(F.col(f"t.last.{c}")) for c in ("one", "two")))
        same = (~live[0] & ~live[1]) | (live[0] & live[1] & alike)
        compared = both.select(
            "job", "key", same.alias("same"), F.col("s.records").alias("mine"), F.col("t.records").alias("theirs")
        ).persist()
        try:
            counts = compared.groupBy("job").agg(
                F.sum("mine").alias("mine"), F.sum("theirs").alias("theirs"), F.count(F.lit(1)).alias("keys")
            )
            found = {row["job"]: row for row in counts.collect()}
            keys: dict[int, set[bytes]] = {}
            # All of them, a task's at a time: most are left undecided later, and which ones Spark does not know.
            for row in compared.where("not same").select("job", "key").toLocalIterator():
                keys.setdefault(row["job"], set()).add(bytes(row["key"]))
        finally:
            compared.unpersist()
        return {number: _key_look(found.get(number), keys.get(number, set())) for number in jobs}

    def _sides(self, jobs: Mapping[int, CompareJob]) -> tuple[_Side, _Side]:
        source, target = self._clusters
        committed = self._logs(next(iter(jobs.values())))[0].read_committed
        return (
            _Side(source, committed, lambda job: job.source, lambda each: (each.source, each.source_end)),
            _Side(target, True, lambda job: job.target, lambda each: (each.target, each.target_end)),
        )

    def _placed(self, side: _Side, jobs: Mapping[int, CompareJob]) -> DataFrame:
        """The records of one side that lie in chosen ranges, each with its job and range, and its hashes."""
        spans: dict[TopicPartition, list[tuple[int, int]]] = {}
        for job in jobs.values():
            spans.setdefault(side.partition(job), []).extend(side.span(each) for each in job.chosen_ranges)
        offsets = sum(end - first for every in spans.values() for first, end in every)
        ranges = sum(map(len, spans.values()))
        bucket = max(1, offsets // max(1, ranges))
        table = F.broadcast(self._spark.createDataFrame(list(_rows(side, jobs, bucket)), _TABLE))
        records = self._records(side, spans).withColumn("bucket", F.floor(F.col("offset") / bucket))
        return (
            records.join(table, ["topic", "partition", "bucket"])
            .where("offset >= first and offset < end")
            .select(
                "job",
                "range",
                "offset",
                "key",
                F.col("value").isNull().alias("dead"),
                F.crc32("key").alias("crc"),
                "keys_below",
                _hash(1).alias("one"),
                _hash(2).alias("two"),
            )
        )

    def _records(self, side: _Side, spans: Mapping[TopicPartition, list[tuple[int, int]]]) -> DataFrame:
        """Of a partition a Spark table has one stretch: where there are more, more tables are put together."""
        wanted = {place: gather_spans(merge_spans(every), _MOST_STRETCHES) for place, every in spans.items()}
        tables: list[DataFrame] = []
        for number in range(max(1, *map(len, wanted.values()))):
            part = {place: every[number] for place, every in wanted.items() if number < len(every)}
            offsets = sum(end - first for first, end in part.values())
            splits = min(_MOST_TASKS, max(1, len(part), offsets // _TASK_OFFSETS))
            tables.append(
                read_ranges(self._spark, side.cluster, part, read_committed=side.read_committed, splits=splits)
            )
        return reduce(DataFrame.unionByName, tables)


def _offsets(job: CompareJob) -> int:
    return sum(each.source_end - each.source for each in job.chosen_ranges)


def _rows(side: _Side, jobs: Mapping[int, CompareJob], bucket: int) -> Iterable[tuple[Any, ...]]:
    """Each range once for every bucket that it reaches into: so that records find theirs by a hash join."""
    for number, job in jobs.items():
        topic, partition = side.partition(job)
        below = round(job.key_fraction * (1 << 32))
        for at in job.chosen:
            first, end = side.span(job.ranges[at])
            if first < end:
                for each in range(first // bucket, (end - 1) // bucket + 1):
                    yield topic, partition, each, first, end, number, at, job.timestamps, below


def _hash(salt: int) -> Column:
    """A hash of all that a consumer sees of a record; nulls and empty ones are told apart."""
    headers = F.transform("headers", lambda each: F.struct(each["key"], each["value"].isNull(), each["value"]))
    stamp = F.when(F.col("stamped"), F.unix_millis("timestamp")).otherwise(F.lit(0))
    key, value = F.col("key"), F.col("value")
    return F.xxhash64(
        F.lit(salt), key.isNull(), key, value.isNull(), value, F.size("headers"), headers, stamp, F.lit(salt)
    )


def _sums(placed: DataFrame) -> DataFrame:
    """Of each range the number of records, and hashes over each record and its number in the range."""
    number = F.row_number().over(Window.partitionBy("job", "range").orderBy("offset"))
    return (
        placed.select("job", "range", "offset", "one", "two")
        .withColumn("number", number)
        .groupBy("job", "range")
        .agg(
            F.count(F.lit(1)).alias("records"),
            F.bit_xor(F.xxhash64("number", "one")).alias("one"),
            F.bit_xor(F.xxhash64("two", "number")).alias("two"),
        )
    )


def _lasts(placed: DataFrame) -> DataFrame:
    """Of each key the last record, and how many there were."""
    return (
        placed.where("key is not null and crc < keys_below")
        .groupBy("job", "key")
        .agg(F.max(F.struct("offset", "dead", "one", "two")).alias("last"), F.count(F.lit(1)).alias("records"))
    )


def _key_look(row: Any, keys: set[bytes]) -> FirstPassResult:
    if row is None:
        return FirstPassResult()
    return FirstPassResult(
        records=row["mine"] or 0,
        target_records=row["theirs"] or 0,
        keys=row["keys"],
        differing_keys=frozenset(keys),
    )


def _clipped(each: ComparedRange, source: int, target: int) -> ComparedRange:
    return ComparedRange(
        min(max(each.source, source), each.source_end),
        each.source_end,
        min(max(each.target, target), each.target_end),
        each.target_end,
    )


def _with_torn(asked: CompareJob, looked_at: CompareJob, look: FirstPassResult) -> FirstPassResult:
    """Ranges that could not be read differ, until they are looked at again."""
    torn = set(asked.chosen) - set(looked_at.chosen)
    return replace(look, ranges=tuple(sorted(torn.union(look.ranges)))) if torn else look
