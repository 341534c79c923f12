"""Whatever a source topic is made of, its remote topic reads the same, record by record."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from confluent_kafka import Producer

from mirror_ray.model.names import TopicPartition
from mirror_ray.records.batch import HEADER_BYTES
from tests.support.clusters import TopicMaker, logged_batches
from tests.support.kafka import CODECS, Message, produce, sample_messages
from tests.support.kernels import needs_kernel
from tests.support.reading import assert_equal_copies, end_offsets, read_all
from tests.support.replicated import Replicated
from tests.support.waiting import wait_until

LAST_YEAR_MS = 1_750_000_000_000


@pytest.mark.parametrize("codec", CODECS)
async def test_batches_pass_through_as_they_are(flow: Replicated, make_topic: TopicMaker, codec: str) -> None:
    """Where nothing is merged: codec and compressed payload of each batch on the target are those of the source."""
    topic = make_topic(flow.source, 2)
    remote = flow.remote(topic, 2)
    config = flow.source.confluent_config()
    idempotent = {"enable_idempotence": True, "batch_num_messages": 40}
    produce(config, topic, sample_messages(300, partitions=2), codec=codec, **idempotent)
    produce(config, topic, sample_messages(40, partitions=2), codec=codec)
    await flow.copy([topic], merge=False)
    assert_equal_copies(config, flow.target.confluent_config(), topic, remote)
    for partition in range(2):
        source = logged_batches(flow.source.brokers[0], topic, partition)
        target = logged_batches(flow.target.brokers[0], remote, partition)
        assert [(b.codec, bytes(b.view[HEADER_BYTES:])) for b in target] == [
            (b.codec, bytes(b.view[HEADER_BYTES:])) for b in source
        ]
        assert {b.codec for b in target} == {codec}


@needs_kernel
@pytest.mark.parametrize("codec", CODECS)
async def test_small_batches_become_large_ones(flow: Replicated, make_topic: TopicMaker, codec: str) -> None:
    """Records, timestamps and codec stay; what waits is a fraction of the batches, and no larger."""
    topic = make_topic(flow.source)
    remote = flow.remote(topic)
    config = flow.source.confluent_config()
    for _ in range(2):
        produce(config, topic, sample_messages(600), codec=codec, enable_idempotence=True, batch_num_messages=5)
    await flow.copy([topic])
    assert_equal_copies(config, flow.target.confluent_config(), topic, remote)
    source = logged_batches(flow.source.brokers[0], topic)
    target = logged_batches(flow.target.brokers[0], remote)
    assert len(target) < len(source) / 20
    assert {b.codec for b in target} == {codec}
    assert sum(b.size_bytes for b in target) < sum(b.size_bytes for b in source)


async def test_transactions_show_what_was_committed_and_an_open_one_holds_back(
    flow: Replicated, make_topic: TopicMaker
) -> None:
    """Interleaved commits and aborts; the position is at the last stable offset, and moves on when that does."""
    topic = make_topic(flow.source)
    remote = flow.remote(topic)
    partition = TopicPartition(topic, 0)
    config, target = flow.source.confluent_config(), flow.target.confluent_config()
    first, second = _transactional(config, f"{topic}-1"), _transactional(config, f"{topic}-2")
    for number in range(6):
        first.begin_transaction()
        second.begin_transaction()
        for producer, name in ((first, "first"), (second, "second"), (first, "again")):
            for n in range(number + 1):
                producer.produce(topic, f"{name} {number} {n}", partition=0)
            producer.flush(10)
        (first.commit_transaction if number % 3 else first.abort_transaction)(10)
        (second.abort_transaction if number % 2 else second.commit_transaction)(10)
    stable = {"isolation_level": "read_committed"}
    wait_until(lambda: end_offsets(config, topic, **stable) == end_offsets(config, topic), 10, "the last marker")
    engine = await flow.engine()
    engine.assign(await flow.assignments([topic]))
    report = (await engine.caught_up())[partition]
    end = wait_until(lambda: _end(config, topic), 5, "an end")
    assert report.position == report.source_end == report.high_watermark == end
    assert_equal_copies(config, target, topic, remote)

    first.begin_transaction()
    first.produce(topic, "held back", partition=0)
    first.flush(10)
    produce(config, topic, [Message(b"behind the open transaction")] * 3)
    await engine.until(lambda: engine.reports[partition].high_watermark == end + 4, 10, "high watermark seen")
    report = engine.reports[partition]
    assert (report.position, report.source_end) == (end, end)
    first.commit_transaction(10)
    await engine.reached({partition: end + 5})
    report = engine.reports[partition]
    assert report.position == report.source_end == report.high_watermark

    second.begin_transaction()
    second.produce(topic, "aborted at the end", partition=0)
    second.flush(10)
    second.abort_transaction(10)
    await engine.reached({partition: end + 7})
    await engine.stop()
    assert_equal_copies(config, target, topic, remote)
    assert len(read_all(target, remote)[0]) == len(read_all(config, topic)[0])


async def test_compacted_source_with_holes_in_its_batches(flow: Replicated, make_topic: TopicMaker) -> None:
    """What the cleaner left is copied, in dense batches; so is what is written afterwards."""
    config = flow.source.confluent_config()
    topic = make_topic(
        flow.source,
        topic_config={
            "cleanup.policy": "compact",
            "segment.ms": "300",
            "min.cleanable.dirty.ratio": "0.01",
            "max.compaction.lag.ms": "300",
        },
    )
    remote = flow.remote(topic, cleanup_policy="compact")
    for number in range(4):
        messages = [Message(f"{number} {n}".encode() * 5, f"key {n % 7 if n % 3 else n}".encode()) for n in range(60)]
        produce(config, topic, messages, codec="zstd" if number % 2 else "none", batch_num_messages=25)
        await asyncio.sleep(0.4)
    produce(config, topic, [Message(None, b"key 3"), Message(b"last", b"key 4")])
    wait_until(
        lambda: [b for b in logged_batches(flow.source.brokers[0], topic) if 0 < b.count <= b.last_offset_delta],
        30,
        "the cleaner made holes",
    )
    engine = await flow.engine()
    engine.assign(await flow.assignments([topic]))
    await engine.caught_up()
    produce(config, topic, sample_messages(20)[:3])
    await engine.reached({TopicPartition(topic, 0): _end(config, topic)})
    await engine.stop()
    copied = logged_batches(flow.target.brokers[0], remote)
    assert sum(b.count for b in copied) < 4 * 60
    # The source's cleaner may have gone on: what is latest for each key is the same for ever.
    assert _latest(flow.target.confluent_config(), remote) == _latest(config, topic)


async def test_log_append_time_of_the_source_becomes_create_time(flow: Replicated, make_topic: TopicMaker) -> None:
    """A consumer of the target sees the timestamps that a consumer of the source sees."""
    topic = make_topic(flow.source, topic_config={"message.timestamp.type": "LogAppendTime"})
    remote = flow.remote(topic)
    config = flow.source.confluent_config()
    messages = [m._replace(timestamp_ms=LAST_YEAR_MS + n) for n, m in enumerate(sample_messages(60))]
    produce(config, topic, messages, codec="lz4", batch_num_messages=20)
    await flow.copy([topic])
    wanted = [r._replace(timestamp_type=1) for r in read_all(config, topic)[0]]
    assert read_all(flow.target.confluent_config(), remote)[0] == wanted


async def test_many_partitions_most_of_them_empty(flow: Replicated, make_topic: TopicMaker) -> None:
    """64 partitions, 60 of them empty, in one go; empty ones are caught up at 0."""
    topic = make_topic(flow.source, 64)
    remote = flow.remote(topic, 64)
    config = flow.source.confluent_config()
    produce(config, topic, [m._replace(partition=17 * m.partition % 64) for m in sample_messages(80, partitions=4)])
    reports = await flow.copy([topic])
    assert len(reports) == 64
    assert all(r.position == r.source_end == r.target_end for r in reports.values())
    assert_equal_copies(config, flow.target.confluent_config(), topic, remote)


async def test_large_records_and_batches_over_the_targets_limit(flow: Replicated, make_topic: TopicMaker) -> None:
    """Records of 900 KB pass; batches larger than the target's max.message.bytes are split."""
    large, split = make_topic(flow.source), make_topic(flow.source, topic_config={"max.message.bytes": "3000000"})
    remote_large, remote_split = flow.remote(large), flow.remote(split, max_message_bytes="100000")
    config, target = flow.source.confluent_config(), flow.target.confluent_config()
    produce(config, large, sample_messages(8, value_bytes=900_000))
    for codec in ("none", "gzip"):
        values = [m._replace(value=m.value and bytes(m.value[:9] + n.to_bytes(2)) * 90)
                  for n, m in enumerate(sample_messages(1500))]  # fmt: skip
        produce(config, split, values, codec=codec, batch_size=2_000_000, message_max_bytes=2_500_000, linger_ms=500)
    assert max(b.size_bytes for b in logged_batches(flow.source.brokers[0], split)) > 1_000_000
    engine = await flow.engine()
    engine.assign(await flow.assignments([large]))
    engine.assign(await flow.assignments([split], max_message_bytes=100_000))
    await engine.caught_up()
    await engine.stop()
    assert_equal_copies(config, target, large, remote_large)
    assert_equal_copies(config, target, split, remote_split)


async def test_uncompressed_batches_are_compressed_where_that_is_asked(
    flow: Replicated, make_topic: TopicMaker
) -> None:
    """``compression.type`` applies to what the source left uncompressed, and, unmerged, to nothing else."""
    assert await _copied_codecs(flow, make_topic(flow.source), ("none", "lz4"), merge=False) == {"zstd", "lz4"}


@needs_kernel
async def test_merged_batches_of_several_codecs_get_the_one_that_is_asked(
    flow: Replicated, make_topic: TopicMaker
) -> None:
    """They have to be encoded with one."""
    assert await _copied_codecs(flow, make_topic(flow.source), ("none", "lz4", "zstd"), merge=True) == {"zstd"}


async def _copied_codecs(flow: Replicated, topic: str, codecs: Sequence[str], *, merge: bool) -> set[str]:
    """The codecs of a copy, which is equal, of batches of these codecs where zstd is asked for."""
    remote = flow.remote(topic)
    config = flow.source.confluent_config()
    for codec in codecs:
        produce(config, topic, sample_messages(100), codec=codec)
    engine = await flow.engine(merge=merge)
    engine.assign(await flow.assignments([topic], compress_with="zstd"))
    await engine.caught_up()
    await engine.stop()
    assert_equal_copies(config, flow.target.confluent_config(), topic, remote)
    return {batch.codec for batch in logged_batches(flow.target.brokers[0], remote)}


def _transactional(config: dict[str, str | int | float | bool], transactional_id: str) -> Producer:
    producer = Producer({**config, "transactional.id": transactional_id, "linger.ms": 0})
    producer.init_transactions(30)
    return producer


def _end(config: dict[str, str | int | float | bool], topic: str) -> int:
    return end_offsets(config, topic)[0]


def _latest(config: dict[str, str | int | float | bool], topic: str) -> dict[bytes | None, bytes | None]:
    latest = {record.key: record.value for record in read_all(config, topic)[0]}
    return {key: value for key, value in latest.items() if value is not None}
