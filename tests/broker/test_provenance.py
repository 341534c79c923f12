"""One topic on two clusters, and on three: what each writes is on every other one once, and goes no further."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from mirror_ray.failover.bulk_translation import BulkOrder
from mirror_ray.groups.bulk import LocalMaps
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.verification.planner import VerifyRequest
from mirror_ray.verification.run import verify_flow
from tests.support.both_ways import PARTITIONS, both_ways, check, counts, held, write
from tests.support.clusters import Clusters
from tests.support.group_sync import commit_many
from tests.support.groups import committed
from tests.support.kafka import create_topic
from tests.support.local import LocalSystem, aside
from tests.support.unrecorded import translate_in_bulk as carry_out

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
        asked = VerifyRequest(topics=(unique_topic,))
        report = await verify_flow(both_ways(both, unique_topic, None), FlowName.parse(flow), asked)
        assert [str(partition.outcome) for partition in report.partitions] == ["equal"] * PARTITIONS, report


def _standing(cluster: DevCluster, group: str, topic: str) -> dict[TopicPartition, int]:
    found = committed(cluster, group, topic, PARTITIONS)
    return {TopicPartition(topic, number): offset for number, offset in found.items()}


async def test_groups_of_a_topic_that_both_sides_write(clusters: Clusters, unique_topic: str) -> None:
    """They go on behind nothing that they have not read, at the end at the end; neither flow moves the other's back."""
    both = {"A": clusters.a, "B": clusters.b}
    for cluster in clusters:
        create_topic(cluster.confluent_config(), unique_topic, PARTITIONS)
    partitions = [TopicPartition(unique_topic, number) for number in range(PARTITIONS)]
    settings = both_ways(both, unique_topic, None, f"{unique_topic}-.*")
    await aside(lambda: write(both, unique_topic, 0, 50))
    async with LocalSystem(settings, groups=True) as system:
        await aside(lambda: write(both, unique_topic, 50, 300))
        await _everywhere(system, both, unique_topic, 300)
        on_a, on_b = await aside(lambda: [held(cluster, unique_topic) for cluster in clusters])
        ends = [len(records) for records in on_a]
        commits = {
            f"{unique_topic}-{tenth}": {
                partition: end * tenth // 10 for partition, end in zip(partitions, ends, strict=True)
            }
            for tenth in range(11)
        }
        await commit_many(clusters.a, commits)

        async def standing(cluster: DevCluster) -> dict[str, dict[TopicPartition, int]]:
            return await aside(lambda: {group: _standing(cluster, group, unique_topic) for group in commits})

        async def carried() -> bool:
            try:
                found = await system.coordinator.groups("A->B")
            except ConfigError:  # the flow has just begun
                return False
            return len(found) == len(commits) and all(status.state == "synced" for status in found)

        await system.wait(carried, "every group is on B")
        there = await standing(clusters.b)
        assert list(there[f"{unique_topic}-10"].values()) == ends
        for group, offsets in commits.items():
            for number, partition in enumerate(partitions):
                read = {record.value for record in on_a[number][: offsets[partition]]}
                place = there[group][partition]
                assert {record.value for record in on_b[number][:place]} <= read
                assert place == len(on_b[number]) or on_b[number][place].value not in read
        (last,) = [status for status in await system.coordinator.groups("A->B") if status.group == f"{unique_topic}-10"]
        assert [(partition.state, partition.exact, partition.reason) for partition in last.partitions] == [
            ("synced", True, None)
        ] * 2
        rows = await carry_out(settings, BulkOrder(flow=FlowName("A", "B")), LocalMaps)
        assert {(row.translated.group, row.translated.origin): row.translated.translation.offset for row in rows} == {
            (group, partition): offset for group, offsets in there.items() for partition, offset in offsets.items()
        }
        # The flow back sees them on B now, at places of its own for A, which lie before those where they stand there.
        await asyncio.sleep(1.0)
        assert await standing(clusters.a) == commits
        assert await standing(clusters.b) == there


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
