"""A flow with a group between real brokers, to be failed over and back: without Ray, in this process."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from confluent_kafka import Consumer

from mirror_ray.config.settings import GroupSettings, MirrorSettings
from mirror_ray.failover.plan import Kind
from mirror_ray.failover.run import FailoverOrder, FailoverReport
from mirror_ray.failover.steps import StepTiming
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.names import FlowName
from tests.support.clusters import Clusters, TopicMaker
from tests.support.groups import commit
from tests.support.kafka import Message, produce
from tests.support.local import LocalSystem, aside
from tests.support.systems import settings_of
from tests.support.waiting import wait_until_async

FAST = StepTiming(quiet_s=0.3, catch_up_s=60.0)


def order(flow: FlowName, kind: Kind = "failover", **more: Any) -> FailoverOrder:
    """To fail over, or back, without long waits."""
    return FailoverOrder(**{"kind": kind, "flow": flow, "timing": FAST, **more})


class Names(NamedTuple):
    """What one test calls its own: a paused flow and its plans are kept by the source's alias."""

    flow: FlowName
    topic: str
    group: str

    @property
    def remote(self) -> str:
        """The topic on B."""
        return f"{self.flow.source}.{self.topic}"


def often(*groups: str, sync: bool = True) -> GroupSettings:
    """Groups that are looked after five times a second."""
    return GroupSettings(
        include=groups,
        emit_checkpoints_interval_s=0.2,
        sync_offsets_enabled=sync,
        sync_offsets_interval_s=0.2,
        refresh_interval_s=0.2,
    )


def settings(clusters: Clusters, names: Names, *more: FlowName, sync: bool = True) -> MirrorSettings:
    """A flow, and ``more``, of the topic that carries over the groups that begin with the group's name.

    ``sync``: their offsets are committed on the target as they go, and a failover finds them there.
    """
    groups = often(f"{names.group}.*", sync=sync)
    pair = {names.flow.source: clusters.a, names.flow.target: clusters.b}
    return settings_of(pair, *(str(flow) for flow in (names.flow, *more)), topics=names.topic, groups=groups)


def new_names(topic: str) -> Names:
    """For one test."""
    unique = uuid.uuid4().hex[:8]
    return Names(FlowName(f"A{unique}", f"B{unique}"), topic, f"g-{unique}")


async def caught_up(system: LocalSystem, count: int) -> None:
    """Wait until so many partitions are known, and have no lag."""

    async def done() -> bool:
        lines = [partition for partition in await system.coordinator.partitions() if partition.state == "copying"]
        return len(lines) == count and all(partition.lag_records == 0 for partition in lines)

    await system.wait(done, "everything is copied")


def numbered(count: int, first: int = 0) -> list[Message]:
    """Records for two partitions."""
    return [Message(b"%d" % number, partition=number % 2) for number in range(first, first + count)]


@asynccontextmanager
async def scene(
    clusters: Clusters, make_topic: TopicMaker, *, sync: bool = True
) -> AsyncIterator[tuple[LocalSystem, Names]]:
    """A running system whose topic of two partitions holds 200 records, and a group that stands at 30 in each."""
    names = new_names(make_topic(clusters.a, 2))
    topic = names.topic
    await aside(lambda: produce(clusters.a.confluent_config(), topic, numbered(200)))
    await aside(lambda: commit(clusters.a, names.group, {(topic, 0): 30, (topic, 1): 30}))
    async with LocalSystem(settings(clusters, names, sync=sync), groups=True) as system:
        await caught_up(system, 2)
        yield system, names


def outcomes(report: FailoverReport) -> list[str]:
    """Of all steps that were done."""
    return [result.outcome for result in report.plan.results.values()]


@asynccontextmanager
async def member(cluster: DevCluster, group: str, topic: str) -> AsyncIterator[None]:
    """The group has one member, which commits nothing."""
    consumer = Consumer({**cluster.confluent_config(), "group.id": group, "enable.auto.commit": False})
    consumer.subscribe([topic])
    stop = asyncio.Event()

    async def poll() -> None:
        while not stop.is_set():
            await aside(lambda: consumer.poll(0.1))

    polling = asyncio.create_task(poll())
    try:
        await wait_until_async(lambda: aside(lambda: bool(consumer.assignment())), 60, "it is a member")
        yield
    finally:
        stop.set()
        await polling
        await aside(consumer.close)
