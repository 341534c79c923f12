"""Logs that lose what they had acknowledged: a broker is killed and the end of a partition's file cut off."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator

import pytest

from mirror_ray.config.settings import MirrorSettings, TopicSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_reader import InternalTopicReader
from mirror_ray.lab.devcluster import QUICK_START, DevCluster
from mirror_ray.lab.devcluster.clusters import start_all
from mirror_ray.model.errors import MirrorError
from mirror_ray.state.schema import state_topic
from tests.support.clusters import Clusters, KafkaCluster, TopicMaker, cluster_settings
from tests.support.kafka import Message, append, delete_records, produce, sample_messages
from tests.support.lease_gate import LeaseGate
from tests.support.local import LocalSystem, aside
from tests.support.reading import Record, end_offsets, read_all
from tests.support.replicated import Replicated
from tests.support.systems import settings_of

pytestmark = pytest.mark.timeout(400)

_HEAD = struct.Struct(">qi")


@pytest.fixture(scope="module")
def mortal() -> Iterator[Clusters]:
    """Two clusters of these tests' own."""
    pair = Clusters(DevCluster("A", jvm_options=QUICK_START), DevCluster("B", jvm_options=QUICK_START))
    try:
        start_all(pair)
        yield pair
    finally:
        for cluster in pair:
            cluster.close()


def settings(clusters: Clusters, topic: str, policy: str) -> MirrorSettings:
    """A flow of one topic that answers all troubles by ``policy``."""
    topics = TopicSettings(include=(topic,), refresh_interval_s=0.5)
    return settings_of({"A": clusters.a, "B": clusters.b}, "A->B", topics=topics, trouble={"policy": policy})


def fill(cluster: KafkaCluster, topic: str, first: int, last: int) -> None:
    """Write numbered records in batches of ten or less."""
    for start in range(first, last, 10):
        produce(cluster.confluent_config(), topic, sample_messages(min(10, last - start), first=start))


def cut(cluster: DevCluster, topic: str, end: int, **more: int) -> None:
    """Kill the broker, cut partition 0 off at ``end`` (a batch begins there), and start the broker again.

    ``more``: ends of other topics that are cut off, too.
    """
    (broker,) = cluster.brokers
    broker.kill()
    ends = {topic: end, **more}
    for name, last in ends.items():
        path = broker.directory / "data" / f"{name}-0" / "00000000000000000000.log"
        data, at = path.read_bytes(), 0
        while at < len(data):
            base, length = _HEAD.unpack_from(data, at)
            if base >= last:
                break
            at += _HEAD.size + length
        path.write_bytes(data[:at])
    broker.start()
    for name, last in ends.items():
        assert end_offsets(cluster.confluent_config(), name) == {0: last}


def held(cluster: DevCluster, topic: str) -> list[Record]:
    """Every record of partition 0."""
    return read_all(cluster.confluent_config(), topic)[0]


@pytest.mark.parametrize("policy", ["skip", "resync"])
async def test_truncated_target(mortal: Clusters, make_topic: TopicMaker, policy: str) -> None:
    """Skip goes on behind what is left; resync finds the place by what is left, and copies the lost ones again."""
    topic = make_topic(mortal.a)
    fill(mortal.a, topic, 0, 200)
    async with LocalSystem(settings(mortal, topic, "stop")) as system:
        await system.caught_up(topic, 200)
        await aside(lambda: cut(mortal.b, f"A.{topic}", 150))
        await aside(lambda: fill(mortal.a, topic, 200, 300))
        line = await system.troubled(topic, "target_truncated")
        assert line.state == "stopped"
        await system.coordinator.resolve("A->B", topic, 0, "skip" if policy == "skip" else "resync")
        await system.caught_up(topic, 300)
        (gap,) = await system.gaps(topic, 1)
        assert (gap.policy, gap.target_from, gap.target_to) == (policy, 150, 200)
        assert not any("emptied" in event.text for event in await system.coordinator.events())
    everything = await aside(lambda: held(mortal.a, topic))
    wanted = everything if policy == "resync" else [*everything[:150], *everything[200:]]
    assert await aside(lambda: held(mortal.b, f"A.{topic}")) == wanted


@pytest.mark.parametrize("policy", ["skip", "resync"])
async def test_truncated_shared_target(mortal: Clusters, make_topic: TopicMaker, policy: str) -> None:
    """Others have written on before the system comes up: it is told, and resync copies the lost ones again."""
    topic = make_topic(mortal.a)
    remote = f"A.{topic}"
    topics = TopicSettings(include=(topic,), refresh_interval_s=0.5, shared_remote=(remote.replace(".", r"\."),))
    shared = settings_of({"A": mortal.a, "B": mortal.b}, "A->B", topics=topics)
    fill(mortal.a, topic, 0, 200)
    async with LocalSystem(shared) as system:
        await system.caught_up(topic, 200)
    await aside(lambda: cut(mortal.b, remote, 150))
    await aside(lambda: fill(mortal.b, remote, 9000, 9100))
    await aside(lambda: fill(mortal.a, topic, 200, 300))
    async with LocalSystem(shared) as system:
        line = await system.troubled(topic, "target_truncated")
        assert "has lost 50 records" in (line.reason or "")
        await system.coordinator.resolve("A->B", topic, 0, "skip" if policy == "skip" else "resync")
        await system.caught_up(topic, 300)
        (gap,) = await system.gaps(topic, 1)
        assert (gap.policy, gap.target_to - gap.target_from) == (policy, 50)
    everything = await aside(lambda: held(mortal.a, topic))
    found = await aside(lambda: held(mortal.b, remote))
    wanted = everything if policy == "resync" else [*everything[:150], *everything[200:]]
    assert [record for record in found if record in set(everything)] == wanted
    assert len(found) == len(wanted) + 100


async def test_truncated_target_whose_beginning_the_source_has_lost(mortal: Clusters, make_topic: TopicMaker) -> None:
    """The place can't be found from the first pair any more: resync empties the target, and copies what there is."""
    topic = make_topic(mortal.a)
    fill(mortal.a, topic, 0, 200)
    async with LocalSystem(settings(mortal, topic, "resync")) as system:
        await system.caught_up(topic, 200)

        def both() -> None:
            delete_records(mortal.a.confluent_config(), topic, 50)
            cut(mortal.b, f"A.{topic}", 150)

        await aside(both)
        await aside(lambda: fill(mortal.a, topic, 200, 300))
        assert await system.answers(topic) == [("target_truncated", "resync")]
        await system.caught_up(topic, 300)
        assert any("emptied" in event.text for event in await system.coordinator.events())
    assert await aside(lambda: held(mortal.b, f"A.{topic}")) == await aside(lambda: held(mortal.a, topic))


@pytest.mark.parametrize("policy", ["skip", "resync"])
async def test_truncated_source(mortal: Clusters, make_topic: TopicMaker, policy: str) -> None:
    """What was copied and is lost on the source stays on the target, or the target is made equal again."""
    topic = make_topic(mortal.a)
    fill(mortal.a, topic, 0, 200)
    before = held(mortal.a, topic)
    async with LocalSystem(settings(mortal, topic, policy)) as system:
        await system.caught_up(topic, 200)
        await aside(lambda: cut(mortal.a, topic, 150))
        await aside(lambda: fill(mortal.a, topic, 500, 600))
        assert await system.answers(topic) == [("source_truncated", policy)]
        await system.caught_up(topic, 250)
    after = await aside(lambda: held(mortal.a, topic))
    wanted = after if policy == "resync" else [*before, *after[150:]]
    assert await aside(lambda: held(mortal.b, f"A.{topic}")) == wanted


async def test_recount_after_a_crash(mortal: Clusters, make_topic: TopicMaker) -> None:
    """A target cut twice finds its place twice; in the end every record is there once."""
    topic = make_topic(mortal.a)
    fill(mortal.a, topic, 0, 100)
    async with LocalSystem(settings(mortal, topic, "resync")) as system:
        await system.caught_up(topic, 100)
        for turn, end in enumerate((50, 120)):
            await aside(lambda end=end: cut(mortal.b, f"A.{topic}", end))  # type: ignore[misc]
            await aside(lambda turn=turn: fill(mortal.a, topic, 100 * (turn + 1), 100 * (turn + 2)))  # type: ignore[misc]
            await system.caught_up(topic, 100 * (turn + 2))
        assert set(await system.answers(topic, 2)) == {("target_truncated", "resync")}
        assert not any("emptied" in event.text for event in await system.coordinator.events())
    assert await aside(lambda: held(mortal.b, f"A.{topic}")) == await aside(lambda: held(mortal.a, topic))


async def test_topics_of_our_own_that_were_cut_and_filled_again(mortal: Clusters, make_topic: TopicMaker) -> None:
    """A grant in the place of a lost record is seen, and a map forgets what its topic has lost."""
    topic, remote_config = make_topic(mortal.a), mortal.b.confluent_config()
    own = make_topic(mortal.b, topic_config={"cleanup.policy": "compact"})
    # A key that readers of the state do not know: it only takes an offset.
    state, position = state_topic("A"), Message(b"{}", b"other")
    append(remote_config, own, [Message(b"kept", b"a")])
    append(remote_config, own, [Message(b"lost", b"b")])
    connected = ClusterConnections(cluster_settings("B", mortal.b), "test")
    async with Replicated(mortal.a, mortal.b) as flow:
        flow.remote(topic)
        fill(mortal.a, topic, 0, 100)
        (assignment,) = await flow.assignments([topic])
        end = append(remote_config, state, [position])
        append(remote_config, state, [position] * 2)
        reader, engine = InternalTopicReader(connected, own), await flow.engine()
        assert [record.value for record in (await reader.read()).records] == [b"kept", b"lost"]
        engine.assign([assignment])
        await engine.caught_up()
        gate = LeaseGate(engine)
        gate.shut()
        await aside(lambda: cut(mortal.b, state, end, **{own: 1}))
        await flow.assignments([topic])
        append(remote_config, state, [position] * 5)
        append(remote_config, own, [Message(b"new", b"c"), Message(b"new", b"d")])
        gate.open()
        await engine.until(lambda: engine.given_up, 20, "given up")
        assert engine.given_up == [(assignment.partition, assignment.epoch)]
        assert (await _read_anew(reader)) == [b"kept", b"new", b"new"]
    await connected.close()


async def _read_anew(reader: InternalTopicReader) -> list[bytes | None]:
    """What counts, of a log that was read before."""
    values, anew, complete = list[bytes | None](), False, False
    while not complete:
        try:
            chunk = await reader.read()
        except (OSError, MirrorError):
            await asyncio.sleep(0.1)
            continue
        anew, complete = anew or chunk.restarted, chunk.complete
        values += [record.value for record in chunk.records]
    assert anew
    return values
