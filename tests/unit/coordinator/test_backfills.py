"""A coordinator that begins, resumes and ends backfills, with everything around it in memory."""

from __future__ import annotations

import pytest

from mirror_ray.cli.backfill import read_request
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.service import CoordinatorService
from mirror_ray.model.assignment import NO_END, Assignment
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.names import FlowName, FlowPartition, TopicPartition
from mirror_ray.state.schema import PARTITION
from tests.unit.coordinator.fakes import FLOW, ORDERS, REMOTE, World, eventually, flow, settings

INTO_AGAIN = read_request("orders", "0@5,1@0", "0@20,1@10", into="again")


def held(world: World, name: str, number: int) -> Assignment | None:
    """What the replicator was given last of a backfill's partition."""
    replicator = world.ray.replicators.get(1)
    key = FlowPartition(FlowName.parse(name), "orders", number)
    return replicator.assigned.get(key) if replicator is not None and key in replicator.held else None


async def filled(world: World, wanted: MirrorSettings | None = None) -> CoordinatorService:
    """A system that copies a topic of three partitions with twenty records each."""
    world.kafka.source_ends |= {TopicPartition("orders", number): 20 for number in range(3)}
    return await world.copying("orders", partitions=3, wanted=wanted)


async def test_a_backfill_ends_by_itself(world: World) -> None:
    """It is given out with its bounds, beside the live copy; at its end it is taken back, and its state goes."""
    coordinator = await filled(world)
    planned = await coordinator.backfill("A->B", INTO_AGAIN, dry_run=True)
    assert (planned.state, planned.offsets) == ("planned", 25)
    assert not await coordinator.backfills()
    name = (await coordinator.backfill("A->B", INTO_AGAIN)).name
    await eventually(lambda: held(world, name, 0) and held(world, name, 1))
    given = held(world, name, 0)
    assert given is not None
    assert (given.target, given.anchor.source_offset, given.end_offset) == (TopicPartition("again", 0), 5, 20)
    assert given.skip == ((20, NO_END),)
    assert held(world, name, 2) is None
    live = world.first.assigned[ORDERS]
    assert (live.end_offset, live.skip) == (NO_END, ())
    key = FlowPartition(FlowName.parse(name), "orders", 0)
    world.first.copy(key, 15)
    await eventually(lambda: held(world, name, 0) is None)
    (status,) = await coordinator.backfills("A->B")
    assert (status.state, status.copied) == ("copying", 15)
    assert [row.flow for row in (await coordinator.status()).flows] == ["A->B"]
    assert {row.flow for row in await coordinator.partitions()} == {"A->B"}
    world.first.copy(key._replace(partition=1), 10)
    await eventually(lambda: FlowName.parse(name) not in world.kafka.states)
    (status,) = await coordinator.backfills()
    assert (status.state, status.copied) == ("done", 25)
    assert ORDERS in world.first.held
    assert (await coordinator.backfill("A->B", INTO_AGAIN)).state == "done"


async def test_a_new_coordinator_goes_on_with_it(world: World) -> None:
    """From where it is, with the bounds of before, though the source has grown."""
    coordinator = await filled(world)
    request = read_request("orders", "earliest", None, into="again", partitions="0")
    name = (await coordinator.backfill("A->B", request)).name
    await eventually(lambda: held(world, name, 0))
    key = FlowPartition(FlowName.parse(name), "orders", 0)
    world.first.copy(key, 7)
    where = TopicPartition("orders", 0)
    await eventually(lambda: world.kafka.states[key.flow][PARTITION.key(where)]["source_offset"] == 7)
    world.abandon(coordinator)
    world.first.alive = False
    world.kafka.source_ends[where] = 1_000
    world.kafka.grow("A", "orders", 4)
    again = await world.another()
    await eventually(lambda: (given := held(world, name, 0)) is not None and given.anchor.source_offset == 7)
    given = held(world, name, 0)
    assert given is not None
    assert given.end_offset == 20
    with pytest.raises(ConfigError, match="under way"):
        await again.backfill("A->B", INTO_AGAIN)
    assert (await again.backfill("A->B", request)).name == name
    assert held(world, name, 3) is None


async def test_cancelled_and_gone_on_with(world: World) -> None:
    """What is cancelled is taken back and stays known; the same words go on where it was; a new topic begins anew."""
    coordinator = await filled(world)
    name = (await coordinator.backfill("A->B", INTO_AGAIN)).name
    await eventually(lambda: held(world, name, 0))
    world.first.copy(FlowPartition(FlowName.parse(name), "orders", 0), 4)
    cancelled = await coordinator.cancel_backfill("A->B", "orders", "again")
    assert (cancelled.state, cancelled.copied) == ("cancelled", 4)
    assert held(world, name, 0) is None
    with pytest.raises(ConfigError, match="no backfill of orders into again"):
        await coordinator.cancel_backfill("A->B", "orders", "again")
    assert (await coordinator.backfill("A->B", INTO_AGAIN)).name == name
    await eventually(lambda: (given := held(world, name, 0)) is not None and given.anchor.source_offset == 9)
    await coordinator.cancel_backfill("A->B", "orders", "again")
    world.kafka.add_topic("B", "again", 3)
    fresh = await coordinator.backfill("A->B", INTO_AGAIN)
    assert fresh.name != name
    await eventually(lambda: (given := held(world, fresh.name, 0)) is not None and given.anchor.source_offset == 5)


async def test_behind_the_live_copy(world: World) -> None:
    """The live copy learns first that others write its topic, and both have producers of their own."""
    coordinator = await filled(world, settings(flow(topics={"refresh_interval_s": 0.005, "start": "latest"})))
    with pytest.raises(ConfigError, match="--behind"):
        await coordinator.backfill("A->B", read_request("orders", "earliest", None))
    request = read_request("orders", "earliest", None, behind=True)
    name = (await coordinator.backfill("A->B", request)).name
    await eventually(lambda: held(world, name, 2))
    given, live = held(world, name, 0), world.first.assigned[ORDERS]
    assert given is not None
    assert (given.target, given.end_offset) == (REMOTE, 20)
    assert given.shared
    assert live.shared
    assert given.producer_id != live.producer_id
    log = world.kafka.log
    shared = next(n for n, line in enumerate(log) if line.startswith("assign A->B orders-0") and "epoch 2" in line)
    assert shared < next(n for n, line in enumerate(log) if line.startswith(f"assign {name} orders-0"))


async def test_it_ends_and_begins_with_its_flow(world: World) -> None:
    """Other settings of the flow: both begin anew, and nothing of it is left behind when the flow goes."""
    coordinator = await filled(world)
    name = (await coordinator.backfill("A->B", INTO_AGAIN)).name
    await eventually(lambda: held(world, name, 0))
    await coordinator.apply(settings(flow(fetch={"max_wait_ms": 100})))
    await eventually(lambda: (given := held(world, name, 0)) is not None and given.epoch > 1)
    await coordinator.apply(settings(flow(enabled=False)))
    assert not world.first.held
    assert world.kafka.states[FLOW]


async def test_not_behind_a_copy_that_was_reversed(world: World) -> None:
    """What lies before the live copy's beginning was copied the other way: only a topic of its own may get it."""
    world.kafka.states.setdefault(FLOW, {})["reversed"] = {"turn": 2, "away": False, "time_ms": 1}
    coordinator = await filled(world)
    with pytest.raises(ConfigError, match="was reversed"):
        await coordinator.backfill("A->B", read_request("orders", "earliest", None))
    assert (await coordinator.backfill("A->B", INTO_AGAIN)).state != "refused"
