"""The system snapshot, and the problems in it, with everything around the coordinator in memory."""

from __future__ import annotations

from mirror_ray.observe.problems import Problem
from mirror_ray.observe.status import SystemStatus
from tests.unit.coordinator.fakes import ORDERS, World, eventually, flow, partition, settings, shown


def _by_kind(status: SystemStatus) -> dict[str, Problem]:
    return {problem.kind: problem for problem in status.problems}


async def test_they_say_what_the_flows_say(world: World) -> None:
    """A cluster that can't be reached, and a partition that stopped: every sentence of a flow is a problem's too."""
    world.kafka.add_topic("A", "orders", 2)
    world.kafka.unreachable.add("C")
    coordinator = world.coordinator()
    await coordinator.apply(settings(flow(), flow("A->C")))
    await eventually(lambda: len(world.first.held) == 2)
    world.first.stop_partition(partition("orders", 1), "corrupt batch at 17")
    kinds = {"flow_down", "partition_stopped"}
    status = await shown(coordinator.status, lambda status: kinds <= _by_kind(status).keys())
    texts = [problem.text for problem in status.problems]
    for row in status.flows:
        assert all(any(text in sentence for text in texts) for sentence in row.problems), row.problems
    found = _by_kind(status)
    assert (found["flow_down"].flow, found["partition_stopped"].subject) == ("A->C", "orders-1")
    assert status.flows[0].state == "degraded"
    assert any(event.level == "error" and "at 17" in event.text for event in await coordinator.events())
    assert (await coordinator.snapshot()).problems == status.problems


async def test_a_death_is_one_and_outlives_the_replacement(world: World) -> None:
    """Whoever looks a minute later sees that it happened."""
    coordinator = await world.copying("orders")
    world.first.alive = False
    await shown(coordinator.status, lambda status: "replicator_died" in _by_kind(status))
    await world.until_held(ORDERS)
    assert _by_kind(await coordinator.status())["replicator_died"].subject.endswith(":replicator:1")
    assert (await coordinator.snapshot()).deaths == 1


async def test_the_snapshot_is_what_the_commands_show(world: World) -> None:
    """The same values as each of them gives alone."""
    coordinator = await world.copying("orders", "payments", partitions=3)
    world.first.copy(ORDERS, 50)

    async def same() -> bool:
        snapshot = await coordinator.snapshot()
        return (
            snapshot.partitions == await coordinator.partitions()
            and snapshot.topics == await coordinator.topics()
            and snapshot.system.flows == (await coordinator.status()).flows
            and snapshot.gaps == await coordinator.gaps()
            and snapshot.events[-1:] == await coordinator.events(1)
            and sum(row.records for row in snapshot.topics) == 50
        )

    await eventually(same)


async def test_the_snapshot_is_made_once_a_second_whoever_asks(world: World) -> None:
    """Thousands of partitions are gathered once for all that look at the same time."""
    world.kafka.add_topic("A", "orders")
    coordinator = await world.running()
    first = await coordinator.snapshot()
    assert await coordinator.snapshot() is first
    assert (await coordinator.snapshot()).event_counts["info"] == first.events[-1].number
