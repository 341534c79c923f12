"""Logs that lose what they had acknowledged: a broker is killed and the end of a partition's file cut off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import NamedTuple

import pytest

from mirror_ray.config.settings import MirrorSettings, TopicSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_reader import InternalTopicReader
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.errors import MirrorError
from mirror_ray.records.batch import iter_batches
from mirror_ray.state.schema import state_topic
from tests.support.clusters import Clusters, KafkaCluster, TopicMaker, cluster_settings
from tests.support.kafka import Message, append, delete_records, produce, sample_messages
from tests.support.lease_gate import LeaseGate
from tests.support.local import LocalSystem, aside
from tests.support.reading import Record, end_offsets, read_all
from tests.support.replicated import Replicated
from tests.support.systems import settings_of

pytestmark = pytest.mark.timeout(400)

#: Brokers forget producers whose records are a day old.
_OLD_MS = 2 * 86_400_000


def settings(pair: Clusters, source: str, policy: str, *topics: str, shared: Collection[str] = ()) -> MirrorSettings:
    """A flow of these topics, from the first cluster under this alias, that answers all faults by ``policy``.

    Nothing is merged: logs are cut off where the source's batches begin.
    """
    patterns = tuple(rf"{source}\.{topic}" for topic in shared)
    chosen = TopicSettings(include=topics, refresh_interval_s=0.5, shared_remote=patterns)
    clusters = {source: pair.a, "B": pair.b}
    return settings_of(clusters, f"{source}->B", topics=chosen, trouble={"policy": policy}, merge=False)


def fill(cluster: KafkaCluster, topic: str, first: int, last: int, age_ms: int = 0) -> None:
    """Write numbered records in batches of ten or less."""
    stamp_ms = int(time.time() * 1000) - age_ms
    for start in range(first, last, 10):
        messages = sample_messages(min(10, last - start), first=start)
        produce(cluster.confluent_config(), topic, [message._replace(timestamp_ms=stamp_ms) for message in messages])


def cut(cluster: DevCluster, ends: Mapping[str, int]) -> None:
    """Kill the broker, cut partition 0 of these topics off at their ends, where batches begin, and start it again."""
    (broker,) = cluster.brokers
    broker.kill()
    for topic, end in ends.items():
        path = broker.directory / "data" / f"{topic}-0" / "00000000000000000000.log"
        content = path.read_bytes()
        kept = [batch for batch in iter_batches(memoryview(bytearray(content))) if batch.base_offset < end]
        path.write_bytes(content[: sum(len(batch.view) for batch in kept)])
    broker.start()
    for topic, end in ends.items():
        assert end_offsets(cluster.confluent_config(), topic) == {0: end}


def held(cluster: DevCluster, topic: str) -> list[Record]:
    """Every record of partition 0."""
    return read_all(cluster.confluent_config(), topic)[0]


class Topics(NamedTuple):
    """By what is done about them. All are cut at one time: to start a broker costs more than all else here."""

    skip: str
    resync: str
    #: Others write into these remote topics, and the broker forgets the producer of the latter.
    shared_skip: str
    shared_resync: str
    #: Of a flow whose policy is ``resync``: its source has lost its beginning, too.
    begins_later: str
    #: Of that flow: it is cut again while the system is down.
    twice: str

    @property
    def by_hand(self) -> Mapping[str, str]:
        """How to resolve those that are not shared."""
        return {self.skip: "skip", self.resync: "resync"}

    @property
    def shared(self) -> Mapping[str, str]:
        """How to resolve those that are."""
        return {self.shared_skip: "skip", self.shared_resync: "resync"}


async def test_truncated_target(clusters: Clusters, fragile: DevCluster, make_topic: TopicMaker) -> None:
    """Skip goes on behind what is left; resync finds the place by what is left, and copies the lost ones again.

    While the system runs, and while it is down, in which time others write on in shared topics.
    """
    pair = Clusters(clusters.a, fragile)
    topics = Topics(*(make_topic(pair.a) for _ in Topics._fields))
    for topic in topics:
        fill(pair.a, topic, 0, 200, _OLD_MS if topic == topics.shared_resync else 0)
    asking = settings(pair, "A", "stop", *topics[:4], shared=topics.shared)
    resyncing = settings(pair, "R", "resync", *topics[4:])
    async with LocalSystem(asking) as asked, LocalSystem(resyncing) as by_policy:
        for topic in topics[:4]:
            await asked.caught_up(topic, 200)
        for topic in topics[4:]:
            await by_policy.caught_up(topic, 200, "R->B")
        await _cut_while_it_runs(pair, topics, asked, by_policy)
    lost = {f"A.{topic}": 150 for topic in topics.shared} | {f"R.{topics.twice}": 250}
    await aside(lambda: cut(pair.b, lost))
    for topic in topics.shared:
        await aside(lambda topic=topic: fill(pair.b, f"A.{topic}", 9000, 9100))  # type: ignore[misc]
        await aside(lambda topic=topic: fill(pair.a, topic, 200, 300))  # type: ignore[misc]
    async with LocalSystem(asking) as asked, LocalSystem(resyncing) as by_policy:
        await _cut_while_it_was_down(topics, asked, by_policy)
    await aside(lambda: _check(pair, topics))


async def _cut_while_it_runs(pair: Clusters, topics: Topics, asked: LocalSystem, by_policy: LocalSystem) -> None:
    lost = {**{f"A.{topic}": 150 for topic in topics.by_hand}, f"R.{topics.begins_later}": 150, f"R.{topics.twice}": 50}

    def lose() -> None:
        delete_records(pair.a.confluent_config(), topics.begins_later, 50)
        cut(pair.b, lost)
        for topic in (*topics.by_hand, *topics[4:]):
            fill(pair.a, topic, 200, 300)

    await aside(lose)
    for topic, answer in topics.by_hand.items():
        line = await asked.troubled(topic, "target_truncated")
        assert line.state == "stopped"
        await asked.coordinator.resolve("A->B", topic, 0, "skip" if answer == "skip" else "resync")
        await asked.caught_up(topic, 300)
        (gap,) = await asked.gaps(topic, 1)
        assert (gap.policy, gap.target_from, gap.target_to) == (answer, 150, 200)
    assert not any("emptied" in event.text for event in await asked.coordinator.events())
    for topic in topics[4:]:
        assert await by_policy.answers(topic) == [("target_truncated", "resync")]
        await by_policy.caught_up(topic, 300, "R->B")
    # The place of the other one can't be found from the first pair any more.
    (emptied,) = [event for event in await by_policy.coordinator.events() if "emptied" in event.text]
    assert topics.begins_later in f"{emptied.subject} {emptied.text}"
    assert await aside(lambda: held(pair.b, f"R.{topics.begins_later}") == held(pair.a, topics.begins_later))


async def _cut_while_it_was_down(topics: Topics, asked: LocalSystem, by_policy: LocalSystem) -> None:
    for topic, answer in topics.shared.items():
        line = await asked.troubled(topic, "target_truncated")
        reason = "is another log from offset 150 on" if topic == topics.shared_resync else "has lost 50 records"
        assert reason in (line.reason or "")
        await asked.coordinator.resolve("A->B", topic, 0, "skip" if answer == "skip" else "resync")
        await asked.caught_up(topic, 300)
        (gap,) = await asked.gaps(topic, 1)
        assert (gap.policy, gap.target_to - gap.target_from) == (answer, 50)
    assert set(await by_policy.answers(topics.twice, 2)) == {("target_truncated", "resync")}
    await by_policy.caught_up(topics.twice, 300, "R->B")
    assert not any("emptied" in event.text for event in await by_policy.coordinator.events())


def _check(pair: Clusters, topics: Topics) -> None:
    for topic, answer in {**topics.by_hand, **topics.shared}.items():
        everything = held(pair.a, topic)
        found = held(pair.b, f"A.{topic}")
        wanted = everything if answer == "resync" else [*everything[:150], *everything[200:]]
        assert [record for record in found if record in set(everything)] == wanted
        assert len(found) == len(wanted) + (100 if topic in topics.shared else 0)
    assert held(pair.b, f"R.{topics.twice}") == held(pair.a, topics.twice)


async def test_truncated_source(clusters: Clusters, fragile: DevCluster, make_topic: TopicMaker) -> None:
    """What was copied and is lost on the source stays on the target, or the target is made equal again."""
    pair = Clusters(fragile, clusters.b)
    skipped, copied_anew = topics = make_topic(pair.a), make_topic(pair.a)
    for topic in topics:
        fill(pair.a, topic, 0, 200)
    before = held(pair.a, skipped)
    skipping, resyncing = settings(pair, "S", "skip", skipped), settings(pair, "T", "resync", copied_anew)
    async with LocalSystem(skipping) as skips, LocalSystem(resyncing) as resyncs:
        await skips.caught_up(skipped, 200, "S->B")
        await resyncs.caught_up(copied_anew, 200, "T->B")
        await aside(lambda: cut(pair.a, dict.fromkeys(topics, 150)))
        for topic in topics:
            await aside(lambda topic=topic: fill(pair.a, topic, 500, 600))  # type: ignore[misc]
        (gap,) = await skips.gaps(skipped, 1)
        assert (gap.kind, gap.policy, gap.source_from, gap.source_to) == ("source_truncated", "skip", 150, 200)
        assert await resyncs.answers(copied_anew) == [("source_truncated", "resync")]
        await skips.caught_up(skipped, 250, "S->B")
        await resyncs.caught_up(copied_anew, 250, "T->B")
    after = await aside(lambda: held(pair.a, skipped))
    assert await aside(lambda: held(pair.b, f"S.{skipped}")) == [*before, *after[150:]]
    assert await aside(lambda: held(pair.b, f"T.{copied_anew}")) == await aside(lambda: held(pair.a, copied_anew))


async def test_topics_of_our_own_that_were_cut_and_filled_again(
    clusters: Clusters, fragile: DevCluster, make_topic: TopicMaker
) -> None:
    """A grant in the place of a lost record is seen, and a map forgets what its topic has lost."""
    pair = Clusters(clusters.a, fragile)
    topic, remote_config = make_topic(pair.a), pair.b.confluent_config()
    own = make_topic(pair.b, topic_config={"cleanup.policy": "compact"})
    # A key that readers of the state do not know: it only takes an offset.
    state, position = state_topic("A"), Message(b"{}", b"other")
    append(remote_config, own, [Message(b"kept", b"a")])
    append(remote_config, own, [Message(b"lost", b"b")])
    connected = ClusterConnections(cluster_settings("B", pair.b), "test")
    async with Replicated(pair.a, pair.b) as flow:
        flow.remote(topic)
        fill(pair.a, topic, 0, 100)
        (assignment,) = await flow.assignments([topic])
        end = append(remote_config, state, [position])
        append(remote_config, state, [position] * 2)
        reader, engine = InternalTopicReader(connected, own), await flow.engine()
        assert [record.value for record in (await reader.read()).records] == [b"kept", b"lost"]
        engine.assign([assignment])
        await engine.caught_up()
        gate = LeaseGate(engine)
        gate.shut()
        await aside(lambda: cut(pair.b, {state: end, own: 1}))
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
