"""The number of replicators follows load, nodes and operators, with everything around the coordinator in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mirror_ray.config.settings import ElasticSettings, MirrorSettings
from mirror_ray.coordinator.service import CoordinatorService
from mirror_ray.model.errors import ConfigError
from tests.unit.coordinator.fakes import World, eventually, settings, texts


def _elastic(replicators: int = 1, **terms: Any) -> MirrorSettings:
    quick = {"max_replicators": 4, "scale_out_after_s": 0.1, "scale_in_after_s": 0.2, **terms}
    return settings(replicators=replicators).model_copy(update={"elastic": ElasticSettings.model_validate(quick)})


async def _texts(coordinator: CoordinatorService, part: str) -> list[str]:
    return [text for text in await texts(coordinator) if part in text]


async def _running(coordinator: CoordinatorService) -> int:
    return sum(replicator.state == "running" for replicator in await coordinator.replicators())


async def _started(world: World, wanted: MirrorSettings, *shares: int) -> CoordinatorService:
    """Four partitions are copied by replicators with so many each."""
    world.kafka.add_topic("A", "orders", 4)
    coordinator = await world.running(wanted)
    await _shares(world, *shares)
    return coordinator


async def _shares(world: World, *shares: int) -> None:
    """Wait until the living replicators have so many partitions."""
    pool = world.ray.replicators
    await eventually(lambda: sorted(len(one.held) for one in pool.values() if one.alive) == sorted(shares))


async def test_out_with_load_and_in_again(world: World) -> None:
    """One at 90 % gets a second, which makes two at 45 %; both idle, one goes. Each time the log says why."""
    coordinator = await _started(world, _elastic(), 4)
    world.first.cpu, world.ray.cpu = 0.9, 0.45
    await eventually(lambda: len(world.ray.replicators) == 2)
    world.first.cpu = 0.45
    await _shares(world, 2, 2)
    (text,) = await _texts(coordinator, "scale from 1 to 2")
    assert text.startswith("scale from 1 to 2 replicators: replicators at ")
    status = (await coordinator.status()).elastic
    assert status is not None
    assert (str(status), status.wanted) == ("1–4", 2)  # noqa: RUF001 - a range
    # No partition that stayed was handed out anew.
    assert len(world.kafka.log.beginning("release")) == 2
    world.first.cpu = world.ray.replicators[2].cpu = 0.01
    await _shares(world, 4)
    assert await _texts(coordinator, "scale from 2 to 1 replicators: fewer do")


async def test_full_cluster_is_said_once_and_asked_for_more(world: World) -> None:
    """With no room it stays with what it has, and takes the room that comes; then nothing is asked for any more."""
    world.nodes.room = 0
    coordinator = await _started(world, _elastic(scale_in_after_s=60), 4)
    world.first.cpu, world.ray.cpu = 0.9, 0.45
    await eventually(lambda: world.nodes.asked == [1])
    # Several times as long as it takes to ask for one.
    await asyncio.sleep(0.5)
    assert len(world.ray.replicators) == 1
    (text,) = await _texts(coordinator, "no node has")
    assert text.startswith("goes on with 1 of 2 replicators that are needed (replicators at ")
    world.nodes.room = 3
    await eventually(lambda: len(world.ray.replicators) == 2)
    world.first.cpu = 0.45
    await eventually(lambda: world.nodes.asked == [1, 0])


async def test_what_has_no_room_any_more_is_waited_for(world: World) -> None:
    """A replicator is lost with its node and there is no room for another: one goes on; with a new node two do."""
    world.ray.cpu = 0.5
    coordinator = await _started(world, _elastic(replicators=2, scale_in_after_s=60), 2, 2)
    world.nodes.room, world.ray.no_room = 0, True
    world.ray.replicators[2].alive = False
    await _shares(world, 4)
    await eventually(lambda: world.nodes.asked == [1])
    (text,) = await _texts(coordinator, "no node has")
    assert text.startswith("goes on with 1 of 2 replicators that are needed (1 did not come up)")
    assert (await coordinator.status()).flows[0].problems == ()
    world.nodes.room, world.ray.no_room = 1, False
    await _shares(world, 2, 2)
    await eventually(lambda: world.nodes.asked == [1, 0])


async def test_a_node_that_goes_away_is_left_beforehand(world: World) -> None:
    """Another replicator takes the place, gets the partitions by release, and the first is stopped; nothing died."""
    coordinator = await _started(world, settings(), 4)
    world.ray.node_id = "going"
    await coordinator.scale(2)
    await _shares(world, 2, 2)
    kept = set(world.first.held)
    before = len(world.kafka.log)
    world.ray.node_id, world.nodes.leaving = "n", frozenset({"going"})
    await eventually(lambda: 3 in world.ray.replicators and len(world.ray.replicators[3].held) == 2)
    await eventually(lambda: f"stop {world.ray.replicators[2].id}" in world.kafka.log[before:])
    assert not await _texts(coordinator, "died")
    assert await _texts(coordinator, "its node is going away")
    assert (await coordinator.status()).desired_replicators == 2
    assert kept & set(world.first.held)


async def test_an_operators_number_stays_until_load_counts_again(world: World) -> None:
    """``scale 3`` holds against idleness and a restart of the coordinator; ``scale_by_load`` lets it go in."""
    world.kafka.add_topic("A", "orders", 4)
    coordinator = await world.running(_elastic())
    await coordinator.scale(3)
    await _shares(world, 2, 1, 1)
    await asyncio.sleep(0.5)
    assert await _running(coordinator) == 3
    second = await world.another(coordinator)
    await asyncio.sleep(0.5)
    assert await _running(second) == 3
    status = (await second.status()).elastic
    assert status is not None
    assert str(status) == "pinned"
    await second.scale_by_load(maximum=2)
    await _shares(world, 4)
    assert (await second.configuration()).elastic.max_replicators == 2


async def test_what_can_not_be_followed_is_refused(world: World) -> None:
    """Without bounds, or with ones that cross, nothing changes and the error says what to write."""
    coordinator = await world.running()
    with pytest.raises(ConfigError, match="scale --min N --max M"):
        await coordinator.scale_by_load()
    with pytest.raises(ConfigError, match="max_replicators is 2, below min_replicators 3"):
        await coordinator.scale_by_load(3, 2)
    assert (await coordinator.status()).elastic is None


async def test_start_is_within_the_bounds(world: World) -> None:
    """One is configured and two are the least: two; a number that is asked for is brought within them, too."""
    coordinator = await world.running(_elastic(min_replicators=2))
    assert (await coordinator.status()).desired_replicators == 2
    await coordinator.apply(_elastic(min_replicators=2), 9)
    assert (await coordinator.status()).desired_replicators == 4
