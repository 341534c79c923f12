"""Every record of the remote partition is accounted for, and a partition that does not go on is never called equal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.observe.status import PartitionStatus
from mirror_ray.topics.comparison import TopicComparison
from mirror_ray.topics.flow_comparison import compare_flow
from mirror_ray.verification.cluster_queries import PartitionQuery, no_system
from tests.broker.test_troubles import fill, settings
from tests.broker.verification.test_under_a_system import asked, verdict
from tests.support.clusters import Clusters, TopicMaker
from tests.support.kafka import create_topic, delete_records
from tests.support.local import LocalSystem, aside

pytestmark = pytest.mark.timeout(300)


async def test_a_remote_topic_that_somebody_filled_before_the_flow_began(
    clusters: Clusters, make_topic: TopicMaker
) -> None:
    """The flow has never copied it: whose records there are is not known, and that is not nothing."""
    topic, other = make_topic(clusters.a), make_topic(clusters.a)
    async with LocalSystem(settings(clusters, other, "stop")) as system:
        await system.caught_up(other, 0)
    await fill(clusters.a, topic, 0, 10)
    chosen = settings(clusters, topic, "stop")
    await aside(lambda: create_topic(clusters.b.confluent_config(), f"A.{topic}", 1))
    empty = await compared(chosen, topic)
    assert (empty.state, empty.headers[0].reason) == ("equal", None)
    await fill(clusters.b, f"A.{topic}", 0, 3)
    occupied = await compared(chosen, topic)
    assert occupied.state == "unknown"
    assert "holds records, and nothing was copied of it yet" in str(occupied.headers[0].reason)
    found = await verdict(chosen, topic)
    assert (found.outcome, found.account.not_copied) == ("not_checked", 10)


async def compared(chosen: MirrorSettings, topic: str, running: PartitionQuery = no_system) -> TopicComparison:
    """By ``compare``, in a loop of its own as the command has."""

    def compare() -> TopicComparison:
        (found,) = compare_flow(chosen, chosen.flows[0], [topic], {}, running).topics
        return found

    return await aside(compare)


def across(system: LocalSystem) -> PartitionQuery:
    """Asks this system, from another loop."""
    loop = asyncio.get_running_loop()

    async def there() -> Sequence[PartitionStatus]:
        return await asked(system)()

    async def ask() -> Sequence[PartitionStatus]:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(there(), loop))

    return ask


async def test_records_of_somebody_else_behind_the_acknowledged(clusters: Clusters, make_topic: TopicMaker) -> None:
    """The partition stops as target_foreign: the record is named, the source's rest is counted, nothing is equal."""
    topic = make_topic(clusters.a)
    await fill(clusters.a, topic, 0, 100)
    chosen = settings(clusters, topic, "stop")
    async with LocalSystem(chosen) as system:
        await system.caught_up(topic, 100)
        await fill(clusters.b, f"A.{topic}", 900, 1)
        # Nothing has noticed it: there was nothing to copy since.
        quiet = await verdict(chosen, topic, system)
        assert (quiet.outcome, quiet.halt, quiet.account.not_copied) == ("differs", None, 0)
        await fill(clusters.a, topic, 100, 50)
        await system.troubled(topic, "target_foreign")
        stopped = await verdict(chosen, topic, system)
        shown = await compared(chosen, topic, across(system))
    alone = await verdict(chosen, topic)
    for found in (quiet, stopped, alone):
        assert found.outcome == "differs", found.plain()
        (finding,) = found.checked.differences
        assert (finding.kind, finding.source_offset, finding.target_offset) == ("extra", 100, 100)
        assert f"producer {finding.producer_id} wrote it, which is none of the flow's" in found.text
        assert (found.checked.records, found.account.foreign) == (100, 1)
    assert stopped.halt is not None
    assert stopped.halt.state == "stopped"
    assert "stopped: " in stopped.text
    for found in (stopped, alone):
        assert (found.account.not_copied, found.plain()["not_copied"]) == (50, 50)
        assert "50 source offsets are not copied yet" in found.notes
    for drift in (shown.drift, (await compared(chosen, topic)).drift):
        assert "partition 0: 1 records too many on the target; the first: the record at target offset 100" in drift[0]
    assert "partition 0 is stopped: " in shown.drift[1]


async def test_a_partition_that_does_not_go_on_is_not_equal(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Paused by an operator, with a system and without one; its records are compared all the same."""
    topic = make_topic(clusters.a)
    await fill(clusters.a, topic, 0, 100)
    chosen = settings(clusters, topic, "stop")
    async with LocalSystem(chosen) as system:
        await system.caught_up(topic, 100)
        await system.coordinator.pause("A->B", topic)
        await fill(clusters.a, topic, 100, 20)
        await _paused(system, topic)
        running = await verdict(chosen, topic, system)
        shown = await compared(chosen, topic, across(system))
    alone = await verdict(chosen, topic)
    for found in (running, alone):
        assert found.outcome == "paused", found.plain()
        assert (found.checked.records, found.account.not_copied, found.checked.differences) == (100, 20, [])
        assert "paused: " in found.text
    assert alone.text.endswith("paused: an operator paused the topic")
    for comparison in (shown, await compared(chosen, topic)):
        assert comparison.state == "differs"
        assert "partition 0 is paused: " in comparison.drift[0]
    # The flow's state is on the brokers, which other tests use too.
    async with LocalSystem(chosen) as system:
        await _paused(system, topic)
        await system.coordinator.resume("A->B", topic)
        await system.caught_up(topic, 120)


async def _paused(system: LocalSystem, topic: str) -> None:
    async def paused() -> bool:
        line = await system.partition(topic)
        return line is not None and line.state == "paused"

    await system.wait(paused, "it is paused")


async def test_what_retention_took_is_a_number(clusters: Clusters, make_topic: TopicMaker) -> None:
    """On either side, and what is on the target alone since is known for the flow's."""
    topic = make_topic(clusters.a)
    await fill(clusters.a, topic, 0, 100)
    chosen = settings(clusters, topic, "stop")
    async with LocalSystem(chosen) as system:
        await system.caught_up(topic, 100)

        async def is_published() -> bool:
            return (await verdict(chosen, topic, system)).outcome == "equal"

        await aside(lambda: delete_records(clusters.a.confluent_config(), topic, 30))
        await system.wait(is_published, "the map tells of all that was copied")
        first = await verdict(chosen, topic, system)
        await aside(lambda: delete_records(clusters.b.confluent_config(), f"A.{topic}", 50))
        second = await verdict(chosen, topic, system)
    assert (first.outcome, first.checked.records, first.account.removed_on_source) == ("equal", 70, 30)
    assert (second.outcome, second.checked.records, second.account.removed_on_target) == ("equal", 50, 20)
    assert (first.account.foreign, first.account.not_ours, first.account.removed_on_target) == (0, 0, 0)
