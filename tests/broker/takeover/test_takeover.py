"""Takeover and handback on real brokers: what is refused, what is said, and what becomes of groups."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from mirror_ray.config.settings import (
    ClusterSettings,
    FlowSettings,
    GroupSettings,
    HeartbeatSettings,
    MirrorSettings,
    TopicSettings,
)
from mirror_ray.model.errors import ConfigError, NotReadyError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.takeover.decisions import TakeoverDecision
from mirror_ray.takeover.flow_session import FlowSession
from mirror_ray.takeover.mm2_activity import Mm2Topics, which_mm2
from mirror_ray.takeover.mm2_liveness import Mm2Activity
from mirror_ray.takeover.mm2_progress import NOTHING_ALIKE
from mirror_ray.takeover.takeover import TakeoverResult
from mirror_ray.verification.planner import VerifyRequest
from mirror_ray.verification.run import verify_flow
from tests.support.clusters import Clusters
from tests.support.groups import commit, committed
from tests.support.kafka import Message, create_topic, delete_topic, produce, produce_transactions
from tests.support.local import LocalSystem
from tests.support.mm2_copy import Mm2Copy
from tests.support.reading import assert_equal_copies, end_offsets, read_all, read_placed
from tests.support.unrecorded import hand_back, take_over
from tests.support.waiting import wait_until


class Scene:
    """A flow under an alias of its own, and an MM2 that is not there any more."""

    def __init__(self, clusters: Clusters) -> None:
        self.mark = uuid.uuid4().hex[:6]
        self.alias = f"S{self.mark}"
        self.flow = FlowName(self.alias, "B")
        self.clusters = clusters
        self.source, self.target = clusters.a.confluent_config(), clusters.b.confluent_config()
        self.mm2 = Mm2Copy(self.source, self.target, self.alias)
        self.which = which_mm2(self.flow, None, None, None)
        self.settings = MirrorSettings(
            clusters={
                alias: ClusterSettings(alias=alias, bootstrap_servers=(cluster.bootstrap,))
                for alias, cluster in ((self.alias, clusters.a), ("B", clusters.b))
            },
            flows=(
                FlowSettings(
                    name=self.flow,
                    enabled=True,
                    topics=TopicSettings(include=(f".*-{self.mark}",), refresh_interval_s=1.0),
                    groups=GroupSettings(
                        emit_checkpoints_interval_s=0.2, sync_offsets_interval_s=0.2, refresh_interval_s=0.2
                    ),
                    heartbeats=HeartbeatSettings(replication_enabled=False, emit_enabled=False),
                ),
            ),
        )

    def topic(self, kind: str, count: int = 100, partitions: int = 1, **fixed: bytes) -> str:
        """A topic with so many records in each partition, all different unless ``value`` is given."""
        name = create_topic(self.source, f"{kind}-{self.mark}", partitions)
        self.write(name, range(count), partitions, **fixed)
        return name

    def write(self, topic: str, numbers: range, partitions: int = 1, **fixed: bytes) -> None:
        """More of them."""
        value = fixed.get("value")
        time_ms = 1_700_000_000_000 if value is not None else 0
        produce(
            self.source,
            topic,
            [
                Message(value or b"%d" % number, b"key", partition=partition, timestamp_ms=time_ms)
                for number in numbers
                for partition in range(partitions)
            ],
        )

    async def take_over(self, *, dry: bool = False, force: bool = False) -> TakeoverResult:
        """The command."""
        return await take_over(self.settings, self.flow, self.which, quiet_s=0.2, dry=dry, force=force)

    async def rows(self) -> Mapping[TopicPartition, TakeoverDecision]:
        """What the command would do."""
        return {row.source: row for row in (await self.take_over(dry=True)).rows}


@pytest.fixture
def scene(clusters: Clusters) -> Scene:
    """A new flow."""
    return Scene(clusters)


async def test_each_topic_by_itself(scene: Scene) -> None:
    """Behind its note, before its first note, created anew, all alike, unknown, not selected: one refuses no other."""
    mm2 = scene.mm2
    behind, fresh, anew, alike, strange = (
        scene.topic("behind", partitions=2),
        scene.topic("fresh"),
        scene.topic("anew"),
        scene.topic("alike", value=b"x"),
        scene.topic("strange"),
    )
    mm2.copy(behind, {0: 80, 1: 60})
    mm2.note(behind, {0: 49, 1: 59})
    mm2.copy(fresh, {0: 30})
    mm2.copy(anew, {0: 30})
    mm2.note(anew, {0: 200})
    mm2.copy(alike, {0: 80})
    mm2.note(alike, {0: 49})
    produce(scene.target, create_topic(scene.target, mm2.remote(strange)), [Message(b"who knows")])
    mm2.note("elsewhere", {0: 5})
    assert (await scene.rows())[TopicPartition(alike, 0)].outcome == "refused"
    taken = await scene.take_over(force=True)
    rows = {row.source: row for row in taken.rows}
    assert not taken.ok
    assert taken.others == ("elsewhere",)
    both = [rows[TopicPartition(behind, number)] for number in (0, 1)]
    assert [(row.begin, row.found, row.doubtful) for row in both] == [(80, 30, 0), (60, 0, 0)]
    assert (rows[TopicPartition(fresh, 0)].outcome, rows[TopicPartition(fresh, 0)].begin) == ("taken", 30)
    assert (rows[TopicPartition(alike, 0)].begin, rows[TopicPartition(alike, 0)].doubtful) == (50, 50)
    assert rows[TopicPartition(alike, 0)].lost == 50
    assert NOTHING_ALIKE in rows[TopicPartition(alike, 0)].remarks[1]
    assert rows[TopicPartition(anew, 0)].outcome == rows[TopicPartition(strange, 0)].outcome == "refused"
    async with LocalSystem(scene.settings) as system:
        for topic, position in ((behind, 100), (fresh, 100), (alike, 100)):
            await system.caught_up(topic, position, str(scene.flow))
        refused = {status.topic for status in await system.coordinator.topics() if status.state == "refused"}
    assert refused == {anew, strange}
    for topic in (behind, fresh):
        assert_equal_copies(scene.source, scene.target, topic, mm2.remote(topic))
    assert len(read_all(scene.target, mm2.remote(alike))[0]) == 130


async def test_a_topic_created_anew_that_outgrew_the_note(scene: Scene) -> None:
    """MM2's note is of the topic before it: nothing is taken over, and with the remote topic gone all is copied."""
    topic = scene.topic("anew", 60)
    scene.mm2.copy(topic, {0: 60})
    scene.mm2.note(topic, {0: 59})
    delete_topic(scene.source, topic)
    create_topic(scene.source, topic, 1)
    scene.write(topic, range(1000, 1100))
    taken = await scene.take_over()
    (row,) = taken.rows
    assert (taken.ok, row.outcome, row.lost) == (False, "refused", 60)
    assert "up to 60 records may be lost" in row.remarks[0]
    delete_topic(scene.target, scene.mm2.remote(topic))
    (row,) = (await scene.take_over()).rows
    assert row.outcome == "left"
    async with LocalSystem(scene.settings) as system:
        await system.caught_up(topic, 100, str(scene.flow))
    assert_equal_copies(scene.source, scene.target, topic, scene.mm2.remote(topic))


async def test_all_alike_but_for_a_pair(scene: Scene) -> None:
    """MM2's own pair of offsets says which record is which where the contents don't."""
    topic = scene.topic("alike", value=b"x")
    scene.mm2.copy(topic, {0: 80})
    scene.mm2.note(topic, {0: 49})
    scene.mm2.pairs(TopicPartition(topic, 0), [(0, 0), (40, 40)])
    row = (await scene.rows())[TopicPartition(topic, 0)]
    assert (row.begin, row.found, row.doubtful) == (80, 30, 0)


async def test_what_must_end_first(scene: Scene) -> None:
    """A transaction that is open on the target, a system that copies, and a topic of notes that is not there."""
    topic = scene.topic("t")
    with pytest.raises(ConfigError, match=f"has no topic {scene.mm2.offsets_topic}.*--offsets-topic"):
        await scene.take_over()
    scene.mm2.copy(topic, {0: 50})
    scene.mm2.note(topic, {0: 49})
    wrong = replace(scene.which, connector="other")
    with pytest.raises(ConfigError, match="none of connector other"):
        await take_over(scene.settings, scene.flow, wrong, quiet_s=0)
    writer = Producer({**scene.target, "transactional.id": scene.mark})
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce(scene.mm2.remote(topic), b"not yet", partition=0)
    writer.flush()
    with pytest.raises(NotReadyError, match=r"a transaction of MirrorMaker 2 is open"):
        await scene.take_over()
    writer.abort_transaction(30)
    marked = {0: 52}
    wait_until(lambda: end_offsets(scene.target, scene.mm2.remote(topic)) == marked, 20, "the marker is written")
    assert (await scene.take_over()).ok
    async with LocalSystem(scene.settings) as system:
        await system.caught_up(topic, 100, str(scene.flow))
        for command in (take_over, hand_back):
            with pytest.raises(NotReadyError, match=r"mirror-ray copies 1 of its partitions.*mirror-ray down"):
                await command(scene.settings, scene.flow, scene.which, quiet_s=0.2)
    assert_equal_copies(scene.source, scene.target, topic, scene.mm2.remote(topic))


async def test_it_goes_on_meanwhile(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that come in between the command's two looks are a sign that MM2 runs; nothing is written."""
    topic = scene.topic("t")
    scene.mm2.copy(topic, {0: 50})
    scene.mm2.note(topic, {0: 49})
    read_activity = FlowSession.read_activity

    async def written_before(session: FlowSession, mm2: Mm2Topics, before: Mm2Activity | None = None) -> Mm2Activity:
        if before is not None:
            await asyncio.to_thread(scene.mm2.copy, topic, {0: 60}, first=50)
        return await read_activity(session, mm2, before)

    monkeypatch.setattr(FlowSession, "read_activity", written_before)
    with pytest.raises(NotReadyError, match=f"remote topic {scene.mm2.remote(topic)}-0 went from 50 to 60"):
        await scene.take_over()
    monkeypatch.undo()
    assert (await scene.rows())[TopicPartition(topic, 0)].begin == 60


async def test_groups_that_lag(scene: Scene) -> None:
    """Before the takeover a group is at MM2's pair before it, said to be not exact; behind it, at the very record."""
    topic, group = scene.topic("t"), f"g-{scene.mark}"
    scene.mm2.copy(topic, {0: 80})
    scene.mm2.copy(topic, {0: 80}, first=70)
    scene.mm2.note(topic, {0: 69})
    scene.mm2.pairs(TopicPartition(topic, 0), [(0, 0), (30, 30), (70, 80)])
    taken = await scene.take_over()
    assert (taken.rows[0].begin, taken.rows[0].target_end, taken.rows[0].doubtful) == (80, 90, 0)
    async with LocalSystem(scene.settings, groups=True) as system:
        for offset, place, exact in ((30, 30, True), (55, 31, False), (75, 81, False), (90, 100, True)):
            commit(scene.clusters.a, group, {(topic, 0): offset})

            async def stands(place: int = place) -> bool:
                there = await asyncio.to_thread(committed, scene.clusters.b, group, scene.mm2.remote(topic), 1)
                return there[0] == place

            await system.wait(stands, f"{offset} is translated to {place}")
            found = await system.coordinator.translate(str(scene.flow), topic, 0, offset)
            assert (found.offset, found.exact) == (place, exact)
    # What MM2 had doubled is found by comparing, and nothing else.
    report = await verify_flow(scene.settings, scene.flow, VerifyRequest(topics=(topic,)))
    findings = [difference for partition in report.partitions for difference in partition.checked.differences]
    assert [(difference.kind, difference.source_offset) for difference in findings] == [
        ("doubled", offset) for offset in range(70, 80)
    ]


async def test_handed_back_and_forth(scene: Scene) -> None:
    """Notes as MM2 writes them, also of a source with holes; `up` is refused until the flow is taken over again."""
    topic = create_topic(scene.source, f"t-{scene.mark}", 2)
    parts = [[Message(b"%d" % (10 * n + number), partition=number % 2) for number in range(10)] for n in range(8)]
    produce_transactions(
        scene.source, topic, [(part, at % 3 != 1) for at, part in enumerate(parts)], transactional_id=topic
    )
    ends = end_offsets(scene.source, topic)
    with pytest.raises(ConfigError, match="has copied nothing yet"):
        await hand_back(scene.settings, scene.flow, scene.which, quiet_s=0)
    for _ in range(2):
        async with LocalSystem(scene.settings) as system:
            await system.caught_up(topic, ends[0], str(scene.flow))
        dry = await hand_back(scene.settings, scene.flow, scene.which, quiet_s=0.2, dry=True)
        handed = await hand_back(scene.settings, scene.flow, scene.which, quiet_s=0.2)
        assert dry.partitions[0].noted == handed.partitions[0].noted == ends[0] - 1
        wait_until(lambda: len(end_offsets(scene.target, scene.mm2.offsets_topic)) == 25, 20, "all have leaders")
        # Not given back by a crash in between: the same once more.
        again = await hand_back(scene.settings, scene.flow, scene.which, quiet_s=0.2)
        assert [note.noted for note in again.partitions] == [note.before for note in again.partitions]
        placed = read_placed(scene.target, scene.mm2.offsets_topic)
        assert len(placed) == 25
        async with LocalSystem(scene.settings) as system:
            await system.wait(lambda: _refused(system), "the flow is refused")
        taken = await scene.take_over()
        assert taken.ok
        assert [(row.begin, row.doubtful) for row in taken.rows] == [(ends[0], 0), (ends[1], 0)]
    assert_equal_copies(scene.source, scene.target, topic, scene.mm2.remote(topic))


async def _refused(system: LocalSystem) -> bool:
    (flow,) = (await system.coordinator.status()).flows
    return any("was handed back" in problem for problem in flow.problems)
