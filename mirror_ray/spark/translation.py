"""Offsets translated by Spark: the segments topics beside the positions that are asked for, sorted, and read once.

The join of a position with the segment that it lies in is a range join. Blocks of segments and positions are brought
together by source partition, blocks first and in the order of the topic; one pass builds the map of one partition after
the other from all that the topic holds, and looks each position up in it by bisection. What it takes is a sort of both
sides, and the segments of one partition in memory at a time, of 32 bytes each.
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
from mirror_ray.offsets.map import AppliedTransforms, CountedPair, MapTail, OffsetMapStore, SegmentGap
from mirror_ray.offsets.translation import NO_MAP, MapAnswer, OffsetQuery, Translation, answer_from
from mirror_ray.offsets.translator import log_bounds
from mirror_ray.records.segment_block import decode_block
from mirror_ray.spark.kafka import read_ranges

#: Which map, and which source partition of it.
_PLACE: Final = ("back", "topic", "partition")
#: A position that is asked for; ``position`` is the offset.
ASKED: Final = "back boolean, topic string, partition int, position bigint"
_ANSWERED: Final = (
    f"{ASKED}, source_topic_id string, target_topic_id string, offset bigint, exact boolean, waits boolean, "
    "reason string, gap array<bigint>, tail array<bigint>, "
    "transforms string, since bigint"
)
#: In which a block comes before the positions.
_BLOCK, _POSITION = 0, 1
_TASKS_PER_CORE: Final = 2


class SparkMaps:
    """See ``AnswerQueries``: the executors read and answer."""

    def __init__(
        self, spark: SparkSession, flow: FlowSettings, source: ClusterConnections, target: ClusterConnections
    ) -> None:
        name = flow.name
        self._spark = spark
        self._topics = {
            False: (target, segments_topic(name.source, name.route)),
            True: (source, segments_topic(name.target)),
        }

    async def __call__(self, questions: Collection[OffsetQuery]) -> Mapping[OffsetQuery, MapAnswer]:
        """Answer.

        Raises:
            OSError, MirrorError: Whether there is a topic, or where it ends, can't be found out.
        """
        blocks: DataFrame | None = None
        for back in {question.back for question in questions}:
            read = await self._blocks(back)
            if read is not None:
                blocks = read if blocks is None else blocks.union(read)
        if blocks is None:
            return dict.fromkeys(questions, NO_MAP)
        rows = [(question.back, *question.key, question.offset) for question in questions]
        asked = self._spark.createDataFrame(rows, ASKED)
        found = await asyncio.to_thread(answered(blocks, asked).collect)
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
        records = read_ranges(
            self._spark, cluster.settings, {partition: (log.start, log.end)}, headers=False, splits=splits
        )
        return blocks_of(records, back=back)


def blocks_of(records: DataFrame, *, back: bool) -> DataFrame:
    """The blocks among the records of a segments topic (``key``, ``value``, ``offset``), with what they are of.

    What is told apart by the key alone is read without Python, so that blocks that nobody asks for go no further.
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


def answered(blocks: DataFrame, asked: DataFrame) -> DataFrame:
    """One row for each position that is asked for (``ASKED``), with what the blocks say of it (``_ANSWERED``)."""
    nothing = F.lit(None).cast("binary")
    positions = asked.select(
        *_PLACE, F.lit(_POSITION).alias("kind"), "position", nothing.alias("key"), nothing.alias("value")
    )
    wanted = F.broadcast(asked.select(*_PLACE).distinct())
    together = blocks.join(wanted, list(_PLACE), "left_semi").select(positions.columns).unionByName(positions)
    ordered = together.repartition(*_PLACE).sortWithinPartitions(*_PLACE, "kind", "position")
    return ordered.rdd.mapPartitions(_answer_in_order).toDF(_ANSWERED)


def _answer_in_order(rows: Iterable[Row]) -> Iterator[tuple[Any, ...]]:
    """Answer the positions among rows that are in the order of ``answered``."""
    place, book, key = None, OffsetMapStore(), TopicPartition("", 0)
    for row in rows:
        back, topic, partition, kind, position, *record = row
        if (back, topic, partition) != place:
            # All that the topic holds counts, so that little is left to be read on the source.
            place, book = (back, topic, partition), OffsetMapStore(sys.maxsize, sys.maxsize)
            key = TopicPartition(topic, partition)
        if kind == _BLOCK:
            try:
                book.apply(decode_block(*map(bytes, record)))
            except CorruptRecordError:
                # As the checkpoint actor does, which tells of it.
                continue
        else:
            question = OffsetQuery(back, key, position)
            yield _written(question, answer_from(book, question))


def _written(question: OffsetQuery, answer: MapAnswer) -> tuple[Any, ...]:
    topics, found, tail, made, _ = answer
    row = (question.back, *question.key, question.offset, *(topics or (None, None)))
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
