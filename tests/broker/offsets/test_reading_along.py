"""A group that reads along while records flow: its place on the target follows within seconds."""

from __future__ import annotations

import asyncio
import time
import uuid
from functools import partial

from mirror_ray.config.settings import ClusterSettings, FlowSettings, GroupSettings, MirrorSettings, TopicSettings
from mirror_ray.lab.traffic import Traffic, TrafficReader
from mirror_ray.model.names import FlowName
from tests.support.clusters import Clusters, TopicMaker
from tests.support.groups import committed
from tests.support.local import LocalSystem
from tests.support.waiting import wait_until_async

#: The contract; a busy machine gets as much again.
WITHIN_S = 5.0
PATIENCE_S = 5.0


async def test_a_group_follows_while_it_reads(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Whatever it has committed is on the target 5 s later, although it goes on committing."""
    topic, group = make_topic(clusters.a, 2), uuid.uuid4().hex[:6]
    a, b = (
        ClusterSettings(alias=name, bootstrap_servers=(cluster.bootstrap,))
        for name, cluster in zip("AB", clusters, strict=True)
    )
    flow = FlowSettings(
        name=FlowName("A", "B"),
        enabled=True,
        topics=TopicSettings(include=(topic,), refresh_interval_s=1.0),
        groups=GroupSettings(include=(group,)),
    )
    traffic, reader = Traffic(a, [topic], 2_000), TrafficReader(a, group, [topic])
    traffic.start()
    reader.start()
    try:
        async with LocalSystem(MirrorSettings(clusters={"A": a, "B": b}, flows=(flow,)), groups=True):

            async def there(wanted: dict[int, int]) -> bool:
                now = await asyncio.to_thread(committed, clusters.b, group, f"A.{topic}", 2)
                return all(now[partition] >= offset for partition, offset in wanted.items())

            await wait_until_async(lambda: there({0: 1, 1: 1}), 30, "it is there")
            for _ in range(3):
                wanted = await asyncio.to_thread(committed, clusters.a, group, topic, 2)
                began_s = time.monotonic()
                await wait_until_async(partial(there, wanted), 30, f"it has come to {wanted}")
                assert time.monotonic() - began_s < WITHIN_S + PATIENCE_S
    finally:
        reader.stop()
        traffic.stop()
