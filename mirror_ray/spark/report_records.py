"""Statistics records as Spark reads them: which of them can be used, and figures that follow from neighbours."""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.window import Window

_TEXTS: Final = ("flow", "topic", "target_topic", "source_topic_id", "target_topic_id", "replicator")
#: None of these may be negative, or above ``_MOST``.
_COUNTS: Final = (
    *("partition", "target_partition", "from_ms", "to_ms", "source_from", "source_to", "target_from", "target_to"),
    *("records", "batches", "wire_bytes", "sampled_wire_bytes", "sampled_uncompressed_bytes", "restarts"),
)
#: May be null.
_NULLABLE: Final = ("lag_records", "lag_ms", "lag_records_max", "source_bytes")

_FIELDS: Final = ", ".join(
    (
        *(f"{name} string" for name in (*_TEXTS, "codec")),
        *(f"{name} bigint" for name in (*_COUNTS, "epoch", *_NULLABLE)),
        "shared boolean",
    )
)
_VALUE: Final = f"version bigint, {_FIELDS}, latency_ms map<string, bigint>"
#: A record's position in the statistics topic.
_POSITION: Final = ("told_topic_id", "told_partition", "told_offset")
#: The columns of ``intervals``, but for the day that they are partitioned by.
INTERVALS: Final = (
    f"{_FIELDS}, latency_ms map<bigint, bigint>, told_topic_id string, told_partition int, told_offset bigint"
)
#: Characters that are kept of a record that can't be used.
_TEXT_LENGTH: Final = 120
_YEAR_10000_MS: Final = 253_402_300_800_000
#: A bound has one spelling only, so that no two keys are the same number.
_BUCKET: Final = r"^(0|[1-9]\d{0,17})$"
#: No interval has more of anything; sums stay far from the end of bigint, where Spark fails.
_MOST: Final = 10**15

#: One copy of a partition: its offsets on the target only grow.
_COPY: Final = ("topic", "partition", "source_topic_id", "target_topic_id", "target_topic", "target_partition")
#: One log of the target: offsets in none of its intervals are untold, also where the source was created again.
_LOG: Final = ("target_topic", "target_topic_id", "target_partition")
#: Columns that are equal in two records that are one, published twice.
_SAME: Final = ("target_from", "target_to", "source_from", "source_to", "from_ms", "to_ms", "epoch", "replicator")


def parsed(table: DataFrame, flow: str, topic_id: str) -> DataFrame:
    """Kafka's records, with the columns of ``read_ranges``, as intervals: all of them. The topic has that id.

    Returns:
        The columns of ``INTERVALS``; ``date``, UTC, of ``from_ms``; ``problem``: why a record can't be used, null where
        it can, and then ``text``, how it begins.
    """
    text = F.col("value").cast("string")
    rows = table.select(
        F.from_json(text, _VALUE).alias("it"),
        text.alias("text"),
        F.lit(topic_id).alias("told_topic_id"),
        F.col("partition").alias("told_partition"),
        F.col("offset").alias("told_offset"),
    )
    problem = (
        F.when(~F.coalesce(F.get_json_object("text", "$").startswith("{"), F.lit(False)), "not_json")
        .when(F.coalesce("it.version", F.lit(0)) != 1, "other_version")
        .when(_is_malformed(), "malformed")
        .when(F.col("it.flow") != flow, "other_flow")
    )
    day = F.expr("date_add(date'1970-01-01', cast(it.from_ms div 86400000 as int))")
    latency = F.transform_keys("it.latency_ms", lambda key, _: key.cast("bigint"))
    return (
        rows.withColumn("problem", problem)
        .select(
            "it.*",
            F.when(F.col("problem").isNull(), latency).alias("latency"),
            F.when(F.col("problem").isNull(), day).alias("date"),
            *_POSITION,
            "problem",
            F.substring("text", 1, _TEXT_LENGTH).alias("text"),
        )
        .drop("version", "latency_ms")
        .withColumnRenamed("latency", "latency_ms")
    )


def completed(intervals: DataFrame) -> DataFrame:
    """Intervals with figures that follow from their neighbours.

    Further columns: ``told_twice``; ``untold_records``, target offsets between this interval and those before that are
    in none, 0 in a shared topic; ``uncompressed_bytes``, estimated by the interval's own samples, or by the
    newest before it where it has none; ``source_bytes``, those on the wire where they were not counted;
    ``mismatches``, 1 where offsets and records differ.
    """
    order = ("target_from", "target_to", "from_ms", *_POSITION)
    before = Window.partitionBy(*_LOG).orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
    by_offset = Window.partitionBy(*_COPY).orderBy(*order)
    until_here = by_offset.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    same = reduce(Column.__and__, (F.col(name).eqNullSafe(F.lag(name).over(by_offset)) for name in _SAME))
    gap = F.col("target_from") - F.max("target_to").over(before)
    own_ratio = F.when(
        F.col("sampled_wire_bytes") > 0, F.col("sampled_uncompressed_bytes") / F.col("sampled_wire_bytes")
    )
    ratio = F.coalesce(F.last(own_ratio, ignorenulls=True).over(until_here), F.lit(1.0))
    estimate = F.col("sampled_uncompressed_bytes") + (F.col("wire_bytes") - F.col("sampled_wire_bytes")) * ratio
    advance = F.col("target_to") - F.col("target_from")
    return intervals.withColumn("source_bytes", F.coalesce("source_bytes", "wire_bytes")).select(
        "*",
        same.alias("told_twice"),
        F.when(F.col("shared"), 0).otherwise(F.greatest(F.coalesce(gap, F.lit(0)), F.lit(0))).alias("untold_records"),
        F.least(F.round(estimate), F.lit(float(_MOST))).cast("bigint").alias("uncompressed_bytes"),
        F.when(~F.col("shared") & (advance != F.col("records")), 1).otherwise(0).alias("mismatches"),
    )


def _is_malformed() -> Column:
    """A field is missing, not of its type, or can't be."""
    absent = (F.col(f"it.{name}").isNull() for name in (*_TEXTS, *_COUNTS, "epoch", "shared", "latency_ms"))
    outside = (F.coalesce(~F.col(f"it.{name}").between(0, _MOST), F.lit(False)) for name in (*_COUNTS, *_NULLABLE))
    malformed_bucket = F.exists(
        F.map_entries("it.latency_ms"),
        lambda bucket: ~bucket["key"].rlike(_BUCKET) | F.coalesce(~bucket["value"].between(0, _MOST), F.lit(True)),
    )
    # JSON may name a key twice, and then Spark's map has it twice.
    bounds = F.map_keys("it.latency_ms")
    twice = F.size(F.array_distinct(bounds)) < F.size(bounds)
    impossible = (
        (F.col("it.to_ms") < F.col("it.from_ms"))
        | (F.col("it.to_ms") >= _YEAR_10000_MS)
        | (F.col("it.target_to") < F.col("it.target_from"))
        | (F.col("it.sampled_wire_bytes") > F.col("it.wire_bytes"))
    )
    return reduce(lambda one, other: one | other, [*absent, *outside, malformed_bucket, twice, impossible])
