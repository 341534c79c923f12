"""Spark's Structured Streaming keeps its positions in a checkpoint directory: a query moves to the target with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.clusters import Clusters, KafkaCluster, TopicMaker
from tests.support.local import LocalSystem, aside
from tests.support.moving import COMMITTED, PARTITIONS, OffsetMode, begin, copied, fill, settings, written
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

pytestmark = pytest.mark.timeout(300)

#: Offsets of one micro-batch, gaps included.
_OF_BATCH = 100


class Query:
    """Writes a topic's numbers to files, each once; where it is, is in its checkpoint directory alone."""

    def __init__(self, spark: SparkSession, topic: str, folder: Path) -> None:
        self._spark, self._topic, self._folder = spark, topic, folder

    def begin(self, cluster: KafkaCluster) -> None:
        """Run it for some micro-batches, and leave behind what is there when it dies in the middle of the last one."""
        query = self._writer(cluster).trigger(processingTime="0 seconds").start()
        try:
            wait_until(lambda: len(list(self._folder.glob("checkpoint/commits/[0-9]*"))) >= 2, 60, "some micro-batches")
        finally:
            query.stop()
        assert query.exception() is None
        # It was planned; neither the sink nor the query had it.
        planned = max(int(path.name) for path in self._folder.glob("checkpoint/offsets/[0-9]*"))
        for folder in ("checkpoint/commits", "out/_spark_metadata"):
            for name in (f"{planned}", f".{planned}.crc"):
                (self._folder / folder / name).unlink(missing_ok=True)

    def finish(self, cluster: KafkaCluster) -> None:
        """Run it on to the end of the topic.

        Raises:
            StreamingQueryException: Its positions are not in the cluster's log.
        """
        self._writer(cluster).trigger(availableNow=True).start().awaitTermination(120)

    def processed(self) -> dict[int, list[int]]:
        """The numbers that it has written, by partition, in order."""
        rows = self._spark.read.json(str(self._folder / "out"), "partition INT, number INT").collect()
        return {
            partition: sorted(row.number for row in rows if row.partition == partition)
            for partition in range(PARTITIONS)
        }

    def _writer(self, cluster: KafkaCluster) -> DataStreamWriter:
        read = (
            self._spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", cluster.bootstrap)
            .option("kafka.isolation.level", "read_committed")
            .option("subscribe", self._topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", _OF_BATCH)
            .load()
        )
        return (
            read.selectExpr("partition", "CAST(CAST(value AS STRING) AS INT) AS number")
            .writeStream.format("json")
            .option("path", str(self._folder / "out"))
            .option("checkpointLocation", str(self._folder / "checkpoint"))
        )


@pytest.mark.parametrize(("mode", "right"), [("preserve", True), ("translate", False)])
async def test_a_streaming_query_goes_on_from_its_checkpoint(
    clusters: Clusters, make_topic: TopicMaker, spark: SparkSession, tmp_path: Path, mode: OffsetMode, right: bool
) -> None:
    """Begun on A, ended on B with the same checkpoint directory: every record is written once.

    The micro-batch in whose middle it died is read again on B, from and to the same offsets. At offsets of their own
    some records are lost.
    """
    topic = make_topic(clusters.a, PARTITIONS)
    source = clusters.a.confluent_config()
    await aside(lambda: begin(source, topic))
    query = Query(spark, topic, tmp_path)
    async with LocalSystem(settings(clusters, topic, mode)) as system:
        await aside(lambda: query.begin(clusters.a))
        begun = await aside(query.processed)
        await aside(lambda: fill(source, topic, 1_000))
        await copied(clusters, system, topic)
        await aside(lambda: query.finish(clusters.b))
    expected = await aside(lambda: written(source, topic))
    assert 0 < sum(map(len, begun.values())) <= COMMITTED < sum(map(len, expected.values()))
    assert ((await aside(query.processed)) == expected) is right
