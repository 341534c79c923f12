"""Offsets translated by Spark: segments topics and queries, sorted together and read once.

The join of an offset with the segment that holds it is a range join. Blocks of segments and queries are grouped by
source partition, blocks first and in the order of the topic; one pass builds the map of one partition after the other
from the whole topic, and looks each offset up in it by bisection. It costs a sort of both sides, and the segments of
one partition in memory at a time, of 32 bytes each.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION, protocol_error
from mirror_ray.model.errors import CorruptRecordError
from mirror_ray.model.internal_topics import segments_topic
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.offsets.log_bounds import log_bounds
from mirror_ray.offsets.map import AppliedTransforms, CountedPair, MapTail, OffsetMapStore, SegmentGap
from mirror_ray.offsets.translation import NO_MAP, MapAnswer, OffsetQuery, Translation, answer_from
from mirror_ray.records.segment_block import decode_block
from mirror_ray.spark.kafka import read_ranges

#: Columns that name a map and one source partition of it.
_PARTITION: Final = ("back", "topic", "partition")
#: A query; ``position`` is its offset.
QUERIES: Final = "back boolean, topic string, partition int, position bigint"
_ANSWERS: Final = (
    f"{QUERIES}, source_topic_id string, target_topic_id string, offset bigint, exact boolean, waits boolean, "
    "reason string, gap array<bigint>, tail array<bigint>, "
    "transforms string, since bigint"
)
#: Kinds of rows, in their order.
_BLOCK, _QUERY = 0, 1
_TASKS_PER_CORE: Final = 2


class SparkMaps:
    """Answers queries of a flow's maps (an ``AnswerQueries``) by Spark's executors."""

    def __init__(
        self, spark: SparkSession, flow: FlowSettings, source: ClusterConnections, target: ClusterConnections
    ) -> None:
        name = flow.name
        self._spark = spark
        self._topics = {
            False: (target, segments_topic(name.source, name.route)),
            True: (source, segments_topic(name.target)),
        }

    async def __call__(self, queries: Collection[OffsetQuery]) -> Mapping[OffsetQuery, MapAnswer]:
        """Answer all queries.

        Raises:
            OSError, MirrorError: A cluster does not say whether there is a segments topic, or where it ends.
        """
        blocks: DataFrame | None = None
        for back in {query.back for query in queries}:
            read = await self._blocks(back)
            if read is not None:
                blocks = read if blocks is None else blocks.union(read)
        if blocks is None:
            return dict.fromkeys(queries, NO_MAP)
        rows = [(query.back, *query.key, query.offset) for query in queries]
        table = self._spark.createDataFrame(rows, QUERIES)
        found = await asyncio.to_thread(answer_queries(blocks, table).collect)
        return dict(map(_read_answer, found))

    async def _blocks(self, back: bool) -> DataFrame | None:
        cluster, topic = self._topics[back]
        partition = TopicPartition(topic, 0)
        found = (await cluster.refresh([topic])).topics[topic]
        if found.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            return None
        if found.error_code:
            raise protocol_error(found.error_code, f"find topic {topic} on cluster {cluster.settings.alias}")
        bounds = await log_bounds(cluster, [partition])
        if partition not in bounds:
            raise protocol_error(LEADER_NOT_AVAILABLE, f"find the end of {partition}")
        splits = _TASKS_PER_CORE * self._spark.sparkContext.defaultParallelism
        log = bounds[partition]
        records = read_ranges(self._spark, cluster.settings, {partition: (log.start, log.end)}, splits=splits)
        return blocks_of(records, back=back)


def blocks_of(records: DataFrame, *, back: bool) -> DataFrame:
    """The blocks among the records of a segments topic (``key``, ``value``, ``offset``), with their source partitions.

    These are read from the keys without Python, so that blocks of other partitions are dropped early.
    """
    return (
        records.where("value is not null")
        .withColumn("topic_end", F.expr(f"5 + {_length_at('3')}"))
        .withColumn("source_id_end", F.expr(f"topic_end + 2 + {_length_at('topic_end')}"))
        .withColumn("target_id_end", F.expr(f"source_id_end + 2 + {_length_at('source_id_end')}"))
        .select(
            F.lit(back).alias("back"),
            F.expr("cast(substring(key, 5, topic_end - 5) as string)").alias("topic"),
            F.expr(f"cast({_number_at('target_id_end', 4)} as int)").alias("partition"),
            F.lit(_BLOCK).alias("kind"),
            F.col("offset").alias("position"),
            "key",
            "value",
        )
    )


def answer_queries(blocks: DataFrame, queries: DataFrame) -> DataFrame:
    """One row for each query (columns ``QUERIES``), with its answer by the blocks (columns ``_ANSWERS``)."""
    nothing = F.lit(None).cast("binary")
    asked = queries.select(
        *_PARTITION, F.lit(_QUERY).alias("kind"), "position", nothing.alias("key"), nothing.alias("value")
    )
    wanted = F.broadcast(queries.select(*_PARTITION).distinct())
    together = blocks.join(wanted, list(_PARTITION), "left_semi").select(asked.columns).unionByName(asked)
    ordered = together.repartition(*_PARTITION).sortWithinPartitions(*_PARTITION, "kind", "position")
    return ordered.rdd.mapPartitions(_answer_in_order).toDF(_ANSWERS)


def _answer_in_order(rows: Iterable[Row]) -> Iterator[tuple[Any, ...]]:
    """Answer the queries among rows that are in the order of ``answer_queries``."""
    current, store, key = None, OffsetMapStore(), TopicPartition("", 0)
    for row in rows:
        back, topic, partition, kind, position, *record = row
        if (back, topic, partition) != current:
            # The map keeps every segment of the topic, so that few offsets need a scan of the source.
            current, store = (back, topic, partition), OffsetMapStore(sys.maxsize, sys.maxsize)
            key = TopicPartition(topic, partition)
        if kind == _BLOCK:
            try:
                store.apply(decode_block(*map(bytes, record)))
            except CorruptRecordError:
                # The checkpoint actor ignores it too, and reports it.
                continue
        else:
            query = OffsetQuery(back, key, position)
            yield _written(query, answer_from(store, query))


def _written(query: OffsetQuery, answer: MapAnswer) -> tuple[Any, ...]:
    topics, found, tail, made, _ = answer
    row = (query.back, *query.key, query.offset, *(topics or (None, None)))
    end = [*tail] if tail is not None else None
    if isinstance(found, SegmentGap):
        return (*row, None, False, False, None, [*found.after, *found.before], end, *made)
    return (*row, found.offset, found.exact, found.waits, found.reason, None, end, *made)


def _read_answer(row: Row) -> tuple[OffsetQuery, MapAnswer]:
    back, topic, partition, position, source_id, target_id, offset, exact, waits, reason, gap, end, *made = row
    tail = MapTail(*end) if end is not None else None
    topics = (TopicId(source_id), TopicId(target_id)) if source_id is not None else None
    found: Translation | SegmentGap
    if gap is not None:
        found = SegmentGap(CountedPair(*gap[:3]), CountedPair(*gap[3:]))
    else:
        found = Translation(offset=offset, exact=exact, waits=waits, reason=reason)
    return OffsetQuery(back, TopicPartition(topic, partition), position), MapAnswer(
        topics, found, tail, AppliedTransforms(*made)
    )


def _number_at(place: str, length: int) -> str:
    """SQL: the big-endian number of so many bytes of the key, the first of which is number ``place``."""
    return f"cast(conv(hex(substring(key, {place}, {length})), 16, 10) as bigint)"


def _length_at(place: str) -> str:
    return f"cast({_number_at(place, 2)} as int)"
