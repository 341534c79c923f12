"""Failover and failback in topics that keep their names: the flow is reversed, and turned round again."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mirror_ray.config.settings import MirrorSettings, OffsetSettings, PolicySettings
from mirror_ray.failover.plan import FailoverOptions
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.policy import IDENTITY_POLICY_CLASS
from tests.support.clusters import Clusters, TopicMaker
from tests.support.failover import Names, caught_up, new_names, numbered, often, order
from tests.support.groups import commit, process
from tests.support.kafka import produce, produce_transactions
from tests.support.local import LocalSystem, aside
from tests.support.reading import Record, end_offsets, read_all
from tests.support.systems import settings_of
from tests.support.unrecorded import carry_out

pytestmark = pytest.mark.timeout(300)


#: Nothing is new after the second; `mirror-ray failover 'A->B' --simulate --there-and-back 10` goes on, under load.
ROUNDS = 3


def identity(clusters: Clusters, names: Names, **more: Any) -> MirrorSettings:
    """One flow, A->B, whose topic has the same name on both sides."""
    pair = {names.flow.source: clusters.a, names.flow.target: clusters.b}
    return settings_of(
        pair,
        str(names.flow),
        topics=names.topic,
        groups=often(f"{names.group}.*"),
        policy=PolicySettings(class_name=IDENTITY_POLICY_CLASS),
        **more,
    )


@asynccontextmanager
async def scene(clusters: Clusters, make_topic: TopicMaker, **more: Any) -> AsyncIterator[tuple[LocalSystem, Names]]:
    """A running system whose topic of two partitions holds 200 records, and a group that stands at 30 in each."""
    names = new_names(make_topic(clusters.a, 2))
    await aside(lambda: produce(clusters.a.confluent_config(), names.topic, numbered(200)))
    await aside(lambda: commit(clusters.a, names.group, {(names.topic, 0): 30, (names.topic, 1): 30}))
    async with LocalSystem(identity(clusters, names, **more), groups=True) as system:
        await caught_up(system, 2)
        yield system, names


async def move(system: LocalSystem, names: Names, kind: Any, **options: Any) -> None:
    """Fail over or back, to the end."""
    report = await carry_out(
        system.settings, order(names.flow, kind, options=FailoverOptions(**options)), system.coordinator
    )
    assert report.plan.finished, report.plan.results


async def write(cluster: DevCluster, topic: str, count: int, first: int) -> None:
    """Write numbered records into both partitions."""
    await aside(lambda: produce(cluster.confluent_config(), topic, numbered(count, first)))


async def read(cluster: DevCluster, topic: str) -> dict[int, list[Record]]:
    """What consumers of committed records see."""
    return await aside(lambda: read_all(cluster.confluent_config(), topic))


@pytest.mark.parametrize("mode", ["translate", "preserve"])
async def test_there_and_back_again_and_again(clusters: Clusters, make_topic: TopicMaker, mode: Any) -> None:
    """Each time somebody writes on the side that is left last, and each group processes each record once."""
    a, b = clusters
    async with scene(clusters, make_topic, offsets=OffsetSettings(mode=mode)) as (system, names):
        dice, topic, written = random.Random(7), names.topic, 200
        processed: list[bytes] = []
        for _ in range(ROUNDS):
            for here, kind in ((a, "failover"), (b, "failback")):
                await write(here, topic, 40, written)
                aborted = [(numbered(5, 900_000), False), (numbered(10, written + 40), True)]
                await aside(
                    lambda here=here, aborted=aborted: produce_transactions(  # type: ignore[misc]
                        here.confluent_config(), topic, aborted, transactional_id=topic
                    )
                )
                written += 50
                most = dice.randint(10, 60)
                processed += await aside(lambda here=here, most=most: process(here, names.group, topic, most))  # type: ignore[misc]
                await move(system, names, kind)
        processed += await aside(lambda: process(a, names.group, topic))
        assert sorted(map(int, processed)) == sorted([*range(60, written)])
        await caught_up(system, 2)
        assert await read(a, topic) == await read(b, topic)
        if mode == "preserve":
            ends = [await aside(lambda c=c: end_offsets(c.confluent_config(), topic)) for c in clusters]  # type: ignore[misc]
            assert ends[0] == ends[1]
