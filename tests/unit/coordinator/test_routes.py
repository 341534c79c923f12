"""The coordinator and routes: they begin where their flow does, stop with it, and change with it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.config.transforms import with_routes
from mirror_ray.coordinator.alignment import Positions, aligned, stops
from mirror_ray.coordinator.service import CoordinatorService
from mirror_ray.model.backfill import BackfillRequest
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.fault import PartitionFault
from mirror_ray.model.names import FlowName, FlowPartition, TopicPartition
from tests.support.transforms import by_first, steps
from tests.unit.coordinator.fakes import FLOW, ORDERS, REMOTE, World, eventually, flow, partition, settings, shown

EU, US = FLOW._replace(route="eu"), FLOW._replace(route="us")
TO_EU, TO_US = (partition("orders", name=name) for name in (EU, US))
REMOTES = {ORDERS: REMOTE, TO_EU: TopicPartition("eu", 0), TO_US: TopicPartition("us", 0)}


@pytest.fixture
def world(world: World) -> World:
    """With one topic of 7 records, copied from its end on."""
    world.naming = lambda name, topic: name.route or f"{name.source}.{topic}"
    world.kafka.add_topic("A", "orders")
    world.kafka.source_ends[TopicPartition("orders", 0)] = 7
    return world


def routed(*transforms: tuple[str, dict[str, Any]], **more: Any) -> MirrorSettings:
    """The flow with its routes."""
    live = flow(transforms=steps(*transforms, topics=["orders"]), fetch={"auto_offset_reset": "latest"}, **more)
    return settings(*with_routes([live]))


async def started(world: World, *transforms: tuple[str, dict[str, Any]]) -> CoordinatorService:
    """A system with these transforms."""
    return await world.running(routed(*(transforms or (by_first(),))))


async def copied(world: World, numbers: dict[FlowPartition, int]) -> None:
    """So many more offsets each, all of them records of its own, are copied and persisted."""
    for key, number in numbers.items():
        await world.assigned(key)
        world.first.copy(key, number)
        world.kafka.ends[REMOTES[key]] = world.kafka.ends.get(REMOTES[key], 0) + number
    await eventually(lambda: all(world.record(p).target_offset == world.kafka.ends[REMOTES[p]] for p in numbers))


async def test_routes_begin_where_their_flow_does(world: World) -> None:
    """However much later they look at the source: between the two nothing is lost."""
    world.kafka.leaderless.add(REMOTES[TO_EU])
    await started(world)
    assert (await world.assigned(ORDERS)).anchor.source_offset == 7
    world.kafka.source_ends[ORDERS.source] = 50
    await copied(world, {ORDERS: 20})
    world.kafka.leaderless.clear()
    given = await world.assigned(TO_EU)
    assert (given.anchor.source_offset, given.target) == (7, REMOTES[TO_EU])
    assert given.transforms == world.record(ORDERS).transforms
    assert world.record(ORDERS).routes_from == world.record(TO_EU).begins_at == 7


async def test_a_pause_of_the_flow_is_one_of_its_routes(world: World) -> None:
    """Its lines are shown with its own, and its trouble with the source is answered with its own."""
    coordinator = await started(world)
    for key in (ORDERS, TO_EU, TO_US):
        await world.assigned(key)
    assert {line.flow for line in await coordinator.partitions("A->B")} == {"A->B", "A->B#eu", "A->B#us"}
    await coordinator.pause("A->B", "orders")
    await eventually(lambda: not world.first.held)
    assert {line.state for line in await coordinator.partitions()} == {"paused"}
    await coordinator.resume("A->B", "orders")
    trouble = PartitionFault(kind="transform_failed", text="it is bad", source_from=9, source_to=10)
    for key in (ORDERS, TO_EU, TO_US):
        await world.assigned(key)
    for key in (ORDERS, TO_EU):
        world.first.stop_partition(key, "it is bad", trouble)
    await shown(coordinator.partitions, lambda rows: [row.trouble for row in rows].count("transform_failed") == 2)
    await coordinator.resolve("A->B", "orders", 0, "skip")
    await eventually(lambda: all(world.record(key).skip == ((9, 10),) for key in (ORDERS, TO_EU)))
    assert world.record(TO_US).skip == ()


async def test_who_is_behind_comes_to_the_same_place_before_the_flow_ends(world: World) -> None:
    """Then other transforms take effect there, for all; a new route begins there, and one that is gone ends."""
    coordinator = await started(world)
    await copied(world, {ORDERS: 20, TO_EU: 5, TO_US: 20})
    ending = asyncio.create_task(coordinator.down(10.0))
    await eventually(lambda: world.first.assigned[TO_EU].end_offset == 27)
    assert world.first.assigned[TO_EU].anchor.source_offset == 12
    assert ORDERS not in world.first.held
    await copied(world, {TO_EU: 15})
    assert await ending
    assert {world.record(key).aligned_at for key in (ORDERS, TO_EU, TO_US)} == {27}
    assert world.record(TO_EU).end_offset is None

    world.kafka.source_ends[ORDERS.source] = 99
    await started(world, by_first(u="asia"))
    to_asia = partition("orders", name=FLOW._replace(route="asia"))
    places = {key: (await world.assigned(key)).anchor.source_offset for key in (ORDERS, TO_EU, to_asia)}
    assert set(places.values()) == {27}
    assert world.record(ORDERS).aligned_at is None
    assert TO_US not in world.first.held


async def test_a_route_that_comes_back_goes_on_where_its_flow_routes_again(world: World) -> None:
    """What lies between was for the flow's own topic."""
    first = await started(world)
    await copied(world, {ORDERS: 20, TO_EU: 20, TO_US: 20})
    assert await first.down(10.0)
    second = await started(world, by_first(u=""))
    await copied(world, {ORDERS: 10, TO_EU: 10})
    assert await second.down(10.0)
    await started(world)
    assert (await world.assigned(TO_US)).anchor.source_offset == 37
    assert (await world.assigned(TO_US)).anchor.target_offset == 20


async def test_transforms_do_not_change_where_a_route_is_behind(world: World) -> None:
    """Nobody gets the partition, and its line says what to do; put back, all go on."""
    coordinator = await started(world)
    await copied(world, {ORDERS: 20, TO_EU: 5, TO_US: 20})
    world.abandon(coordinator)
    # As after a crash: nobody has brought them together.
    world.first.alive = False
    world.memory.blob = None
    changed = await started(world, by_first(u="asia"))
    rows = await shown(
        changed.partitions, lambda rows: any((row.flow, row.state) == ("A->B", "stopped") for row in rows)
    )
    (line,) = [row for row in rows if row.flow == "A->B"]
    assert "its routes have not come to the same source offset" in (line.reason or "")
    assert not any(replicator.held for replicator in world.ray.replicators.values() if replicator.alive)
    assert await changed.down(10.0)
    await started(world)
    assert (await world.assigned(TO_EU)).anchor.source_offset == 12


async def test_an_end_that_a_dead_coordinator_set_is_lifted(world: World) -> None:
    """Also where the copier has passed over what lies behind it."""
    coordinator = await started(world)
    await copied(world, {ORDERS: 20, TO_EU: 5, TO_US: 20})
    ending = asyncio.create_task(coordinator.down(10.0))
    await eventually(lambda: world.first.assigned[TO_EU].end_offset == 27)
    ending.cancel()
    world.abandon(coordinator)
    await started(world)
    world.first.copy(TO_EU, 100)
    await eventually(lambda: world.record(TO_EU).end_offset is None)
    assert world.record(TO_EU).source_offset == 27


async def test_no_backfill_of_a_topic_that_is_routed(world: World) -> None:
    """It would have a part of the records alone."""
    coordinator = await started(world)
    await world.assigned(TO_EU)
    for name in ("A->B", "A->B#eu"):
        with pytest.raises(ConfigError, match="rout"):
            await coordinator.backfill(name, BackfillRequest(topic="orders", into="again"))


def test_where_all_have_to_stop() -> None:
    """At the furthest; where one has nothing yet, nobody is waited for."""
    one, two, three = (TopicPartition("t", number) for number in range(3))
    family: list[Positions] = [{one: 5, two: 9, three: 4}, {one: 7, two: None}, {one: 7, three: 4}]
    assert stops(family) == [{one: 7}, {}, {}]
    assert aligned(family) == {three: 4}
    assert FlowName.parse("A->B#eu") == EU
