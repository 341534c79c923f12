"""A flow that preserves offsets, as a whole system: where it begins, its groups, its faults, its restarts."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from mirror_ray.config.settings import MirrorSettings, OffsetSettings, TopicSettings
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.topic_editor import ClusterEditor
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition
from tests.support.clusters import Clusters, TopicMaker, cluster_settings
from tests.support.groups import commit, committed
from tests.support.kafka import (
    Message,
    alter_topic,
    delete_records,
    delete_topic,
    produce,
    produce_transactions,
    sample_messages,
)
from tests.support.local import LocalSystem, aside
from tests.support.prefixes import begin_at
from tests.support.reading import end_offsets, read_placed
from tests.support.systems import settings_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)


def settings(clusters: Clusters, topic: str) -> MirrorSettings:
    """A flow of one topic whose offsets are preserved."""
    topics = TopicSettings(include=(topic,), refresh_interval_s=0.5)
    offsets = OffsetSettings(mode="preserve")
    return settings_of({"A": clusters.a, "B": clusters.b}, "A->B", topics=topics, offsets=offsets)


async def fill(clusters: Clusters, topic: str, first: int) -> None:
    """Write transactions of ten records, two in five of them aborted, and a record without one."""
    config = clusters.a.confluent_config()
    transactions = [(sample_messages(10, first=first + 10 * n), n % 5 not in (1, 2)) for n in range(10)]
    await aside(lambda: produce_transactions(config, topic, transactions, transactional_id=f"{topic}-{first}"))
    await aside(lambda: produce(config, topic, sample_messages(1)))


async def same(clusters: Clusters, system: LocalSystem, topic: str) -> None:
    """Wait until both logs end alike, and compare every record with its offset."""
    source, target = clusters.a.confluent_config(), clusters.b.confluent_config()
    end = await aside(lambda: end_offsets(source, topic)[0])
    await system.caught_up(topic, end)
    await aside(lambda: wait_until(lambda: end_offsets(target, f"A.{topic}") == {0: end}, 20, "the same end"))
    assert await aside(lambda: read_placed(target, f"A.{topic}")) == await aside(lambda: read_placed(source, topic))


async def test_it_begins_where_the_source_does_and_goes_on_after_restarts(
    clusters: Clusters, make_topic: TopicMaker
) -> None:
    """Also a partition that is added, whose log begins elsewhere; groups have the offsets that they have committed."""
    topic = make_topic(clusters.a)
    group, remote = f"{topic}-group", f"A.{topic}"
    await fill(clusters, topic, 0)
    await aside(lambda: delete_records(clusters.a.confluent_config(), topic, 50))
    wanted = settings(clusters, topic)
    async with LocalSystem(wanted, groups=True) as system:
        await same(clusters, system, topic)
        placed = await aside(lambda: read_placed(clusters.b.confluent_config(), remote))
        assert placed[0][0][0] >= 50
        # A record, a marker, and the end: where translation would move the second one.
        marker = next(offset for offset in range(60, 90) if offset not in dict(placed[0]))
        end = await aside(lambda: end_offsets(clusters.a.confluent_config(), topic)[0])
        for offset in (placed[0][3][0], marker, end):
            await aside(partial(commit, clusters.a, group, {(topic, 0): offset}))
            await aside(partial(_until_committed, clusters, group, remote, offset))
    await fill(clusters, topic, 200)
    async with LocalSystem(wanted) as system:
        await same(clusters, system, topic)


async def test_a_remote_topic_that_was_deleted_is_made_anew(clusters: Clusters, make_topic: TopicMaker) -> None:
    """At the source's offsets again; skip is refused, for it would go on at other ones."""
    topic = make_topic(clusters.a)
    await fill(clusters, topic, 0)
    async with LocalSystem(settings(clusters, topic)) as system:
        await same(clusters, system, topic)
        await aside(lambda: delete_records(clusters.a.confluent_config(), topic, 30))
        await aside(lambda: delete_topic(clusters.b.confluent_config(), f"A.{topic}"))
        line = await system.troubled(topic, "target_missing")
        assert "resync" in (line.reason or "")
        assert "skip" not in (line.reason or "").partition("Decide by")[2]
        await system.coordinator.resolve("A->B", topic, None, "resync")
        await same(clusters, system, topic)


async def test_records_that_retention_took_first_are_a_gap(clusters: Clusters, make_topic: TopicMaker) -> None:
    """By the policy to skip them: what follows has its offsets all the same."""
    topic = make_topic(clusters.a)
    await fill(clusters, topic, 0)
    async with LocalSystem(settings(clusters, topic)) as system:
        await same(clusters, system, topic)
        await system.coordinator.pause("A->B", topic, None)
        await fill(clusters, topic, 100)
        await aside(lambda: delete_records(clusters.a.confluent_config(), topic, 200))
        await system.coordinator.resume("A->B", topic, None)
        await system.troubled(topic, "source_removed")
        await system.coordinator.resolve("A->B", topic, None, "skip")
        end = await aside(lambda: end_offsets(clusters.a.confluent_config(), topic)[0])
        await system.caught_up(topic, end)
        source = await aside(lambda: read_placed(clusters.a.confluent_config(), topic)[0])
        target = await aside(lambda: read_placed(clusters.b.confluent_config(), f"A.{topic}")[0])
        assert [pair for pair in target if pair[0] >= 200] == source


def _until_committed(clusters: Clusters, group: str, remote: str, offset: int) -> None:
    wait_until(lambda: committed(clusters.b, group, remote, 1) == {0: offset}, 20, f"the group is at {offset}")


async def test_nothing_expires_in_a_compacted_topic_while_its_prefix_is_deleted(
    clusters: Clusters, make_topic: TopicMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its configs are as they were afterwards; whoever dies in between leaves one that loses no record."""
    topic = make_topic(clusters.a)
    remote, config = f"A.{topic}", clusters.a.confluent_config()
    await begin_at(clusters.a, TopicPartition(topic, 0), 1_000)
    await aside(lambda: alter_topic(config, topic, {"cleanup.policy": "compact"}))
    await aside(lambda: produce(config, topic, [Message(b"%d" % n, b"key %d" % n) for n in range(50)]))
    found: list[dict[str, str | None]] = []
    delete = ClusterEditor.delete_records

    def own_configs(editor: ClusterAdmin) -> dict[str, str | None]:
        configs = editor.try_describe_topic_configs([remote])[remote]
        assert not isinstance(configs, MirrorError)
        return {key: each.value for key, each in configs.items() if each.source == "DYNAMIC_TOPIC_CONFIG"}

    def watched(editor: ClusterEditor, *arguments: Any) -> None:
        before = own_configs(editor)
        delete(editor, *arguments)
        found.extend((before, own_configs(editor)))

    monkeypatch.setattr(ClusterEditor, "delete_records", watched)
    async with LocalSystem(settings(clusters, topic)) as system:
        await same(clusters, system, topic)
    deletes = {"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "-1"}
    assert found
    assert all(each.items() >= deletes.items() for each in found)
    own = own_configs(ClusterAdmin(cluster_settings("B", clusters.b), "test"))
    assert own["cleanup.policy"] == "compact"
    assert not own.keys() & {"retention.ms", "retention.bytes"}
