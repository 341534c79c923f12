"""The throughput report's Spark jobs: from the statistics topic to Parquet, and from Parquet to figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.report.directory import ReportDirectory
from mirror_ray.report.figures import STEPS_MS, step_of
from mirror_ray.report.progress import EXAMPLES, BadRecord, LogRead, ReadBatch, advanced, recomputed, to_read
from mirror_ray.spark.kafka import read_ranges
from mirror_ray.spark.report_figures import aggregated, with_percentiles
from mirror_ray.spark.report_records import INTERVALS, completed, parsed

_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The figures of the intervals that begin in a range of time. Rows have the columns of ``aggregated``."""

    #: One for each partition, with ``topic``, ``partition``, ``target_topic``, ``target_partition``, ``shared``, lists
    #: ``codecs``, ``replicators``, ``source_topic_ids``, ``target_topic_ids``, and the ends ``first_target_offset`` and
    #: ``last_target_offset``; ``interval_step_ms`` as in ``step_of``.
    partitions: list[dict[str, Any]]
    #: One for each step of time with statistics, with ``step``: its beginning, in ms.
    steps: list[dict[str, Any]]
    step_ms: int


def read_new(
    spark: SparkSession,
    cluster: ClusterSettings,
    topic_id: str,
    bounds: Mapping[int, tuple[int, int]],
    directory: ReportDirectory,
) -> None:
    """Read the topic's records since the last run into ``intervals``, and bring ``hours`` up to date.

    If it is killed at any moment, the next run repairs it: nothing is left out or counted twice.

    ``topic_id`` is that of the statistics topic on the flow's target as it is now; ``bounds`` are the log start offset
    and the log end offset of each of its partitions.

    Raises:
        MirrorError: Files that executors wrote are not visible here.
    """
    progress = directory.progress
    if logs := to_read(progress, topic_id, bounds):
        ranges = {TopicPartition(progress.topic, log.partition): (log.first, log.next) for log in logs}
        found = parsed(read_ranges(spark, cluster, ranges), progress.flow, topic_id)
        directory.save(advanced(progress, _write_intervals(spark, directory, found, logs)))
    stale_from = directory.progress.stale_from
    if stale_from is not None:
        rows = _completed(spark, directory).where(F.col("date") >= F.lit(stale_from).cast("date"))
        hours = rows.withColumn("hour_ms", F.expr(f"from_ms div {_HOUR_MS} * {_HOUR_MS}"))
        figures = with_percentiles(aggregated(hours, "date", "flow", "topic", "partition", "hour_ms"))
        directory.adopt_hours(_write(figures, directory.staging / "hours"))
        directory.save(recomputed(directory.progress))


def select(spark: SparkSession, directory: ReportDirectory, since_ms: int | None, until_ms: int | None) -> Selection:
    """The figures of the directory's intervals that begin in ``[since_ms, until_ms)``; there may be none."""
    nothing = Selection(partitions=[], steps=[], step_ms=STEPS_MS[0])
    if not directory.progress.files:
        return nothing
    rows = _completed(spark, directory)
    if since_ms is not None:
        rows = rows.where(F.col("from_ms") >= since_ms)
    if until_ms is not None:
        rows = rows.where(F.col("from_ms") < until_ms)
    rows = rows.persist()
    try:
        partitions = [row.asDict() for row in _by_partition(rows).collect()]
        if not partitions:
            return nothing
        length_ms = max(row["to_ms"] for row in partitions) - min(row["from_ms"] for row in partitions)
        step_ms = step_of(length_ms, max(row["interval_step_ms"] for row in partitions))
        stepped = rows.withColumn("step", F.expr(f"from_ms div {step_ms} * {step_ms}"))
        steps = [row.asDict() for row in aggregated(stepped, "step").orderBy("step").collect()]
    finally:
        rows.unpersist()
    return Selection(partitions=partitions, steps=steps, step_ms=step_ms)


def _write_intervals(
    spark: SparkSession, directory: ReportDirectory, found: DataFrame, logs: tuple[LogRead, ...]
) -> ReadBatch:
    """Write intervals to files of the directory; records that can't be used are counted."""
    observation = Observation()
    observed = found.observe(observation, F.count(F.lit(1)).alias("rows"))
    staged = _write(observed, directory.staging / "intervals")
    written = spark.read.schema(f"{INTERVALS}, problem string, text string, date date").parquet(str(staged))
    # A task that Spark has repeated counts twice: then the topic is read once more, to be sure.
    if (rows := written.count()) != observation.get["rows"] and rows != found.count():
        raise MirrorError(
            f"files that Spark's executors wrote to {directory.path} are not visible here: where Ray has several nodes,"
            " --to names a directory that all of them share"
        )
    unusable = written.where("problem is not null")
    bad = {row["problem"]: row["count"] for row in unusable.groupBy("problem").count().collect()}
    examples = [
        BadRecord(
            topic_id=row["told_topic_id"],
            partition=row["told_partition"],
            offset=row["told_offset"],
            kind=row["problem"],
            text=row["text"] or "",
        )
        for row in unusable.orderBy("told_partition", "told_offset").limit(EXAMPLES).collect()
    ]
    files, days = directory.adopt_intervals(staged, logs)
    return ReadBatch(logs=logs, files=tuple(files), days=tuple(days), bad=bad, bad_examples=tuple(examples))


def _write(rows: DataFrame, path: Path) -> Path:
    """One file for each day."""
    rows.repartition("date").write.partitionBy("date").mode("overwrite").parquet(str(path))
    return path


def _completed(spark: SparkSession, directory: ReportDirectory) -> DataFrame:
    reader = spark.read.schema(f"{INTERVALS}, date date").option("basePath", str(directory.path / "intervals"))
    return completed(reader.parquet(*directory.files()))


def _by_partition(rows: DataFrame) -> DataFrame:
    lists = {
        f"{name}s": F.sort_array(F.collect_set(name))
        for name in ("codec", "replicator", "source_topic_id", "target_topic_id")
    }
    found = aggregated(
        rows,
        *("topic", "partition", "target_topic", "target_partition"),
        shared=F.bool_or("shared"),
        first_target_offset=F.min("target_from"),
        last_target_offset=F.max("target_to"),
        interval_step_ms=F.max(_interval_step()),
        **lists,
    )
    return found.orderBy("topic", "partition", "target_topic")


def _interval_step() -> Column:
    """The shortest step that contains an interval."""
    last_ms = "greatest(from_ms, to_ms - 1)"
    steps = (F.when(F.expr(f"from_ms div {step_ms} = {last_ms} div {step_ms}"), step_ms) for step_ms in STEPS_MS)
    return F.coalesce(*steps, F.lit(STEPS_MS[-1]))
