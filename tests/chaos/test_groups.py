"""Batches that the leader alone has die with it, or are not committed for long: positions wait, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from mirror_ray.config.settings import FetchSettings
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition
from tests.chaos.test_brokers_are_killed import KEEP, PARTITIONS, fill, more_copied
from tests.support.clusters import Clusters, TopicMaker
from tests.support.engine import Engine
from tests.support.reading import assert_equal_copies
from tests.support.replicated import Replicated

#: About a hundred small batches in a group.
DEEP = FetchSettings(max_partition_bytes=400_000)
YEAR_DAYS = 365
#: How often followers that were frozen may be elected.
_TURNS = 4


class Target:
    """Checks the engine's positions against the remote topic's leaders."""

    def __init__(self, flow: Replicated, remote: str, partitions: int) -> None:
        self.partitions = [TopicPartition(remote, number) for number in range(partitions)]
        self._cluster = flow._clusters["B"]
        self._remote = remote
        #: How often a leader held more than was committed.
        self.ran_ahead = 0
        self.checks = 0

    async def leader(self) -> int:
        """The broker that leads the first partition."""
        return (await self._cluster.refresh([self._remote])).leader(self.partitions[0])

    def led_by(self, node: int) -> list[TopicPartition]:
        """The partitions that this broker leads by the metadata."""
        return [partition for partition in self.partitions if self._cluster.metadata.leader(partition) == node]

    async def led_by_others(self, dead: int) -> bool:
        """Whether others come to lead what a dead broker has led."""
        for _ in range(100):
            with suppress(OSError, MirrorError):
                metadata = await self._cluster.refresh([self._remote])
                if all(metadata.leader(partition) not in (dead, -1) for partition in self.partitions):
                    return True
            await asyncio.sleep(0.1)
        return False

    async def all_in_sync(self) -> None:
        """Wait until every replica is in sync."""
        async with asyncio.timeout(60):
            while True:
                metadata = await self._cluster.refresh([self._remote])
                found = [metadata.partition(partition) for partition in self.partitions]
                if all(known is not None and known.leader > 0 and len(known.isr) == 3 for known in found):
                    return
                await asyncio.sleep(0.1)

    async def check(self, engine: Engine) -> None:
        """Check that acknowledged records are committed: positions are not beyond the high watermarks."""
        positions = {r.partition.partition: r.anchor.target_offset for r in engine.look().values()}
        for partition, end in (await self._cluster.log_ends(self.partitions)).items():
            if not end.error_code:
                assert positions.get(partition.partition, 0) <= end.high_watermark
                self.ran_ahead += end.end_offset > end.high_watermark
                self.checks += 1

    @asynccontextmanager
    async def watched(self, engine: Engine) -> AsyncIterator[None]:
        """Check again and again as long as the context lasts."""

        async def watch() -> None:
            while True:
                try:
                    await self.check(engine)
                except (OSError, MirrorError):
                    await asyncio.sleep(0.2)
                await asyncio.sleep(0.05)

        watching = asyncio.create_task(watch())
        try:
            yield
            assert not watching.done(), watching.exception()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


async def test_leaders_are_killed_in_the_middle_of_groups(
    clusters: Clusters, trio: DevCluster, make_topic: TopicMaker
) -> None:
    """Again and again, with records of last year, whose producer each new leader may have forgotten."""
    topic = make_topic(clusters.a, PARTITIONS, KEEP)
    fill(clusters.a, topic, 40_000, YEAR_DAYS, compressed=False)
    async with Replicated(clusters.a, trio) as flow:
        remote = flow.remote(topic, PARTITIONS, 3, retention_ms="-1", min_insync_replicas="2")
        target = Target(flow, remote, PARTITIONS)
        engine = await flow.engine(fetch=DEEP)
        engine.assign(await flow.assignments([topic]))
        async with target.watched(engine):
            for turn in range(2):
                await more_copied(engine, 3_000)
                leader = await target.leader()
                trio.broker(leader).kill()
                fill(clusters.a, topic, 10_000, YEAR_DAYS, first=100_000 * (turn + 1), compressed=False)
                await more_copied(engine, 2_000)
                await asyncio.to_thread(trio.broker(leader).start)
                await target.all_in_sync()
            await engine.caught_up(60)
        await engine.stop()
        assert engine.stops == []
        assert target.checks
        assert_equal_copies(clusters.a.confluent_config(), trio.confluent_config(), topic, remote)


async def test_followers_stand_still_and_the_leader_dies(
    clusters: Clusters, trio: DevCluster, make_topic: TopicMaker
) -> None:
    """What the leader took meanwhile is not acknowledged, dies with it, and is sent again to the next one."""
    topic = make_topic(clusters.a, PARTITIONS, KEEP)
    fill(clusters.a, topic, 40_000, YEAR_DAYS, compressed=False)
    async with Replicated(clusters.a, trio) as flow:
        remote = flow.remote(topic, PARTITIONS, 3, retention_ms="-1", min_insync_replicas="2")
        target = Target(flow, remote, PARTITIONS)
        engine = await flow.engine(fetch=DEEP)
        engine.assign(await flow.assignments([topic]))
        await more_copied(engine, 3_000)
        for turn in range(_TURNS):
            leader = await target.leader()
            followers = [trio.broker(node) for node in {1, 2, 3} - {leader}]
            for follower in followers:
                follower.suspend()
            try:
                # All that was there may have been copied by now.
                fill(clusters.a, topic, 10_000, YEAR_DAYS, first=50_000 + 10_000 * turn, compressed=False)
                await _until_ahead(flow, remote, engine, leader)
                trio.broker(leader).kill()
            finally:
                for follower in followers:
                    follower.resume()
            if await target.led_by_others(leader):
                break
            # Nobody leads: the followers were taken for dead as well, and only the dead one may lead.
            await asyncio.to_thread(trio.broker(leader).start)
            await target.all_in_sync()
        else:
            raise AssertionError("the followers never came to lead")
        async with target.watched(engine):
            fill(clusters.a, topic, 5_000, YEAR_DAYS, first=100_000, compressed=False)
            await more_copied(engine, 5_000)
            await asyncio.to_thread(trio.broker(leader).start)
            await engine.caught_up(60)
        await engine.stop()
        assert engine.stops == []
        assert_equal_copies(clusters.a.confluent_config(), trio.confluent_config(), topic, remote)


async def test_too_few_replicas_in_sync(clusters: Clusters, trio: DevCluster, make_topic: TopicMaker) -> None:
    """What the leader took before that was known stays unacknowledged; copying goes on when they are back."""
    topic = make_topic(clusters.a, PARTITIONS, KEEP)
    fill(clusters.a, topic, 40_000, YEAR_DAYS, compressed=False)
    async with Replicated(clusters.a, trio) as flow:
        remote = flow.remote(topic, PARTITIONS, 3, retention_ms="-1", min_insync_replicas="3")
        target = Target(flow, remote, PARTITIONS)
        await target.all_in_sync()
        engine = await flow.engine(fetch=DEEP)
        engine.assign(await flow.assignments([topic]))
        async with target.watched(engine):
            await more_copied(engine, 3_000)
            dead = 1 + (await target.leader()) % 3
            trio.broker(dead).kill()
            fill(clusters.a, topic, 5_000, YEAR_DAYS, first=100_000, compressed=False)
            await engine.until(
                lambda: all(_says_why(report.reason) for report in engine.reports.values()), 60, "the reason"
            )
            await asyncio.to_thread(trio.broker(dead).start)
            await engine.caught_up(60)
        await engine.stop()
        assert engine.stops == []
        assert_equal_copies(clusters.a.confluent_config(), trio.confluent_config(), topic, remote)


def _says_why(reason: str | None) -> bool:
    return reason is not None and any(word in reason for word in ("NOT_ENOUGH_REPLICAS", "min.insync.replicas"))


async def _until_ahead(flow: Replicated, remote: str, engine: Engine, leader: int) -> None:
    """Wait until the leader holds more than is committed, and see that it stays so for a while."""
    target = Target(flow, remote, PARTITIONS)
    target.partitions = target.led_by(leader)
    async with asyncio.timeout(20):
        while target.ran_ahead < 10:
            await target.check(engine)
            await asyncio.sleep(0.05)
