"""The statistics that replicators publish, against counts by Kafka's own client and the bytes of the target's log."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from confluent_kafka.admin import AdminClient

from mirror_ray.config.settings import StatisticsSettings
from mirror_ray.model.internal_topics import statistics_topic
from mirror_ray.records.statistics import PartitionStatistics, decode_statistics
from tests.support.clusters import KafkaCluster, TopicMaker, ensure_topic, logged_batches
from tests.support.engine import Engine
from tests.support.kafka import CODECS, exists, produce, produce_transactions, sample_messages
from tests.support.reading import read_all
from tests.support.replicated import Replicated
from tests.support.waiting import wait_until_async

TOPIC = statistics_topic("A")
OFTEN = StatisticsSettings(emit_interval_s=0.2)
PARTITIONS = 2


def told_of(target: KafkaCluster, *topics: str) -> list[PartitionStatistics]:
    """All records of the topics' partitions, in order, their keys compared."""
    records = [record for records in read_all(target.confluent_config(), TOPIC).values() for record in records]
    told = [(record.key, decode_statistics(record.value)) for record in records]
    assert all(key == row.key for key, row in told)
    return [row for _, row in told if row.topic in topics]


async def enough_told(flow: Replicated, topic: str, records: int) -> list[PartitionStatistics]:
    """Wait until so many records are told of."""

    async def told() -> list[PartitionStatistics]:
        found = await asyncio.to_thread(told_of, flow.target, topic)
        return found if sum(row.records for row in found) >= records else []

    return await wait_until_async(told, 20, f"{records} records of {topic} are told of")


async def test_sums_are_what_the_target_holds(flow: Replicated, make_topic: TopicMaker) -> None:
    """Records as a consumer counts them, bytes as the target's log has them, for each codec and for transactions."""
    config = flow.source.confluent_config()
    topics = {codec: make_topic(flow.source, PARTITIONS) for codec in (*CODECS, "transactions")}
    remotes = {codec: flow.remote(topic, PARTITIONS) for codec, topic in topics.items()}
    messages = sample_messages(400, partitions=PARTITIONS, value_bytes=300)
    engine = await flow.engine(statistics=OFTEN)
    engine.assign(await flow.assignments(list(topics.values())))
    for part in (messages[:100], messages[100:]):
        for codec in CODECS:
            produce(config, topics[codec], part, codec=codec, batch_num_messages=40)
        batches = [(part[at : at + 30], at % 90 > 0) for at in range(0, len(part), 30)]
        produce_transactions(config, topics["transactions"], batches, transactional_id=f"{topics['transactions']}")
        await engine.caught_up()
        await asyncio.sleep(0.3)
    await engine.stop()
    for codec, topic in topics.items():
        told = told_of(flow.target, topic)
        values = read_all(flow.target.confluent_config(), remotes[codec])
        for partition in range(PARTITIONS):
            ours = [row for row in told if row.partition == partition]
            logged = logged_batches(flow.target.brokers[0], remotes[codec], partition)
            assert sum(row.records for row in ours) == len(values[partition])
            assert sum(row.batches for row in ours) == len(logged)
            assert sum(row.wire_bytes for row in ours) == sum(len(batch.view) for batch in logged)
            if codec != "transactions":
                found = logged_batches(flow.source.brokers[0], topic, partition)
                assert sum(row.source_bytes or 0 for row in ours) == sum(len(batch.view) for batch in found)
            assert ours[0].target_from == 0
            assert ours[-1].target_to == len(values[partition])
            assert ours[-1].lag_records == ours[-1].lag_ms == 0
            for before, after in pairwise(ours):
                assert (after.source_from, after.target_from) == (before.source_to, before.target_to)
                assert after.from_ms >= before.to_ms
        assert sum(row.restarts for row in told) == 0
        assert {(row.flow, row.replicator, row.target_topic) for row in told} == {
            ("A->B", "replicator-0", remotes[codec])
        }
        _check_compression(codec, told)


def _check_compression(codec: str, told: list[PartitionStatistics]) -> None:
    """Values that repeat themselves; uncompressed batches are all known."""
    copied = [row for row in told if row.records]
    assert {row.codec for row in copied} == {"none" if codec == "transactions" else codec}
    sampled = sum(row.sampled_wire_bytes for row in copied)
    unpacked = sum(row.sampled_uncompressed_bytes for row in copied)
    if codec in ("none", "transactions"):
        assert sampled == unpacked == sum(row.wire_bytes for row in copied)
    else:
        assert 0 < sampled < unpacked


async def test_what_a_killed_replicator_did_not_tell_is_a_gap(flow: Replicated, make_topic: TopicMaker) -> None:
    """The next one begins behind it; what was told is not told again."""
    topic = make_topic(flow.source)
    remote = flow.remote(topic)
    config = flow.source.confluent_config()
    engine = await flow.engine(statistics=OFTEN)
    engine.assign(await flow.assignments([topic]))
    produce(config, topic, sample_messages(300))
    await engine.caught_up()
    await enough_told(flow, topic, 300)
    await _cut_off(engine)
    produce(config, topic, sample_messages(200, first=300))
    await engine.caught_up()
    await engine.crash()
    after = await flow.engine(statistics=OFTEN)
    after.assign(await flow.assignments([topic]))
    produce(config, topic, sample_messages(100, first=500))
    await after.caught_up()
    await after.stop()
    told = told_of(flow.target, topic)
    before, later = ([row for row in told if row.epoch == epoch] for epoch in sorted({row.epoch for row in told}))
    assert (before[0].target_from, before[-1].target_to) == (0, 300)
    assert (later[0].target_from, later[-1].target_to) == (500, 600)
    assert [sum(row.records for row in life) for life in (before, later)] == [300, 100]
    assert len(read_all(flow.target.confluent_config(), remote)[0]) == 600


async def _cut_off(engine: Engine) -> None:
    """What it does from now on it does not live to tell."""
    (copier,) = engine.core._flows.values()
    assert copier._statistics is not None
    await copier._statistics.close()


async def test_a_topic_that_is_gone(flow: Replicated, make_topic: TopicMaker) -> None:
    """Copying goes on, it is said, and what waited is told once the topic is there again."""
    admin = AdminClient(dict(flow.target.confluent_config()))
    admin.delete_topics([TOPIC])[TOPIC].result(10)
    topic = make_topic(flow.source)
    flow.remote(topic)
    engine = await flow.engine(statistics=OFTEN)
    engine.assign(await flow.assignments([topic]))
    produce(flow.source.confluent_config(), topic, sample_messages(300))
    await engine.caught_up()
    await engine.until(lambda: any("not published" in event for event in engine.events), 10, "it is said")
    (said,) = (event for event in engine.events if "not published" in event)
    assert f"topic {TOPIC} on cluster B; if it was deleted, create it with cleanup.policy=delete" in said
    assert not exists(flow.target.confluent_config(), TOPIC)
    await asyncio.to_thread(ensure_topic, flow.target, TOPIC, "delete")
    await enough_told(flow, topic, 300)
    await engine.until(lambda: any("can be written again" in event for event in engine.events), 10, "it is over")
    await engine.stop()
    assert sum(row.records for row in told_of(flow.target, topic)) == 300


@pytest.mark.parametrize("enabled", [True, False])
async def test_it_can_be_turned_off(flow: Replicated, make_topic: TopicMaker, enabled: bool) -> None:
    """Then nothing is counted, and nothing told."""
    topic = make_topic(flow.source)
    flow.remote(topic)
    engine = await flow.engine(statistics=StatisticsSettings(emit_enabled=enabled))
    engine.assign(await flow.assignments([topic]))
    produce(flow.source.confluent_config(), topic, sample_messages(30))
    await engine.caught_up()
    await engine.stop()
    assert sum(row.records for row in told_of(flow.target, topic)) == (30 if enabled else 0)
