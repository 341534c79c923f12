"""From the real MM2 and back, under traffic: nothing lost, nothing doubled, groups where they were."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from mirror_ray.config.load import load_settings
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.lab.bench.contender_process import MirrorMaker
from mirror_ray.model.errors import NotReadyError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.takeover.decisions import TakeoverDecision
from mirror_ray.takeover.mm2_activity import read_source_offsets, which_mm2
from mirror_ray.takeover.takeover import TakeoverResult
from tests.support.class_archive import quick_mm2
from tests.support.clusters import Clusters
from tests.support.command import answer
from tests.support.groups import commit, committed
from tests.support.kafka import Message, create_topic, exists, produce, produce_transactions
from tests.support.local import LocalSystem
from tests.support.reading import assert_equal_copies, end_offsets, read_placed
from tests.support.unrecorded import hand_back, take_over
from tests.support.waiting import wait_until, wait_until_async

#: MM2 takes 15 to 25 s to start, on a machine that is not busy.
_MM2_S = 120.0
_PARTITIONS = 2
#: MM2's offset.lag.max, and so many records a group has not read yet.
_LAG_MAX, _BEHIND = 100, 90


class Scene:
    """A flow between the shared clusters, under an alias of its own, and the file that both systems run by."""

    def __init__(self, clusters: Clusters, directory: Path) -> None:
        mark = uuid.uuid4().hex[:6]
        self.alias, self.mark = f"S{mark}", mark
        self.flow = FlowName(self.alias, "B")
        self.mm2 = which_mm2(self.flow, None, None, None)
        self.source, self.target = clusters.a.confluent_config(), clusters.b.confluent_config()
        self.plain, self.held, self.empty = (f"{kind}-{mark}" for kind in ("plain", "transactional", "empty"))
        for topic in (self.plain, self.held, self.empty):
            create_topic(self.source, topic, _PARTITIONS)
        self.groups = f"lagging-{mark}", f"head-{mark}"
        self.config = directory / "mm2.properties"
        self.config.write_text(
            f"""
            clusters = {self.alias}, B
            {self.alias}.bootstrap.servers = {clusters.a.bootstrap}
            B.bootstrap.servers = {clusters.b.bootstrap}
            {self.flow}.enabled = true
            {self.flow}.topics = .*-{mark}
            {self.flow}.groups = .*-{mark}
            B->{self.alias}.emit.heartbeats.enabled = false
            heartbeats.replication.enabled = false
            {self.alias}.consumer.isolation.level = read_committed
            replication.factor = 1
            checkpoints.topic.replication.factor = 1
            heartbeats.topic.replication.factor = 1
            offset-syncs.topic.replication.factor = 1
            offset.storage.replication.factor = 1
            config.storage.replication.factor = 1
            status.storage.replication.factor = 1
            B.offset.flush.interval.ms = 6000
            B.session.timeout.ms = 6000
            refresh.topics.interval.seconds = 1
            """.replace("            ", "")
        )
        self.settings: MirrorSettings = load_settings(self.config).settings
        self.log = directory / "mm2.log"
        self._number = 0

    def remote(self, topic: str) -> str:
        """The remote topic's name."""
        return f"{self.alias}.{topic}"

    def write(self, count: int = 400) -> None:
        """So many records into both topics, some in transactions that are aborted."""
        numbers = range(self._number, self._number + count)
        self._number += count
        messages = [Message(b"%d" % n, b"key %d" % (n % 50), partition=n % _PARTITIONS) for n in numbers]
        produce(self.source, self.plain, messages)
        parts = [messages[first : first + 40] for first in range(0, count, 40)]
        transactions = [(part, at % 4 != 2) for at, part in enumerate(parts)]
        produce_transactions(self.source, self.held, transactions, transactional_id=self.held)

    def copied(self) -> bool:
        """Whether the remote topics hold as many records as the sources show."""
        try:
            self.equal()
        except (AssertionError, KeyError):
            return False
        return True

    def equal(self) -> None:
        """Every record is on the target once, in order."""
        for topic in (self.plain, self.held):
            assert_equal_copies(self.source, self.target, topic, self.remote(topic))

    def there(self) -> bool:
        """Whether MM2 has made the remote topics and all is copied."""
        return all(exists(self.target, self.remote(topic)) for topic in (self.plain, self.held)) and self.copied()

    async def notes(self) -> dict[TopicPartition, int | None]:
        """What MM2 has noted by now."""
        target = ClusterConnections(self.settings.clusters["B"], "test")
        try:
            await target.refresh(None)
            if self.mm2.offsets_topic not in target.metadata.topics:
                return {}
            return await read_source_offsets(target, self.mm2, self.flow)
        finally:
            await target.close()

    async def take_over(self, *, dry: bool = False) -> TakeoverResult:
        """Take over as soon as the workers that were killed count no more."""
        found: list[TakeoverResult] = []

        async def done() -> bool:
            try:
                found.append(await take_over(self.settings, self.flow, self.mm2, quiet_s=1.5, dry=dry))
            except NotReadyError as error:
                if "has members" not in str(error):
                    raise
                return False
            return True

        await wait_until_async(done, 30, "MM2's workers count no more")
        return found[0]


@contextmanager
def mm2_of(scene: Scene) -> Iterator[MirrorMaker]:
    """MM2 in dedicated mode, killed at the end."""
    system = MirrorMaker(scene.config, scene.log)
    system.start()
    try:
        yield system
    finally:
        system.prepare_kill(completely=True)()


@pytest.fixture
def scene(clusters: Clusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Topics with records and groups."""
    for name, value in quick_mm2().items():
        monkeypatch.setenv(name, value)
    scene = Scene(clusters, tmp_path)
    scene.write()
    return scene


def _rows(taken: TakeoverResult, topic: str) -> list[TakeoverDecision]:
    return [row for row in taken.rows if row.source.topic == topic]


async def test_from_mm2_and_back(scene: Scene, clusters: Clusters) -> None:
    """MM2 is killed behind its note; mirror-ray goes on; MM2 goes on from there; and mirror-ray once more."""
    lagging, head = scene.groups
    await _mm2_copies_and_is_killed(scene)
    ends = end_offsets(scene.source, scene.plain)
    commit(clusters.a, lagging, {(scene.plain, n): ends[n] - _BEHIND for n in ends})
    commit(clusters.a, head, {(scene.plain, n): ends[n] for n in ends})

    dry = await scene.take_over(dry=True)
    told = answer("takeover", str(scene.config), str(scene.flow), "--dry-run", "--name", scene.mark)
    assert [each["begin"] for each in told[0]["partitions"]] == [row.begin for row in dry.rows]
    taken = await scene.take_over()
    assert taken.ok
    assert sum(row.found for row in taken.rows) > 0
    assert not any(row.doubtful for row in taken.rows)
    assert [row.outcome for row in _rows(taken, scene.empty)] == ["left"] * _PARTITIONS
    for row in _rows(taken, scene.plain):
        assert row.noted is not None
        assert (row.begin, row.target_end) == (ends[row.source.partition],) * 2
        assert row.noted + 1 + row.found == row.begin
    again = await scene.take_over()
    assert {row.outcome for row in _rows(again, scene.plain)} == {"kept"}

    await _mirror_ray_goes_on(scene, lambda: _stand_where_they_were(scene, clusters, ends))
    await _mm2_goes_on(scene)
    with pytest.raises(NotReadyError, match="has gone on since the flow was handed back"):
        await _as_soon_as_empty(scene)
    taken = await scene.take_over()
    assert taken.ok
    assert not any(row.doubtful for row in taken.rows)
    await _mirror_ray_goes_on(scene)


async def _mm2_copies_and_is_killed(scene: Scene) -> None:
    with mm2_of(scene):
        await asyncio.to_thread(wait_until, scene.there, _MM2_S, "MM2 has copied")
        await wait_until_async(lambda: _noted(scene), 30, "MM2 has noted it")
        with pytest.raises(NotReadyError, match=f"its group {scene.alias}-mm2 on B has members"):
            await take_over(scene.settings, scene.flow, scene.mm2)
        # At once after a note: the next one is some seconds away.
        before = await scene.notes()
        while before == await scene.notes():
            scene.write(40)
            await asyncio.sleep(0.2)
        scene.write()
        await asyncio.to_thread(wait_until, scene.copied, 30, "MM2 has copied more")


async def _noted(scene: Scene) -> bool:
    notes = await scene.notes()
    return len(notes) >= 2 * _PARTITIONS


def _stand_where_they_were(scene: Scene, clusters: Clusters, ends: Mapping[int, int]) -> bool:
    """Behind all that MM2 had copied at the very record; before that at a pair of MM2's, and never ahead."""
    stand = {group: committed(clusters.b, group, scene.remote(scene.plain), _PARTITIONS) for group in scene.groups}
    if any(offset < 0 for offsets in stand.values() for offset in offsets.values()):
        return False
    lagging, head = scene.groups
    assert stand[head] == ends
    assert all(ends[n] - _BEHIND - 2 * _LAG_MAX < stand[lagging][n] <= ends[n] - _BEHIND for n in ends), stand
    return True


async def _mirror_ray_goes_on(scene: Scene, condition: Callable[[], bool] = lambda: True) -> None:
    async with LocalSystem(scene.settings, groups=True) as system:
        scene.write()
        await system.wait(lambda: asyncio.to_thread(scene.copied), "mirror-ray has copied")
        await system.wait(lambda: asyncio.to_thread(condition), "groups are carried over")
        assert not await system.coordinator.gaps()
    scene.equal()


async def _mm2_goes_on(scene: Scene) -> None:
    handed = await hand_back(scene.settings, scene.flow, scene.mm2, quiet_s=1.0)
    notes = await scene.notes()
    assert {note.source: note.noted for note in handed.partitions if note.noted is not None}.items() <= notes.items()
    async with LocalSystem(scene.settings) as system:
        await system.wait(lambda: _refused(system), "the flow is refused")
    scene.write()
    with mm2_of(scene) as system:
        await asyncio.to_thread(wait_until, scene.copied, _MM2_S, "MM2 goes on")
        await asyncio.to_thread(system.stop)
    scene.equal()
    placed = read_placed(scene.target, scene.mm2.offsets_topic)
    keys = [{record.key for _, record in records} for records in placed.values()]
    assert sum(map(len, keys)) == len(set().union(*keys)), "a key is in two partitions: compaction would keep both"


async def _refused(system: LocalSystem) -> bool:
    (flow,) = (await system.coordinator.status()).flows
    return any("was handed back" in problem for problem in flow.problems)


async def _as_soon_as_empty(scene: Scene) -> None:
    while True:
        try:
            await hand_back(scene.settings, scene.flow, scene.mm2, quiet_s=1.0)
        except NotReadyError as error:
            if "has members" not in str(error):
                raise
            await asyncio.sleep(0.5)
