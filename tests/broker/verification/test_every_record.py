"""Every record of the remote partition is accounted for, and a partition that does not go on is never called equal."""

from __future__ import annotations

import pytest

from mirror_ray.verification.planning import Wanted
from mirror_ray.verification.run import verify_flow
from tests.broker.verification.test_under_a_system import asked, settings, write
from tests.support.clusters import Clusters, TopicMaker
from tests.support.engine import FLOW
from tests.support.local import LocalSystem

pytestmark = pytest.mark.timeout(300)


async def test_records_of_somebody_else_behind_the_last_acknowledged(
    clusters: Clusters, make_topic: TopicMaker
) -> None:
    """The partition stops as target_foreign: the record is named, the source's rest is counted, nothing is equal."""
    topic = make_topic(clusters.a)
    await write(clusters.a, topic, 0, 100)
    chosen = settings(clusters, topic, "stop")
    async with LocalSystem(chosen) as system:
        await system.caught_up(topic, 100)
        await write(clusters.b, f"A.{topic}", 900, 1)
        await write(clusters.a, topic, 100, 50)
        await system.troubled(topic, "target_foreign")
        (found,) = (await verify_flow(chosen, FLOW, Wanted(topics=(topic,)), running=asked(system))).partitions
        assert found.outcome == "differs", found.plain()
    (found,) = (await verify_flow(chosen, FLOW, Wanted(topics=(topic,)))).partitions
    assert found.outcome == "differs", found.plain()
