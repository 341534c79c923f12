"""What a replicator tells of offsets: read from its topics, and compared record by record with what was copied."""

from __future__ import annotations

from collections.abc import Mapping

from mirror_ray.model.internal_topics import segments_topic
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.map import ExactOffset, OffsetMapStore
from mirror_ray.records.mm2_records import OffsetSyncRecord
from mirror_ray.records.segment_block import decode_block
from tests.support.clusters import Clusters, TopicMaker
from tests.support.kafka import Message, produce, produce_transactions
from tests.support.reading import read_all, read_placed
from tests.support.replicated import Replicated


async def test_every_record_is_where_its_segment_says(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Of a plain and of a transactional topic; what MM2 is told is right, too, and has the newest record."""
    config = clusters.a.confluent_config()
    topic = make_topic(clusters.a, 2)
    produce(config, topic, _numbered(0, 500))
    batches = [(_numbered(500 + 20 * number, 20), number % 3 > 0) for number in range(30)]
    produce_transactions(config, topic, batches, transactional_id=topic)
    async with Replicated(clusters.a, clusters.b) as flow:
        remote = flow.remote(topic, 2)
        await flow.copy([topic])
    places = _places(config, topic, clusters.b.confluent_config(), remote)
    book = OffsetMapStore()
    for record in read_all(clusters.b.confluent_config(), segments_topic("A"))[0]:
        # Other tests' systems tell there, too, and delete what they need no more.
        if record.value is not None and (block := decode_block(record.key or b"", record.value)).source.topic == topic:
            book.apply(block)
    for partition, truth in places.items():
        page = book.find(partition)
        assert page is not None
        assert {source: page.segments.to_target(source) for source in truth} == {
            s: ExactOffset(t) for s, t in truth.items()
        }
        assert {page.segments.to_source(target): source for source, target in truth.items()} == {
            ExactOffset(source): source for source in truth
        }
        end = page.segments.head
        assert page.segments.to_target(end.source) == ExactOffset(max(truth.values()) + 1)
    syncs = [
        OffsetSyncRecord.decode(record.key, record.value)
        for record in read_all(config, "mm2-offset-syncs.B.internal")[0]
    ]
    ours = [sync for sync in syncs if sync.partition.topic == topic]
    assert all(places[sync.partition][sync.upstream_offset] == sync.downstream_offset for sync in ours)
    newest = {sync.partition: sync.upstream_offset for sync in ours}
    assert newest == {partition: max(truth) for partition, truth in places.items()}


def _numbered(first: int, count: int) -> list[Message]:
    return [Message(b"%d" % number, b"k", partition=number % 2) for number in range(first, first + count)]


def _places(
    source: Mapping[str, str | int | float | bool],
    topic: str,
    target: Mapping[str, str | int | float | bool],
    remote: str,
) -> dict[TopicPartition, dict[int, int]]:
    """Target offset by source offset, by the records' unique values."""
    there = {record.value: offset for records in read_placed(target, remote).values() for offset, record in records}
    return {
        TopicPartition(topic, partition): {offset: there[record.value] for offset, record in records}
        for partition, records in read_placed(source, topic).items()
    }
