"""What intervals say beside their own figures, and which records can't be used; without a broker."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from mirror_ray.records.statistics import PartitionStatistics
from mirror_ray.spark.report_figures import aggregated
from mirror_ray.spark.report_records import completed, parsed
from tests.support.statistics import partition_statistics

pytestmark = pytest.mark.timeout(600)


def interval(offset: int, number: int = 10, **changes: object) -> PartitionStatistics:
    """Records at the target's offsets from this one on."""
    return partition_statistics(
        target_from=offset, target_to=offset + number, records=number, **({"target_topic_id": "t"} | changes)
    )


def of_values(spark: SparkSession, values: list[bytes]) -> DataFrame:
    """The statistics topic with these values, as Spark has parsed it; by itself, as files part it from what follows."""
    rows = [(bytearray(value), 0, offset) for offset, value in enumerate(values)]
    found = parsed(spark.createDataFrame(rows, "value binary, partition int, offset bigint"), "A->B", "id")
    return spark.createDataFrame(found.collect(), found.schema)


def untold(spark: SparkSession, *rows: PartitionStatistics) -> dict[int, int]:
    """Untold records, by the target offset of the interval after them."""
    found = completed(of_values(spark, [row.encode()[1] for row in rows])).collect()
    return {row["target_from"]: row["untold_records"] for row in found if row["untold_records"]}


def test_holes_are_those_of_the_targets_log(spark: SparkSession) -> None:
    """Also across a source topic that was created anew; another target topic or partition is another log."""
    gaps = untold(
        spark,
        interval(0, source_topic_id="old"),
        interval(10, source_topic_id="old"),
        interval(27, source_topic_id="new"),
        interval(40, source_topic_id="new"),
        interval(500, source_topic_id="new", target_topic_id="u"),
        interval(600, partition=1, target_partition=1),
        interval(900, shared=True, topic="shared", target_topic="A.shared"),
        interval(950, shared=True, topic="shared", target_topic="A.shared"),
    )
    assert gaps == {27: 7, 40: 3}


def test_what_stands_there_twice_is_no_hole(spark: SparkSession) -> None:
    """As when a log that was cut is read again; it is counted once, whatever is written behind it."""
    rows = [interval(0), interval(10, from_ms=120_000, to_ms=180_000), interval(20, from_ms=180_000, to_ms=240_000)]
    found = completed(of_values(spark, [row.encode()[1] for row in (*rows, *rows[:2])]))
    (sums,) = aggregated(found, "topic").collect()
    assert (sums["told"], sums["told_twice"], sums["records"], sums["untold_records"]) == (3, 2, 30, 0)


def test_impossible_figures_spoil_no_sum(spark: SparkSession) -> None:
    """Each would end Spark's job, and every later run's; so such a record is one that can't be used."""
    value = interval(0).encode()[1]
    bad = [
        value.replace(b'"latency_ms":{"10"', b'"latency_ms":{"010":1,"10"'),
        value.replace(b'"latency_ms":{"10"', b'"latency_ms":{"10":1,"10"'),
        value.replace(b'"latency_ms":{"10":10', b'"latency_ms":{"10":9223372036854775807'),
        value.replace(b'"records":10', b'"records":9223372036854775807'),
        value.replace(b'"target_to":10', b'"target_to":9223372036854775807'),
        value.replace(b'"lag_ms":0', b'"lag_ms":9223372036854775807'),
    ]
    assert value not in bad
    extreme = interval(10, wire_bytes=10**15, sampled_wire_bytes=1, sampled_uncompressed_bytes=10**15).encode()[1]
    rows = of_values(spark, [value, *bad, extreme])
    problems = [row["problem"] for row in rows.orderBy("told_offset").collect()]
    assert problems == [None, *["malformed"] * len(bad), None]
    (sums,) = aggregated(completed(rows.where("problem is null")), "topic").collect()
    assert (sums["told"], sums["latency_ms"]) == (2, {10: 20})
    assert sums["uncompressed_bytes"] == 10**15 + 1000
