"""What groups had committed is written down by a real carrier, and told for any moment since."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient

from mirror_ray.config.settings import GroupSettings
from mirror_ray.groups.commit_history_topic import commits_as_of
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_reader import InternalTopicReader
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.model.committed_offset import Commits, CommittedOffset
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.names import NO_TOPIC_ID, TopicPartition
from mirror_ray.records.commit_record import CommitRecord
from tests.support.clusters import Clusters, TopicMaker, cluster_settings
from tests.support.group_sync import COMMITS, group_sync, internal_topics
from tests.support.groups import commit
from tests.support.kafka import create_topic, exists
from tests.support.waiting import wait_until_async


@pytest.fixture
async def target(clusters: Clusters) -> AsyncIterator[ClusterConnections]:
    """B, with its topics."""
    internal_topics(clusters)
    connected = ClusterConnections(cluster_settings("B", clusters.b), "test")
    yield connected
    await connected.close()


async def _now() -> int:
    """The present, in ms; what comes next is later."""
    now_ms = int(time.time() * 1000)
    await asyncio.sleep(0.01)
    return now_ms


async def _ask(target: ClusterConnections, at_ms: int) -> Commits:
    return await commits_as_of("A", target, at_ms, GroupSettings())


async def test_every_moment_since_is_told(
    clusters: Clusters, target: ClusterConnections, make_topic: TopicMaker
) -> None:
    """Commits that moved on, one that went back, a group that was deleted; and before the first look nothing."""
    topic, prefix = make_topic(clusters.a, 2), uuid.uuid4().hex[:6]
    one, two = f"{prefix}-1", f"{prefix}-2"
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    commit(clusters.a, one, {first: 5, second: 7})
    commit(clusters.a, two, {first: 9})
    problems: list[str] = []
    async with group_sync(clusters, f"{prefix}.*", history_problems=problems) as carrying:
        await carrying.round()
        at_first = await _now()
        commit(clusters.a, one, {first: 6, second: 2})
        await carrying.round()
        then = await _now()
        admin = AdminClient(dict(clusters.a.confluent_config()))
        admin.delete_consumer_groups([two])[two].result(30)

        async def gone() -> bool:
            await carrying.round()
            return not any(status.group == two for status in carrying.statuses())

        await wait_until_async(gone, 20, "the group is gone")
        afterwards = await _now()
    assert problems == []
    assert _offsets(await _ask(target, at_first)) == {one: {first: 5, second: 7}, two: {first: 9}}
    assert _offsets(await _ask(target, then)) == {one: {first: 6, second: 2}, two: {first: 9}}
    assert _offsets(await _ask(target, afterwards)) == {one: {first: 6, second: 2}}
    with pytest.raises(ConfigError, match=r"the oldest moment that can be asked is 20\d\d-"):
        await _ask(target, 1_000_000)
    with pytest.raises(ConfigError, match="nobody looked after"):
        await _ask(target, afterwards + 3_600_000)


async def test_a_snapshot_that_was_cut_off_is_passed_over(
    clusters: Clusters, target: ClusterConnections, make_topic: TopicMaker
) -> None:
    """A life that ended in the middle of its first snapshot says nothing; the one before it does."""
    topic, group = make_topic(clusters.a), uuid.uuid4().hex[:6]
    commit(clusters.a, group, {(topic, 0): 5})
    async with group_sync(clusters, group, history_problems=[]) as carrying:
        await carrying.round()
    cut = CommitRecord(
        life=uuid.uuid4().bytes,
        number=0,
        of=1,
        sequence=0,
        at_ms=await _now(),
        kind="snapshot",
        first=True,
        last=False,
        commits={group: {TopicPartition(topic, 0): CommittedOffset(99)}},
    )
    await InternalTopicWriter(target, COMMITS).append([KeyedRecord(*cut.encode())])
    assert _offsets(await _ask(target, await _now())) == {group: {TopicPartition(topic, 0): 5}}
    whole = replace(cut, sequence=1, first=False, last=True, commits={})
    await InternalTopicWriter(target, COMMITS).append([KeyedRecord(*whole.encode())])
    assert _offsets(await _ask(target, await _now())) == {group: {TopicPartition(topic, 0): 99}}


async def test_a_round_writes_what_has_changed_alone(
    clusters: Clusters, target: ClusterConnections, make_topic: TopicMaker
) -> None:
    """Nothing where nothing changed a moment ago, and one commit where one did."""
    topic, group = make_topic(clusters.a, 3), uuid.uuid4().hex[:6]
    commit(clusters.a, group, {(topic, number): 5 for number in range(3)})
    began = await _now()
    async with group_sync(clusters, group, history_problems=[]) as carrying:
        await carrying.round()
        await carrying.round()
        commit(clusters.a, group, {(topic, 1): 6})
        await carrying.round()
    _, records, _ = await InternalTopicReader(target, COMMITS, from_ms=began).read()
    found = [CommitRecord.decode(record.value) for record in records]
    assert [(record.kind, sum(map(len, record.commits.values()))) for record in found] == [
        ("snapshot", 3),
        ("changes", 1),
    ]


async def test_groups_go_on_without_a_history(
    clusters: Clusters, target: ClusterConnections, make_topic: TopicMaker
) -> None:
    """Its topic is missing: that is said, and rounds succeed; what happened meanwhile is told when it is there."""
    topic, group = make_topic(clusters.a), uuid.uuid4().hex[:6]
    commit(clusters.a, group, {(topic, 0): 5})
    problems: list[str] = []
    async with group_sync(clusters, group, history_problems=problems) as carrying:
        history = carrying._history
        assert history is not None
        history._writer = InternalTopicWriter(target, f"{COMMITS}.missing")
        await carrying.round()
        missed = await _now()
        assert len(problems) == 1
        assert "the history of commits can't be written, and is tried again" in problems[0]
        assert [status.group for status in carrying.statuses()] == [group]
        commit(clusters.a, group, {(topic, 0): 6})
        await carrying.round()
        assert len(problems) == 1
        history._writer, history._not_before_s = InternalTopicWriter(target, COMMITS), 0.0
        await carrying.round()
    assert _offsets(await _ask(target, missed)) == {group: {TopicPartition(topic, 0): 5}}
    assert _offsets(await _ask(target, await _now())) == {group: {TopicPartition(topic, 0): 6}}


async def test_offsets_are_told_with_the_topic_that_they_were_of(
    clusters: Clusters, target: ClusterConnections, make_topic: TopicMaker
) -> None:
    """One that was deleted and created anew: what was committed in the old one is not taken for the new one's."""
    topic, group = make_topic(clusters.a), uuid.uuid4().hex[:6]
    config = clusters.a.confluent_config()
    admin = AdminClient(dict(config))
    commit(clusters.a, group, {(topic, 0): 5})
    async with group_sync(clusters, group, history_problems=[]) as carrying:
        await carrying.round()
        then = await _now()
        await asyncio.to_thread(admin.delete_topics([topic])[topic].result, 30)

        async def gone() -> bool:
            await carrying.round()
            return not exists(config, topic) and not any(status.partitions for status in carrying.statuses())

        await wait_until_async(gone, 30, "the topic is gone, and what was committed there")
        create_topic(config, topic)
        commit(clusters.a, group, {(topic, 0): 7})
        await carrying.round()
    before, after = [(await _ask(target, at_ms))[group][TopicPartition(topic, 0)] for at_ms in (then, await _now())]
    assert (before.offset, after.offset) == (5, 7)
    assert len({before.topic_id, after.topic_id, NO_TOPIC_ID}) == 3


def _offsets(commits: Commits) -> dict[str, dict[TopicPartition, int]]:
    return {group: {p: committed.offset for p, committed in offsets.items()} for group, offsets in commits.items()}
