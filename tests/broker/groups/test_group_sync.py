"""Consumer groups carried over between real brokers: nobody else's commit replaced."""

from __future__ import annotations

import uuid
from collections.abc import Collection

import pytest
from confluent_kafka import TopicPartition

from mirror_ray.groups.commit_rules import ACTIVE
from mirror_ray.groups.sync import GroupOffsetSync
from mirror_ray.kafka.group_offsets import OffsetReader, OffsetRound
from tests.support.clusters import Clusters, TopicMaker
from tests.support.group_sync import group_sync, internal_topics
from tests.support.groups import commit, committed, member
from tests.support.kafka import Message, create_topic, exists, produce
from tests.support.replicated import Replicated
from tests.support.waiting import wait_until_async


async def test_who_committed_last(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Forward and back after our own commits, also those of an earlier life; never after somebody else's."""
    internal_topics(clusters)
    config, group = clusters.a.confluent_config(), uuid.uuid4().hex[:6]
    topic = make_topic(clusters.a)
    remote = f"A.{topic}"
    produce(config, topic, [Message(b"%d" % number) for number in range(100)])
    async with Replicated(clusters.a, clusters.b) as flow:
        flow.remote(topic)
        await flow.copy([topic])

    def stands() -> int:
        return committed(clusters.b, group, remote, 1)[0]

    async with group_sync(clusters, group) as first:
        for offset in (50, 70, 30):
            commit(clusters.a, group, {(topic, 0): offset})
            await first.round()
            assert stands() == offset
    # While nobody looked, the group went on, and back.
    commit(clusters.a, group, {(topic, 0): 20})
    async with group_sync(clusters, group) as second:
        await second.round()
        assert stands() == 20
        # It has failed over, and stops for a moment.
        commit(clusters.b, group, {(remote, 0): 25})
        for offset in (40, 10):
            commit(clusters.a, group, {(topic, 0): offset})
            await second.round()
            assert stands() == 25
        (status,) = second.statuses()
        assert status.state == "kept"
        assert status.reason == "offset 25 on the target was committed there by somebody else"
    async with group_sync(clusters, group) as third:
        await third.round()
        assert stands() == 25


async def test_a_commit_of_a_system_that_takes_over_is_not_somebody_elses(
    clusters: Clusters, make_topic: TopicMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes after the older one has read the checkpoints, before it looks at the target; then both are gone."""
    internal_topics(clusters)
    group, topic = uuid.uuid4().hex[:6], make_topic(clusters.a)
    produce(clusters.a.confluent_config(), topic, [Message(b"%d" % number) for number in range(100)])
    async with Replicated(clusters.a, clusters.b) as flow:
        flow.remote(topic)
        await flow.copy([topic])
    read, comes_between = OffsetReader.read, list[GroupOffsetSync]()

    async def read_late(reader: OffsetReader, groups: Collection[str]) -> OffsetRound:
        if comes_between:
            await comes_between.pop().round()
        return await read(reader, groups)

    monkeypatch.setattr(OffsetReader, "read", read_late)
    async with group_sync(clusters, group) as old, group_sync(clusters, group) as new:
        commit(clusters.a, group, {(topic, 0): 50})
        await old.round()
        commit(clusters.a, group, {(topic, 0): 70})
        comes_between.append(new)
        await old.round()
    async with group_sync(clusters, group) as third:
        for offset in (70, 90):
            commit(clusters.a, group, {(topic, 0): offset})
            await third.round()
            assert committed(clusters.b, group, f"A.{topic}", 1)[0] == offset


async def test_an_active_group_is_left_alone(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Until it has left; what it committed itself stays."""
    internal_topics(clusters)
    group, topic = uuid.uuid4().hex[:6], make_topic(clusters.a, 2)
    remote = f"A.{topic}"
    numbers = [Message(b"%d" % number, partition=number % 2) for number in range(40)]
    produce(clusters.a.confluent_config(), topic, numbers)
    async with Replicated(clusters.a, clusters.b) as flow:
        flow.remote(topic, 2)
        await flow.copy([topic])
    with member(clusters.b, group, remote) as joined:
        commit(clusters.a, group, {(topic, 0): 10, (topic, 1): 10})
        async with group_sync(clusters, group) as carried:
            await carried.round()
            assert set(committed(clusters.b, group, remote, 2).values()) == {-1001}
            (status,) = carried.statuses()
            assert (status.state, status.reason) == ("active", ACTIVE)
            joined.commit(offsets=[TopicPartition(remote, 0, 15)], asynchronous=False)
            joined.close()
            await carried.round()
            assert committed(clusters.b, group, remote, 2) == {0: 15, 1: 10}


async def test_what_waits_says_why(clusters: Clusters, make_topic: TopicMaker) -> None:
    """A group beyond what was copied, which follows; an empty partition; a topic that the flow does not copy."""
    internal_topics(clusters)
    group, topic, other = uuid.uuid4().hex[:6], make_topic(clusters.a, 2), "__not_copied"
    produce(clusters.a.confluent_config(), topic, [Message(b"%d" % number) for number in range(20)])
    if not exists(clusters.a.confluent_config(), other):
        create_topic(clusters.a.confluent_config(), other)
    async with Replicated(clusters.a, clusters.b) as flow:
        flow.remote(topic, 2)
        await flow.copy([topic])
        commit(clusters.a, group, {(topic, 0): 25, (topic, 1): 0, (other, 0): 0})
        await _waits_and_goes_on(flow, clusters, group, topic, other)


async def _waits_and_goes_on(flow: Replicated, clusters: Clusters, group: str, topic: str, other: str) -> None:
    async with group_sync(clusters, group) as carried:
        await carried.round()
        (status,) = carried.statuses()
        found = {
            (partition.topic, partition.partition): (partition.state, partition.reason)
            for partition in status.partitions
        }
        assert found == {
            (topic, 0): ("behind", "it stands at 25 on the source, the copy at 20"),
            (topic, 1): ("behind", "no record of the partition was copied yet"),
            (other, 0): ("uncopied", "this flow does not copy the topic"),
        }
        assert committed(clusters.b, group, f"A.{topic}", 2) == {0: 20, 1: -1001}
        produce(clusters.a.confluent_config(), topic, [Message(b"%d" % number) for number in range(20, 30)])
        await flow.copy([topic])
        await wait_until_async(lambda: _synced(carried, topic), 20, "it is synced")
        assert committed(clusters.b, group, f"A.{topic}", 2)[0] == 25


async def _synced(carried: GroupOffsetSync, topic: str) -> bool:
    await carried.round()
    (status,) = carried.statuses()
    return any(partition.topic == topic and partition.state == "synced" for partition in status.partitions)
