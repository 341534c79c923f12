"""Each record has the same offset on the target: whatever the source's log has gaps of, and whoever is killed when."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import Producer

from mirror_ray.config.settings import OffsetSettings
from mirror_ray.kafka.transaction_markers import NOT_AUTHORIZED
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.records.filler import FILLER_HEADER
from mirror_ray.replication import marker_writer
from tests.support.clusters import KafkaCluster, TopicMaker, logged_batches
from tests.support.engine import Engine
from tests.support.kafka import produce, produce_transactions, sample_messages
from tests.support.prefixes import begin_at
from tests.support.reading import end_offsets, read_placed
from tests.support.replicated import Replicated

PRESERVED: dict[str, Any] = {"preserve_offsets": True, "transactional_id": "mirror-ray-test-gaps"}


@pytest.fixture(params=["markers", "transactions"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How short gaps are filled: by markers, or where the target does not allow them by empty transactions."""
    if request.param == "transactions":

        async def refused(_: object, __: object, markers: Mapping[TopicPartition, object]) -> dict[TopicPartition, str]:
            return dict.fromkeys(markers, NOT_AUTHORIZED)

        monkeypatch.setattr(marker_writer, "write_markers", refused)
    return str(request.param)


async def test_aborted_and_interleaved_transactions(flow: Replicated, make_topic: TopicMaker, way: str) -> None:
    """Three in ten are aborted; whoever reads committed records sees the same ones at the same offsets."""
    topic = make_topic(flow.source, 2)
    remote = flow.remote(topic, 2)
    _produce_transactions(flow.source, topic, 40, seed=1)
    engine = await flow.engine()
    engine.assign(await flow.assignments([topic], **PRESERVED))
    await engine.caught_up()
    _produce_transactions(flow.source, topic, 40, seed=2)
    await engine.caught_up()
    await _same_ends(engine, flow, topic, remote)
    await engine.stop()
    _assert_same_offsets(flow, topic, remote)
    assert len([event for event in engine.events if "grant ALTER on the cluster B" in event]) == (way != "markers")


@pytest.mark.usefixtures("way")
async def test_killed_at_every_step(flow: Replicated, make_topic: TopicMaker) -> None:
    """Each life begins at the anchor of a former one, fences it, and goes on from the log's end, inside gaps too."""
    topic = make_topic(flow.source, 2)
    remote = flow.remote(topic, 2)
    generator = random.Random(5)
    anchors: dict[TopicPartition, OffsetPair] = {}
    for life in range(12):
        _produce_transactions(flow.source, topic, 15, seed=10 + life)
        engine = await flow.engine(merge=bool(life % 2))
        engine.assign(await flow.assignments([topic], anchors, **PRESERVED))
        await asyncio.sleep(generator.uniform(0.02, 0.4))
        reports = engine.look()
        if life % 3 == 0:
            anchors = {partition: report.anchor for partition, report in reports.items()}
        assert not engine.stops
        await engine.crash()
    engine = await flow.engine()
    engine.assign(await flow.assignments([topic], anchors, **PRESERVED))
    await engine.caught_up(60)
    await _same_ends(engine, flow, topic, remote)
    await engine.stop()
    _assert_same_offsets(flow, topic, remote)


async def test_long_gaps_are_filled_by_fillers_that_say_so(flow: Replicated, make_topic: TopicMaker) -> None:
    """An aborted transaction of a thousand records costs one transaction on the target, and not a thousand."""
    topic = make_topic(flow.source)
    remote = flow.remote(topic)
    config = flow.source.confluent_config()
    produce_transactions(config, topic, [(sample_messages(1000), False)], transactional_id=f"{topic}-1")
    produce(config, topic, sample_messages(10))
    engine = await flow.engine(offsets=OffsetSettings(mode="preserve", gap_markers=16))
    engine.assign(await flow.assignments([topic], **PRESERVED))
    await engine.caught_up()
    await engine.stop()
    _assert_same_offsets(flow, topic, remote)
    batches = logged_batches(flow.target.brokers[0], remote)
    assert [(batch.count, batch.is_control) for batch in batches[:3]] == [(992, False), (1, True), (1, True)]
    uncommitted = read_placed(flow.target.confluent_config(), remote, isolation_level="read_uncommitted")[0]
    fillers = [record for offset, record in uncommitted if offset < 992]
    assert {(record.value, record.headers[0][0]) for record in fillers} == {(None, FILLER_HEADER.decode())}


async def test_a_compacted_topic(flow: Replicated, make_topic: TopicMaker) -> None:
    """What the cleaner has taken is a gap, within batches too; fillers have a key, as a compacted topic wants."""
    compacting = {
        "cleanup.policy": "compact",
        "segment.ms": "300",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "300",
    }
    topic = make_topic(flow.source, topic_config=compacting)
    remote = flow.remote(topic, cleanup_policy="compact")
    config = flow.source.confluent_config()
    for round_number in range(6):
        keyed = [message._replace(key=b"%d" % (n % 37)) for n, message in enumerate(sample_messages(200))]
        produce(config, topic, keyed, batch_num_messages=20)
        await asyncio.sleep(0.8 if round_number < 5 else 0)
    engine = await flow.engine()
    engine.assign(await flow.assignments([topic], **PRESERVED))
    await engine.caught_up(60)
    await engine.stop()
    found = read_placed(flow.target.confluent_config(), remote)[0]
    assert len(found) < 1200
    there = dict(found)
    # The source may be cleaned further between the copy and the comparison.
    wanted = read_placed(config, topic)[0]
    assert {offset: there.get(offset) for offset, _ in wanted} == dict(wanted)
    assert end_offsets(flow.target.confluent_config(), remote) == end_offsets(config, topic)


@pytest.mark.parametrize("policy", ["delete", "compact"])
async def test_a_log_that_begins_elsewhere(flow: Replicated, make_topic: TopicMaker, policy: str) -> None:
    """The prefix is filled and deleted; nobody who begins at the earliest record sees a filler."""
    start = 1_000_000
    topic = make_topic(flow.source, topic_config={"cleanup.policy": policy})
    remote = flow.remote(topic, cleanup_policy=policy)
    for cluster, name in ((flow.source, topic), (flow.target, remote)):
        await begin_at(cluster, TopicPartition(name, 0), start, compacted=policy == "compact")
    _produce_transactions(flow.source, topic, 10, seed=3, partitions=1)
    engine = await flow.engine()
    anchors = {TopicPartition(topic, 0): OffsetPair(start, start)}
    engine.assign(await flow.assignments([topic], anchors, **PRESERVED))
    await engine.caught_up()
    await engine.stop()
    _assert_same_offsets(flow, topic, remote)
    assert read_placed(flow.target.confluent_config(), remote)[0][0][0] >= start


async def test_somebody_else_who_writes_is_seen(flow: Replicated, make_topic: TopicMaker) -> None:
    """A record, or a marker where the source has a record: the partition stops, and says what is there."""
    topic = make_topic(flow.source)
    remote = flow.remote(topic)
    partition = TopicPartition(topic, 0)
    produce(flow.source.confluent_config(), topic, sample_messages(20))
    engine = await flow.engine()
    engine.assign(await flow.assignments([topic], **PRESERVED))
    await engine.caught_up()
    producer = _transactional(flow.target.confluent_config(), f"{remote}-1")
    producer.begin_transaction()
    producer.produce(remote, b"theirs", partition=0)
    producer.commit_transaction(10)
    produce(flow.source.confluent_config(), topic, sample_messages(20))
    fault = await engine.troubled(partition, "target_foreign")
    assert remote in fault.text
    await engine.stop()


async def _same_ends(engine: Engine, flow: Replicated, topic: str, remote: str) -> None:
    """Gaps at the end are filled, too."""
    source, target = flow.source.confluent_config(), flow.target.confluent_config()
    wanted = end_offsets(source, topic)
    await engine.until(lambda: end_offsets(target, remote) == wanted, 20, "both logs end alike")


def _assert_same_offsets(flow: Replicated, topic: str, remote: str) -> None:
    source, target = flow.source.confluent_config(), flow.target.confluent_config()
    assert read_placed(target, remote) == read_placed(source, topic)
    assert end_offsets(target, remote) == end_offsets(source, topic)


def _produce_transactions(source: KafkaCluster, topic: str, count: int, *, seed: int, partitions: int = 2) -> None:
    """Of two producers, whose records are in turn, and of some records without a transaction."""
    generator = random.Random(seed)
    config = source.confluent_config()
    producers = [_transactional(config, f"{topic}-{number}") for number in range(2)]
    for number in range(count):
        for producer in producers:
            producer.begin_transaction()
        for n in range(generator.randrange(1, 12)):
            for producer in producers:
                partition = generator.randrange(partitions)
                producer.produce(topic, f"{seed} {number} {n}".encode(), key=b"%d" % n, partition=partition)
        for producer in producers:
            producer.flush(10)
            (producer.abort_transaction if generator.random() < 0.3 else producer.commit_transaction)(10)
        if number % 5 == 0:
            plain = [message._replace(key=b"k") for message in sample_messages(7, partitions=partitions)]
            produce(config, topic, plain, batch_num_messages=2)
    for number in range(2):
        # Until the markers are in the log a new producer of the id has to wait.
        _transactional(config, f"{topic}-{number}")


def _transactional(config: dict[str, str | int | float | bool], transactional_id: str) -> Producer:
    producer = Producer({**config, "transactional.id": transactional_id, "linger.ms": 0, "batch.num.messages": 3})
    producer.init_transactions(20)
    return producer
