"""The first pass of a verification, by Spark: its executors read, hash and join both sides.

Only what differs comes to this process: numbers of ranges, and of compacted topics the keys. The second pass is that of
a verification without Spark.
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
#: Spans of a partition that are read separately; of more, the nearest are merged and read with what is between them.
_MOST_SPANS = 16
#: A partition with fewer offsets is compared in this process: a Spark task with its consumer would cost more.
SMALL_OFFSETS = 10_000
#: How often records may be deleted while they are read, before this process compares.
_ATTEMPTS = 3
#: Texts of the errors of Spark's connector then.
_DATA_LOSS = ("failOnDataLoss", "data may have been lost", "OffsetOutOfRange")

_TABLE = (
    "topic string, partition int, bucket bigint, first bigint, end bigint, job int, range int, stamped boolean,"
    " keys_below bigint"
)


class _RemovedError(Exception):
    """Records were deleted while they were read."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One cluster, and the partitions and offsets of jobs and ranges there."""

    cluster: ClusterSettings
    read_committed: bool
    partition: Callable[[CompareJob], TopicPartition]
    span: Callable[[ComparedRange], tuple[int, int]]


class SparkFirstPass:
    """Compares large partitions by Spark's executors, and all others in this process."""

    def __init__(
        self,
        spark: SparkSession,
        clusters: tuple[ClusterSettings, ClusterSettings],
        logs: Callable[[CompareJob], tuple[PartitionLog, PartitionLog]],
        in_process: FirstPass,
        small_offsets: int = SMALL_OFFSETS,
    ) -> None:
        """``clusters`` are the source and the target; ``logs`` gives a job's partition on both sides.

        ``in_process`` compares partitions with fewer offsets than ``small_offsets``, and those whose records are
        deleted faster than they are read.
        """
        self._spark, self._clusters, self._logs = spark, clusters, logs
        self._in_process, self._small_offsets = in_process, small_offsets

    async def run(self, jobs: Sequence[CompareJob]) -> Sequence[FirstPassResult]:
        """Compare all jobs; one result for each, in order.

        Raises:
            ClusterUnreachableError: A cluster does not answer.
            MirrorError: Spark failed; names its error.
        """
        small = [job for job in jobs if not self._is_for_spark(job)]
        large = [job for job in jobs if self._is_for_spark(job)]
        results = iter(await self._in_process.run(small)), iter(await self._run_large(large))
        return [next(results[self._is_for_spark(job)]) for job in jobs]

    def _is_for_spark(self, job: CompareJob) -> bool:
        """Whether it is worth a task; Spark's executors have no transforms."""
        return _offsets(job) >= self._small_offsets and not job.transformed

    async def _run_large(self, jobs: Sequence[CompareJob]) -> Sequence[FirstPassResult]:
        if not jobs:
            return []
        remaining = list(jobs)
        for _ in range(_ATTEMPTS):
            try:
                results = await asyncio.to_thread(self._compare, remaining)
            except _RemovedError:
                remaining = [await self._without_deleted(job) for job in jobs]
                continue
            return list(map(_with_unread, jobs, remaining, results))
        return await self._in_process.run(jobs)

    async def _without_deleted(self, job: CompareJob) -> CompareJob:
        """The job without ranges whose beginnings were deleted; of a compacted partition without those beginnings."""
        source, target = self._logs(job)
        starts = await asyncio.gather(source.start(), target.start())
        if job.compacted:
            return replace(job, ranges=tuple(_clipped(compared, *starts) for compared in job.ranges))
        left = [n for n in job.chosen if job.ranges[n].source >= starts[0] and job.ranges[n].target >= starts[1]]
        return replace(job, chosen=tuple(left))

    def _compare(self, jobs: Sequence[CompareJob]) -> list[FirstPassResult]:
        try:
            by_range = self._compare_ranges({n: job for n, job in enumerate(jobs) if not job.compacted})
            by_key = self._compare_keys({n: job for n, job in enumerate(jobs) if job.compacted})
        except (PySparkException, Py4JJavaError) as error:
            text = str(error)
            if any(sign in text for sign in _DATA_LOSS):
                raise _RemovedError from error
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            why = next((line for line in lines if line.startswith("Caused by")), lines[0] if lines else repr(error))
            raise MirrorError(
                f"Spark could not read and compare: {why}; its logs are in Ray's session directory, and without --spark"
                " this process compares"
            ) from error
        return [(by_range | by_key)[number] for number in range(len(jobs))]

    def _compare_ranges(self, jobs: Mapping[int, CompareJob]) -> dict[int, FirstPassResult]:
        if not jobs:
            return {}
        source, target = (_range_hashes(self._records_in_ranges(side, jobs)) for side in self._sides(jobs))
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
                records=row["records"] or 0, target_records=row["records"] or 0, ranges=tuple(sorted(row["ranges"]))
            )
            for row in rows
        }
        return {number: found.get(number, FirstPassResult()) for number in jobs}

    def _compare_keys(self, jobs: Mapping[int, CompareJob]) -> dict[int, FirstPassResult]:
        if not jobs:
            return {}
        source, target = (_last_records(self._records_in_ranges(side, jobs)) for side in self._sides(jobs))
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
            # All of them, one task's at a time: the second pass leaves most undecided, and Spark does not know which.
            for row in compared.where("not same").select("job", "key").toLocalIterator():
                keys.setdefault(row["job"], set()).add(bytes(row["key"]))
        finally:
            compared.unpersist()
        return {number: _key_result(found.get(number), keys.get(number, set())) for number in jobs}

    def _sides(self, jobs: Mapping[int, CompareJob]) -> tuple[_Side, _Side]:
        source, target = self._clusters
        committed = self._logs(next(iter(jobs.values())))[0].read_committed
        return (
            _Side(source, committed, lambda job: job.source, lambda compared: (compared.source, compared.source_end)),
            _Side(target, True, lambda job: job.target, lambda compared: (compared.target, compared.target_end)),
        )

    def _records_in_ranges(self, side: _Side, jobs: Mapping[int, CompareJob]) -> DataFrame:
        """The records of one side in the chosen ranges, each with its job and range, and its hashes."""
        spans: dict[TopicPartition, list[tuple[int, int]]] = {}
        for job in jobs.values():
            spans.setdefault(side.partition(job), []).extend(map(side.span, job.chosen_ranges))
        offsets = sum(end - first for several in spans.values() for first, end in several)
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
        """The records of spans. A Spark table reads one span of a partition; several tables are put together."""
        wanted = {at: gather_spans(merge_spans(several), _MOST_SPANS) for at, several in spans.items()}
        tables: list[DataFrame] = []
        for number in range(max(1, *map(len, wanted.values()))):
            part = {at: several[number] for at, several in wanted.items() if number < len(several)}
            offsets = sum(end - first for first, end in part.values())
            splits = min(_MOST_TASKS, max(1, len(part), offsets // _TASK_OFFSETS))
            tables.append(
                read_ranges(self._spark, side.cluster, part, read_committed=side.read_committed, splits=splits)
            )
        return reduce(DataFrame.unionByName, tables)


def _offsets(job: CompareJob) -> int:
    return sum(compared.source_end - compared.source for compared in job.chosen_ranges)


def _rows(side: _Side, jobs: Mapping[int, CompareJob], bucket: int) -> Iterable[tuple[Any, ...]]:
    """Each range once for every bucket that it overlaps, so that records are joined with their range by hash."""
    for number, job in jobs.items():
        topic, partition = side.partition(job)
        below = round(job.key_fraction * (1 << 32))
        for index in job.chosen:
            first, end = side.span(job.ranges[index])
            if first < end:
                for at in range(first // bucket, (end - 1) // bucket + 1):
                    yield topic, partition, at, first, end, number, index, job.timestamps, below


def _hash(salt: int) -> Column:
    """A hash of everything that a consumer sees of a record; null and empty differ."""
    headers = F.transform("headers", lambda header: F.struct(header["key"], header["value"].isNull(), header["value"]))
    stamp = F.when(F.col("stamped"), F.unix_millis("timestamp")).otherwise(F.lit(0))
    key, value = F.col("key"), F.col("value")
    return F.xxhash64(
        F.lit(salt), key.isNull(), key, value.isNull(), value, F.size("headers"), headers, stamp, F.lit(salt)
    )


def _range_hashes(records: DataFrame) -> DataFrame:
    """The number of records of each range, and hashes over each record and its number in the range."""
    number = F.row_number().over(Window.partitionBy("job", "range").orderBy("offset"))
    return (
        records.select("job", "range", "offset", "one", "two")
        .withColumn("number", number)
        .groupBy("job", "range")
        .agg(
            F.count(F.lit(1)).alias("records"),
            F.bit_xor(F.xxhash64("number", "one")).alias("one"),
            F.bit_xor(F.xxhash64("two", "number")).alias("two"),
        )
    )


def _last_records(records: DataFrame) -> DataFrame:
    """The last record of each key, and how many the key has."""
    return (
        records.where("key is not null and crc < keys_below")
        .groupBy("job", "key")
        .agg(F.max(F.struct("offset", "dead", "one", "two")).alias("last"), F.count(F.lit(1)).alias("records"))
    )


def _key_result(row: Any, keys: set[bytes]) -> FirstPassResult:
    if row is None:
        return FirstPassResult()
    return FirstPassResult(
        records=row["mine"] or 0, target_records=row["theirs"] or 0, keys=row["keys"], differing_keys=frozenset(keys)
    )


def _clipped(compared: ComparedRange, source_start: int, target_start: int) -> ComparedRange:
    return ComparedRange(
        min(max(compared.source, source_start), compared.source_end),
        compared.source_end,
        min(max(compared.target, target_start), compared.target_end),
        compared.target_end,
    )


def _with_unread(job: CompareJob, compared: CompareJob, result: FirstPassResult) -> FirstPassResult:
    """Ranges that could not be read count as different, so that the second pass reads them."""
    unread = set(job.chosen) - set(compared.chosen)
    return replace(result, ranges=tuple(sorted(unread.union(result.ranges)))) if unread else result
