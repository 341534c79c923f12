"""Truth changed under a running system, on real clusters: each kind of trouble stopped, skipped and copied anew."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from mirror_ray.config.settings import MirrorSettings, TopicSettings
from mirror_ray.coordinator.flow_state import FlowState
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.names import FlowName
from mirror_ray.verification.planner import VerifyRequest
from mirror_ray.verification.run import verify_flow
from tests.support.clusters import Clusters, TopicMaker
from tests.support.kafka import Message, create_topic, delete_records, produce, sample_messages
from tests.support.local import LocalSystem, aside
from tests.support.reading import Record, end_offsets, read_all
from tests.support.systems import settings_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

_TIMEOUT_S = 60.0


def settings(clusters: Clusters, topic: str, policy: str, **more: Any) -> MirrorSettings:
    """A flow of one topic that answers all troubles by ``policy``, and looks at its topics twice a second."""
    # What a remote topic refuses is set on it alone; the sync of configs would take it back.
    topics = TopicSettings(include=(topic,), refresh_interval_s=0.5, sync_configs_enabled=False)
    pair = {"A": clusters.a, "B": clusters.b}
    return settings_of(pair, "A->B", topics=topics, trouble={"policy": policy}, **more)


async def fill(cluster: DevCluster, topic: str, first: int, count: int) -> None:
    """Write numbered records into partition 0."""
    await aside(lambda: produce(cluster.confluent_config(), topic, sample_messages(count, first=first)))


async def held(cluster: DevCluster, topic: str) -> list[Record]:
    """Every record of partition 0."""
    return (await aside(lambda: read_all(cluster.confluent_config(), topic)))[0]


async def arrived(clusters: Clusters, topic: str, wanted: Sequence[Record]) -> None:
    """Assert that the remote topic holds these records, in this order, and no others."""
    found = await held(clusters.b, f"A.{topic}")
    assert len(found) == len(wanted)
    assert found == list(wanted)


async def cut_start(cluster: DevCluster, topic: str, before: int) -> None:
    """DeleteRecords of partition 0 below an offset."""
    await aside(lambda: delete_records(cluster.confluent_config(), topic, before))


async def remove(cluster: DevCluster, topic: str) -> None:
    """Delete the topic, and wait until it is gone."""

    def delete() -> None:
        admin = AdminClient(dict(cluster.confluent_config()))
        admin.delete_topics([topic])[topic].result(_TIMEOUT_S)
        wait_until(lambda: topic not in admin.list_topics(timeout=30).topics, _TIMEOUT_S, f"{topic} is gone")

    await aside(delete)


async def create(cluster: DevCluster, topic: str) -> None:
    """Create a topic of one partition."""
    await aside(lambda: create_topic(cluster.confluent_config(), topic))


async def test_removed_on_the_source(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Records that DeleteRecords took before they were copied stop the partition; skip goes on behind the gap."""
    topic = make_topic(clusters.a)
    await fill(clusters.a, topic, 0, 200)
    before = await held(clusters.a, topic)
    async with LocalSystem(settings(clusters, topic, "stop")) as system:
        await system.caught_up(topic, 200)
        await system.coordinator.pause("A->B", topic)
        await fill(clusters.a, topic, 200, 100)
        await cut_start(clusters.a, topic, 250)
        await system.coordinator.resume("A->B", topic)
        line = await system.troubled(topic, "source_removed")
        assert line.state == "stopped"
        assert f"resolve 'A->B' {topic}:0 --by skip" in (line.reason or "")
        await arrived(clusters, topic, before)
        await system.coordinator.resolve("A->B", topic, 0, "skip")
        await system.caught_up(topic, 300)
        (gap,) = await system.gaps(topic, 1)
        assert (gap.kind, gap.source_from, gap.source_to) == ("source_removed", 200, 250)
        await arrived(clusters, topic, before + await held(clusters.a, topic))


async def test_removed_on_the_source_while_the_system_was_down(clusters: Clusters, make_topic: TopicMaker) -> None:
    """By policy the next start goes on behind what is gone, records it, and tells it."""
    topic = make_topic(clusters.a)
    await fill(clusters.a, topic, 0, 200)
    before = await held(clusters.a, topic)
    async with LocalSystem(settings(clusters, topic, "skip")) as system:
        await system.caught_up(topic, 200)
    await fill(clusters.a, topic, 200, 100)
    await cut_start(clusters.a, topic, 250)
    async with LocalSystem(settings(clusters, topic, "skip")) as system:
        await system.caught_up(topic, 300)
        assert await system.answers(topic) == [("source_removed", "skip")]
        assert any("source_removed" in event.text for event in await system.coordinator.events())
    await arrived(clusters, topic, before + await held(clusters.a, topic))


@pytest.mark.parametrize("policy", ["skip", "resync"])
async def test_recreated_source(clusters: Clusters, make_topic: TopicMaker, policy: str) -> None:
    """Skip copies the new topic behind the old one's records, resync in their place."""
    topic = make_topic(clusters.a)
    await fill(clusters.a, topic, 0, 200)
    before = await held(clusters.a, topic)
    async with LocalSystem(settings(clusters, topic, policy)) as system:
        await system.caught_up(topic, 200)
        await remove(clusters.a, topic)
        await create(clusters.a, topic)
        await fill(clusters.a, topic, 500, 50)
        assert await system.answers(topic) == [("source_recreated", policy)]
        await system.caught_up(topic, 50)
    await arrived(clusters, topic, (before if policy == "skip" else []) + await held(clusters.a, topic))


@pytest.mark.parametrize("answer", ["skip", "resync"])
async def test_deleted_remote_topic(clusters: Clusters, make_topic: TopicMaker, answer: str) -> None:
    """The topic is refused and not made again by itself; answered, it gets what is new, or everything."""
    topic = make_topic(clusters.a)
    await fill(clusters.a, topic, 0, 200)
    async with LocalSystem(settings(clusters, topic, "stop")) as system:
        await system.caught_up(topic, 200)
        await remove(clusters.b, f"A.{topic}")
        line = await system.troubled(topic, "target_missing")
        assert line.state == "refused"
        await fill(clusters.a, topic, 200, 50)
        await system.coordinator.resolve("A->B", topic, None, "skip" if answer == "skip" else "resync")
        await system.caught_up(topic, 250)
        assert await system.answers(topic) == [("target_missing", answer)]
    everything = await held(clusters.a, topic)
    await arrived(clusters, topic, everything[200:] if answer == "skip" else everything)


async def test_remote_topic_that_was_created_again(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Empty it is filled anew by policy; with somebody's records in it, it is never written to."""
    topic = make_topic(clusters.a)
    await fill(clusters.a, topic, 0, 100)
    async with LocalSystem(settings(clusters, topic, "resync")) as system:
        await system.caught_up(topic, 100)
    await remove(clusters.b, f"A.{topic}")
    await create(clusters.b, f"A.{topic}")
    async with LocalSystem(settings(clusters, topic, "resync")) as system:
        await system.caught_up(topic, 100)
        assert await system.answers(topic) == [("target_recreated", "resync")]
        await arrived(clusters, topic, await held(clusters.a, topic))
    await remove(clusters.b, f"A.{topic}")
    await create(clusters.b, f"A.{topic}")
    await fill(clusters.b, f"A.{topic}", 900, 10)
    foreign = await held(clusters.b, f"A.{topic}")
    async with LocalSystem(settings(clusters, topic, "resync")) as system:
        line = await system.troubled(topic, "target_recreated")
        assert line.state in ("refused", "stopped")

        async def told() -> bool:
            (status,) = await system.coordinator.topics("A->B")
            return "nothing accounts for" in (status.reason or "")

        await system.wait(told, "declined")
        await arrived(clusters, topic, foreign)


async def test_emptied_remote_topic_is_no_trouble(clusters: Clusters, make_topic: TopicMaker) -> None:
    """DeleteRecords on the target moves its start, and nothing else: the copy goes on, also after a restart."""
    topic = make_topic(clusters.a)
    await fill(clusters.a, topic, 0, 100)
    for first in (100, 200):
        async with LocalSystem(settings(clusters, topic, "stop")) as system:
            await system.caught_up(topic, first)
            await cut_start(clusters.b, f"A.{topic}", first)
            await fill(clusters.a, topic, first, 100)
            await system.caught_up(topic, first + 100)
            await arrived(clusters, topic, (await held(clusters.a, topic))[first:])
            assert await system.gaps(topic, 0) == []


@pytest.mark.parametrize("answer", ["skip", "resync"])
async def test_foreign_writer(clusters: Clusters, make_topic: TopicMaker, answer: str) -> None:
    """Somebody else's records stop the partition; skip leaves them where they are, resync copies all anew.

    Others that come later stop it again.
    """
    topic = make_topic(clusters.a)
    await fill(clusters.a, topic, 0, 100)
    async with LocalSystem(settings(clusters, topic, "stop")) as system:
        await system.caught_up(topic, 100)
        await fill(clusters.b, f"A.{topic}", 900, 10)
        await fill(clusters.a, topic, 100, 100)
        line = await system.troubled(topic, "target_foreign")
        assert line.state == "stopped"
        await system.coordinator.resolve("A->B", topic, 0, "skip" if answer == "skip" else "resync")
        await system.caught_up(topic, 200)
        await fill(clusters.a, topic, 200, 100)
        await system.caught_up(topic, 300)
    async with LocalSystem(settings(clusters, topic, "stop")) as system:
        await fill(clusters.a, topic, 300, 100)
        await system.caught_up(topic, 400)
        assert await system.answers(topic) == [("target_foreign", answer)]
        everything, found = await held(clusters.a, topic), await held(clusters.b, f"A.{topic}")
        await fill(clusters.b, f"A.{topic}", 950, 1)
        await fill(clusters.a, topic, 400, 1)
        await system.troubled(topic, "target_foreign")
    ours = set(everything)
    assert [record for record in found if record in ours] == everything
    assert len(found) == len(everything) + (10 if answer == "skip" else 0)


async def test_shared_remote_topic(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Declared as shared, others write before, between and after; ours arrive once and in order, over restarts.

    Verification looks at ours alone.
    """
    topic = make_topic(clusters.a)
    remote = f"A.{topic}"
    await create(clusters.b, remote)
    await fill(clusters.b, remote, 9000, 30)
    topics = TopicSettings(include=(topic,), refresh_interval_s=0.5, shared_remote=(remote.replace(".", r"\."),))
    shared = settings_of({"A": clusters.a, "B": clusters.b}, "A->B", topics=topics)
    for turn in range(3):
        await fill(clusters.a, topic, 200 * turn, 100)
        async with LocalSystem(shared) as system:
            await system.caught_up(topic, 200 * turn + 100)
            await fill(clusters.b, remote, 9100 + 100 * turn, 30)
            await fill(clusters.a, topic, 200 * turn + 100, 100)
            await system.caught_up(topic, 200 * turn + 200)
            assert await system.gaps(topic, 0) == []
        await fill(clusters.b, remote, 9500 + 100 * turn, 30)
    everything, found = await held(clusters.a, topic), await held(clusters.b, remote)
    ours = set(everything)
    assert [record for record in found if record in ours] == everything
    assert len(found) == len(everything) + 30 * 7
    report = await verify_flow(shared, FlowName("A", "B"), VerifyRequest(topics=(topic,), range_offsets=40))
    (found_equal,) = report.partitions
    checked = found_equal.checked
    assert (found_equal.outcome, checked.records, checked.target_records) == ("equal", 600, 600), report.plain()


def _too_large() -> Message:
    return Message(b"x" * 50_000, b"key")


def _without_key() -> Message:
    return Message(b"no key")


def _from_the_future() -> Message:
    return Message(b"late", b"key", timestamp_ms=int(time.time() * 1000) + 7 * 86_400_000)


@pytest.mark.parametrize(
    ("bad", "config"),
    [
        (_too_large, {"max.message.bytes": "20000"}),
        (_without_key, {"cleanup.policy": "compact"}),
        (_from_the_future, {"message.timestamp.after.max.ms": "3600000"}),
    ],
    ids=["too-large", "no-key-into-compacted", "timestamp-in-the-future"],
)
async def test_record_that_the_target_refuses(
    clusters: Clusters, make_topic: TopicMaker, bad: Callable[[], Message], config: dict[str, str]
) -> None:
    """The partition stops at the record, nothing behind it arrives, and skip leaves out this record alone."""
    topic = make_topic(clusters.a, topic_config={"message.timestamp.after.max.ms": "9223372036854775807"})
    await aside(lambda: create_topic(clusters.b.confluent_config(), f"A.{topic}", topic_config=config))
    good = [Message(f"{number}".encode(), f"key-{number}".encode()) for number in range(60)]
    async with LocalSystem(settings(clusters, topic, "stop")) as system:
        await aside(lambda: produce(clusters.a.confluent_config(), topic, [*good[:30], bad(), *good[30:]]))
        line = await system.troubled(topic, "record_refused")
        assert "at offset 30" in (line.reason or "")
        everything = await held(clusters.a, topic)
        # Those of the same batch wait for the answer too, where the batch must be taken apart before it is sent.
        before = await held(clusters.b, f"A.{topic}")
        assert before == everything[: len(before)]
        with pytest.raises(ConfigError, match="refuse the record again"):
            await system.coordinator.resolve("A->B", topic, 0, "resync")
        await system.coordinator.resolve("A->B", topic, 0, "skip")
        await system.caught_up(topic, 61)
        (gap,) = await system.gaps(topic, 1)
        assert (gap.source_from, gap.source_to) == (30, 31)
    async with LocalSystem(settings(clusters, topic, "stop")) as system:
        await system.caught_up(topic, 61)
    await arrived(clusters, topic, everything[:30] + everything[31:])


async def test_a_record_left_out_is_passed_over_after_a_crash(
    clusters: Clusters, make_topic: TopicMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever knows the pair before the record alone finds what was copied behind it, and copies none of it again."""
    topic = make_topic(clusters.a)
    remote = f"A.{topic}"
    create_topic(clusters.b.confluent_config(), remote, topic_config={"max.message.bytes": "20000"})
    messages = [Message(f"{number}".encode(), f"key-{number}".encode()) for number in range(60)]
    produce(clusters.a.confluent_config(), topic, [*messages[:30], _too_large(), *messages[30:]])
    everything = await held(clusters.a, topic)
    async with LocalSystem(settings(clusters, topic, "stop")) as system:
        await system.troubled(topic, "record_refused")
        monkeypatch.setattr(FlowState, "flush", _nothing)
        await system.coordinator.resolve("A->B", topic, 0, "skip")
        await system.caught_up(topic, 61)
    monkeypatch.undo()
    async with LocalSystem(settings(clusters, topic, "stop")) as system:
        await system.caught_up(topic, 61)
    await arrived(clusters, topic, [*everything[:30], *everything[31:]])


async def _nothing(_ledger: FlowState) -> None:
    """Persists nothing, as whoever is killed before."""


async def test_at_least_once_copies_without_a_producer(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Nothing is lost, order is kept, and a drained restart doubles nothing; back to exactly once it goes on."""
    topic = make_topic(clusters.a)
    loosely = settings(clusters, topic, "stop", produce={"delivery_guarantee": "at_least_once"})
    for turn, chosen in enumerate((loosely, loosely, settings(clusters, topic, "stop"), loosely)):
        await fill(clusters.a, topic, 100 * turn, 100)
        async with LocalSystem(chosen) as system:
            await system.caught_up(topic, 100 * (turn + 1))
            assert await system.gaps(topic, 0) == []
    await arrived(clusters, topic, await held(clusters.a, topic))
    assert (await aside(lambda: end_offsets(clusters.b.confluent_config(), f"A.{topic}"))) == {0: 400}
