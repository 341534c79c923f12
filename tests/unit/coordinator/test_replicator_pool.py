"""Replicators that come, go and fall silent, with everything around the coordinator in memory."""

from __future__ import annotations

import asyncio

from mirror_ray.observe.status import SystemStatus
from tests.unit.coordinator.fakes import FLOW, ORDERS, QUICK, World, eventually, partition, shown, texts


async def test_partitions_of_a_dead_replicator_go_on_from_their_anchors(world: World) -> None:
    """After a kill the survivor has everything with a higher epoch, a replacement comes, the survivor never stopped."""
    _, pool = await world.divided(4)
    kept, lost = set(pool[1].held), set(pool[2].held)
    victim = pool[2]
    for moved in lost:
        victim.copy(moved, 30)
    await eventually(
        lambda: all(
            world.kafka.states[FLOW][f"partition/orders/{partition.partition}"]["source_offset"] == 30
            for partition in lost
        )
    )
    before = len(world.kafka.log)
    victim.alive = False
    await eventually(lambda: pool[2] is not victim and len(pool[2].held) == 2 and len(pool[1].held) == 2)
    log = world.kafka.log[before:]
    for one in lost:
        first = next(line for line in log if line.startswith(f"assign {one} "))
        assert first.endswith("at 30")
        assert "epoch 1 " not in first
    assert {partition.partition for partition in pool[1].held | pool[2].held} == {0, 1, 2, 3}
    assert kept & set(pool[1].held)


async def test_assignment_made_during_an_exchange_goes_with_the_next(world: World) -> None:
    """A replicator that answers slowly gets every partition all the same."""
    await world.running()
    await eventually(lambda: 1 in world.ray.replicators)
    world.first.answers_after_s = 0.02
    for number in range(5):
        world.kafka.add_topic("A", f"topic-{number}")
        await world.until_held(partition(f"topic-{number}"))


async def test_silent_replicator_is_killed_before_its_partitions_move(world: World) -> None:
    """One that does not answer keeps its partitions until it has been killed."""
    _, pool = await world.divided(2)
    (stuck,) = pool[2].held
    before = len(world.kafka.log)
    pool[2].silent = True
    await eventually(lambda: world.kafka.log.beginning(f"assign {stuck} ", since=before))
    log = world.kafka.log[before:]
    killed = log.index(f"kill {pool[2].id}")
    assert killed < next(index for index, line in enumerate(log) if line.startswith(f"assign {stuck} "))


async def test_scale_moves_the_newcomers_share_and_drains_before_removal(world: World) -> None:
    """From two to three at most a third moves, each released first; back to two, the third is drained and stopped."""
    coordinator, pool = await world.divided(6)
    before = len(world.kafka.log)
    await coordinator.scale(3)
    await eventually(lambda: len(pool) == 3 and all(len(replicator.held) == 2 for replicator in pool.values()))
    assert len(world.kafka.log.beginning("release", since=before)) == 2
    await coordinator.scale(2)
    await eventually(lambda: f"stop {pool[3].id}" in world.kafka.log)
    await eventually(lambda: [len(pool[number].held) for number in (1, 2)] == [3, 3])
    assert [replicator.id for replicator in await coordinator.replicators()] == [pool[1].id, pool[2].id]


async def test_no_room_for_a_replicator_is_shown_and_asked_again(world: World) -> None:
    """While Ray has no room the flow says so; when there is room it copies."""
    world.kafka.add_topic("A", "orders")
    world.ray.no_room = True
    coordinator = await world.running()
    await shown(coordinator.status, lambda status: any("no room" in text for text in status.flows[0].problems))
    world.ray.no_room = False
    await eventually(lambda: ORDERS in world.first.held)


async def test_replicator_that_answers_with_errors_is_shown_and_reported_once(world: World) -> None:
    """An error that nobody foresaw degrades the flow for as long as it lasts, and is one event, not one per attempt."""
    coordinator = await world.copying("orders")

    def degraded(status: SystemStatus) -> bool:
        (row,) = status.flows
        return row.state == "degraded" and any("KeyError: 'orders'" in problem for problem in row.problems)

    world.first.bug = KeyError("orders")
    await shown(coordinator.status, degraded)
    for _ in range(20):
        assert degraded(await coordinator.status())
        await asyncio.sleep(QUICK.respawn_s / 4)
    assert sum("KeyError: 'orders'" in text for text in await texts(coordinator)) == 1
    world.first.bug = None
    await shown(coordinator.status, lambda status: not status.flows[0].problems)
    assert any("answers without errors again" in text for text in await texts(coordinator))
