"""One topic on two clusters, and on three: what each writes is on every other one once, and goes no further."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mirror_ray.devcluster import DevCluster
from mirror_ray.model.names import FlowName
from mirror_ray.verification.planning import Wanted
from mirror_ray.verification.run import verify_flow
from tests.support.both_ways import PARTITIONS, both_ways, check, counts, write
from tests.support.clusters import Clusters
from tests.support.kafka import create_topic
from tests.support.local import LocalSystem, aside

pytestmark = pytest.mark.timeout(300)


async def _everywhere(system: LocalSystem, clusters: Mapping[str, DevCluster], topic: str, number: int) -> None:
    """Wait until every cluster has what all wrote, and no flow has anything left to copy."""

    async def arrived() -> bool:
        found = await aside(lambda: counts(clusters, topic))
        assert max(found) <= number * len(clusters), found
        lines = await system.coordinator.partitions()
        return min(found) == number * len(clusters) and all(line.lag_records == 0 for line in lines)

    await system.wait(arrived, f"{number} records of each cluster on each")


async def test_active_active_under_one_name(clusters: Clusters, unique_topic: str) -> None:
    """Two clusters under live traffic, the system taken down and up between."""
    both = {"A": clusters.a, "B": clusters.b}
    for cluster in clusters:
        create_topic(cluster.confluent_config(), unique_topic, PARTITIONS)
    await aside(lambda: write(both, unique_topic, 0, 100))
    async with LocalSystem(both_ways(both, unique_topic, None)) as system:
        await aside(lambda: write(both, unique_topic, 100, 300))
        await _everywhere(system, both, unique_topic, 300)
    await aside(lambda: write(both, unique_topic, 300, 400))
    async with LocalSystem(both_ways(both, unique_topic, None)) as system:
        await aside(lambda: write(both, unique_topic, 400, 500))
        await _everywhere(system, both, unique_topic, 500)
    await aside(lambda: check(both, unique_topic, 500))
    for flow in ("A->B", "B->A"):
        asked = Wanted(topics=(unique_topic,))
        report = await verify_flow(both_ways(both, unique_topic, None), FlowName.parse(flow), asked)
        assert [str(each.outcome) for each in report.partitions] == ["equal"] * PARTITIONS, report


async def test_a_triangle_under_one_name(clusters: Clusters, third_cluster: DevCluster, unique_topic: str) -> None:
    """Three clusters, each to each; the topic is made where it is missing."""
    three = {"A": clusters.a, "B": clusters.b, "C": third_cluster}
    create_topic(clusters.a.confluent_config(), unique_topic, PARTITIONS)
    async with LocalSystem(both_ways(three, unique_topic, 1)) as system:
        await aside(lambda: write({"A": clusters.a}, unique_topic, 0, 1))
        await _arrive(system, three, unique_topic)
        await aside(lambda: write({"B": clusters.b, "C": third_cluster}, unique_topic, 0, 1))
        await aside(lambda: write(three, unique_topic, 1, 300))
        await _everywhere(system, three, unique_topic, 300)
    await aside(lambda: check(three, unique_topic, 300))


async def _arrive(system: LocalSystem, clusters: Mapping[str, DevCluster], topic: str) -> None:
    """Wait until the topic is on every cluster with a record."""

    async def there() -> bool:
        try:
            found = await aside(lambda: counts(clusters, topic))
        except Exception:  # noqa: BLE001 - it is not there yet
            return False
        return min(found) == 1

    await system.wait(there, f"{topic} on every cluster")
