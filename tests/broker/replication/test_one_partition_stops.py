"""What is wrong with one partition stops that one, with a reason that names it; the others go on."""

from __future__ import annotations

import time

from confluent_kafka.admin import AclBindingFilter, AclOperation  # type: ignore[attr-defined]

from mirror_ray.config.settings import StatisticsSettings
from mirror_ray.lab.devcluster import DevListener
from mirror_ray.model.names import TopicPartition
from mirror_ray.state.schema import state_topic
from tests.support.clusters import Clusters, KafkaCluster, TopicMaker
from tests.support.engine import Engine
from tests.support.kafka import Message, create_topic, delete_topic, produce, sample_messages
from tests.support.reading import assert_equal_copies, read_all
from tests.support.replicated import Replicated
from tests.support.rights import acl, grant, granted, revoke
from tests.support.waiting import wait_until


async def test_record_over_the_limit(flow: Replicated, make_topic: TopicMaker) -> None:
    """What lies before it is copied, the reason names its offset, and nothing behind it goes."""
    topic = make_topic(flow.source, 2)
    remote = flow.remote(topic, 2, max_message_bytes="100000")
    config = flow.source.confluent_config()
    produce(config, topic, sample_messages(400, partitions=2), batch_num_messages=20)
    produce(config, topic, [Message(b"x" * 500_000)])
    produce(config, topic, sample_messages(40, partitions=2, first=400), batch_num_messages=20)
    engine = await flow.engine()
    engine.assign(await flow.assignments([topic], max_message_bytes=100_000))
    large, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    reason = await engine.stopped(large)
    assert "200" in reason
    assert "100000" in reason
    assert engine.reports[large].position == 200
    await _goes_on(flow, engine, other, 220)
    assert len(read_all(flow.target.confluent_config(), remote)[0]) == 200
    await engine.stop()


async def test_topics_that_are_deleted(flow: Replicated, make_topic: TopicMaker) -> None:
    """A topic that is deleted on the source, and one that is deleted or recreated on the target."""
    gone, remote_gone, recreated, other = topics = [make_topic(flow.source) for _ in range(4)]
    config = flow.source.confluent_config()
    for topic in topics:
        flow.remote(topic)
        produce(config, topic, sample_messages(20))
    engine = await flow.engine()
    engine.assign(await flow.assignments(topics))
    await engine.caught_up()
    delete_topic(flow.source.confluent_config(), gone)
    delete_topic(flow.target.confluent_config(), f"A.{remote_gone}")
    delete_topic(flow.target.confluent_config(), f"A.{recreated}")
    flow.remote(recreated)
    for topic in (remote_gone, recreated):
        produce(config, topic, sample_messages(20))
    for topic, words in ((gone, "deleted"), (remote_gone, "deleted"), (recreated, "another")):
        reason = await engine.stopped(TopicPartition(topic, 0))
        assert topic in reason
        assert words in reason
    assert not any(read_all(flow.target.confluent_config(), f"A.{recreated}").values())
    await _goes_on(flow, engine, TopicPartition(other, 0), 20)
    for topic in (gone, remote_gone, recreated):
        assert engine.reports[TopicPartition(topic, 0)].state == "stopped"
        assert len([event for event in engine.events if f"{topic}-0 stopped" in event]) == 1
    await engine.stop()


async def test_foreign_producer(flow: Replicated, make_topic: TopicMaker) -> None:
    """Somebody else's record in the remote topic is noticed at the next acknowledgement; nothing is written after."""
    topic, other = make_topic(flow.source), make_topic(flow.source)
    remote = flow.remote(topic)
    flow.remote(other)
    config, target = flow.source.confluent_config(), flow.target.confluent_config()
    produce(config, topic, sample_messages(20))
    engine = await flow.engine()
    engine.assign(await flow.assignments([topic, other]))
    await engine.caught_up()
    produce(target, remote, [Message(b"foreign")])
    produce(config, topic, sample_messages(20))
    reason = await engine.stopped(TopicPartition(topic, 0))
    assert remote in reason
    assert "somebody else" in reason
    produce(config, topic, sample_messages(20))
    await _goes_on(flow, engine, TopicPartition(other, 0), 0)
    await engine.until(
        lambda: "20 and 41" in (engine.reports[TopicPartition(topic, 0)].reason or ""), 10, "looked again"
    )
    assert len(read_all(target, remote)[0]) == 41
    await engine.stop()


async def test_right_withdrawn_on_the_source_and_given_back(guarded: DevListener, clusters: Clusters) -> None:
    """A topic that may not be read any more stops alone, and goes on when it may be read again."""
    async with Replicated(guarded, clusters.b, source_user="alice") as flow:
        topic, other = _topics(flow, guarded)
        for name in (topic, other):
            grant(guarded, name, AclOperation.READ, AclOperation.DESCRIBE)
        await _withdraw_and_give_back(flow, guarded, topic, other, AclOperation.READ)


async def test_right_withdrawn_on_the_target_and_given_back(guarded: DevListener, clusters: Clusters) -> None:
    """A remote topic that may not be written any more stops alone, and goes on when it may be again."""
    async with Replicated(clusters.a, guarded, target_user="alice") as flow:
        topic, other = _topics(flow, clusters.a)
        _allow_copies(guarded, topic, other)
        await _withdraw_and_give_back(flow, guarded, topic, other, AclOperation.WRITE, f"A.{topic}")


async def test_statistics_that_may_not_be_written(guarded: DevListener, clusters: Clusters) -> None:
    """It is told once, with the next step, and nothing waits for it."""
    async with Replicated(clusters.a, guarded, target_user="alice") as flow:
        topic, other = _topics(flow, clusters.a)
        _allow_copies(guarded, topic, other)
        produce(flow.source.confluent_config(), topic, sample_messages(20))
        engine = await flow.engine(statistics=StatisticsSettings(emit_interval_s=0.1))
        engine.assign(await flow.assignments([topic, other]))
        await engine.caught_up()
        told = "flow A->B: statistics are not published: "
        await engine.until(lambda: [event for event in engine.events if told in event], 10, "told")
        await _goes_on(flow, engine, TopicPartition(other, 0), 0)
        await engine.stop()
        (event,) = [event for event in engine.events if told in event]
        assert "topic mm2-ray-stats.A.internal on cluster B" in event
        assert "grant our principal WRITE and DESCRIBE on it" in event
        assert "TOPIC_AUTHORIZATION_FAILED" in event


async def _withdraw_and_give_back(
    flow: Replicated, cluster: KafkaCluster, topic: str, other: str, right: AclOperation, guarded_topic: str = ""
) -> None:
    source, guarded_topic = flow.source.confluent_config(), guarded_topic or topic
    engine = await flow.engine()
    produce(source, topic, sample_messages(20))
    engine.assign(await flow.assignments([topic, other]))
    await engine.caught_up()
    revoke(cluster, acl(guarded_topic, right, AclBindingFilter))
    wait_until(lambda: right not in granted(cluster, guarded_topic), 20, "the right is withdrawn")
    produce(source, topic, sample_messages(20, first=20))
    reason = await engine.stopped(TopicPartition(topic, 0))
    assert guarded_topic in reason
    assert "TOPIC_AUTHORIZATION_FAILED" in reason
    await _goes_on(flow, engine, TopicPartition(other, 0), 0)
    grant(cluster, guarded_topic, right)
    await engine.reached({TopicPartition(topic, 0): 40}, 40)
    await engine.stop()
    assert_equal_copies(source, flow.target.confluent_config(), topic, f"A.{topic}")


async def _goes_on(flow: Replicated, engine: Engine, partition: TopicPartition, end: int) -> None:
    """What is written to ``partition``, which ends at ``end``, is still copied, and soon."""
    config = flow.source.confluent_config()
    begun = time.monotonic()
    produce(config, partition.topic, [Message(b"on", partition=partition.partition)])
    await engine.reached({partition: end + 1}, 10)
    assert time.monotonic() - begun < 5


def _topics(flow: Replicated, source: KafkaCluster) -> tuple[str, str]:
    names = [f"topic-{time.time_ns() % 10**9}-{n}" for n in range(2)]
    for name in names:
        create_topic(source.confluent_config(), name)
        flow.remote(name)
    return names[0], names[1]


def _allow_copies(cluster: KafkaCluster, *topics: str) -> None:
    """What copies of these topics need on the target."""
    for topic in topics:
        grant(cluster, f"A.{topic}", AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)
    grant(cluster, state_topic("A"), AclOperation.READ, AclOperation.DESCRIBE)
