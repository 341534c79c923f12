"""What the coordinator says is wrong, with everything around it in memory."""

from __future__ import annotations

from mirror_ray.coordinator.service import CoordinatorService
from mirror_ray.observe.problems import Problem
from tests.unit.coordinator.fakes import World, eventually, flow, partition, settings


async def _problems(coordinator: CoordinatorService) -> dict[str, Problem]:
    return {problem.kind: problem for problem in (await coordinator.status()).problems}


async def test_they_say_what_the_flows_say(world: World) -> None:
    """A cluster that can't be reached, and a partition that stopped: every sentence of a flow is a problem's too."""
    world.kafka.add_topic("A", "orders", 2)
    world.kafka.unreachable.add("C")
    coordinator = world.coordinator()
    await coordinator.apply(settings(flow(), flow("A->C")))
    await eventually(lambda: len(world.ray.replicators[1].held) == 2)
    world.ray.replicators[1].stop_partition(partition("orders", 1), "corrupt batch at 17")

    async def seen() -> bool:
        return {"flow_down", "partition_stopped"} <= (await _problems(coordinator)).keys()

    await eventually(seen)
    status = await coordinator.status()
    told = [problem.text for problem in status.problems]
    for row in status.flows:
        assert all(any(text in sentence for text in told) for sentence in row.problems), row.problems
    found = await _problems(coordinator)
    assert (found["flow_down"].flow, found["partition_stopped"].subject) == ("A->C", "orders-1")
    assert (await coordinator.snapshot()).problems == status.problems


async def test_a_death_is_one_and_outlives_the_replacement(world: World) -> None:
    """Whoever looks a minute later sees that it happened."""
    world.kafka.add_topic("A", "orders")
    coordinator = world.coordinator()
    await coordinator.apply(settings())
    await eventually(lambda: partition("orders") in world.ray.replicators[1].held)
    world.ray.replicators[1].alive = False

    async def seen() -> bool:
        return "replicator_died" in await _problems(coordinator)

    await eventually(seen)
    await eventually(lambda: partition("orders") in world.ray.replicators[1].held)
    assert (await _problems(coordinator))["replicator_died"].subject.endswith(":replicator:1")
    assert (await coordinator.snapshot()).deaths == 1
