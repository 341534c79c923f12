"""The coordinator and transforms: who is copied by which, and when that may change."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_ray.coordinator.service import CoordinatorService
from mirror_ray.state import schema
from tests.support.transforms import steps, suffix
from tests.unit.coordinator.fakes import FLOW, ORDERS, REMOTE, World, eventually, flow, partition, settings, shown

pytestmark = pytest.mark.usefixtures("orders")


async def started(world: World, transforms: dict[str, Any] | None = None, **more: Any) -> CoordinatorService:
    """A system with these transforms."""
    return await world.running(settings(flow(transforms=transforms or {}, **more)))


async def copied_and_ended(world: World, coordinator: CoordinatorService, *, end: int) -> None:
    """50 records were copied and acknowledged, and the target ends at ``end``."""
    await world.assigned()
    world.first.copy(ORDERS, 50)
    world.kafka.ends[REMOTE] = end
    await eventually(lambda: world.record().target_offset == 50)
    assert await coordinator.down(5.0)


async def test_a_new_partition_begins_with_the_transforms_of_its_topic(world: World) -> None:
    """Other topics have none, and keep the flow's producer."""
    world.kafka.add_topic("A", "plain")
    await started(world, steps(suffix(), topics=["orders"]))
    first = await world.assigned()
    assert first.transforms.startswith("tests.support.transforms:Suffix 1 (")
    assert first.producer_id >= 0
    await world.until_held(partition("plain"))
    assert world.first.assigned[partition("plain")].transforms == ""


async def test_what_is_not_pure_is_copied_without_a_producer(world: World) -> None:
    """At least once, though the flow has a producer; again with one when the transform goes."""
    coordinator = await started(world, steps(suffix(kind="Impure")))
    assert (await world.assigned()).producer_id == -1
    await copied_and_ended(world, coordinator, end=50)
    await started(world)
    after = await world.assigned()
    assert (after.transforms, after.anchor.target_offset) == ("", 50)
    assert after.producer_id >= 0


async def test_transforms_change_where_all_is_accounted_for(world: World) -> None:
    """With a producer of its own, from the pair on; what is known of before is not counted anew."""
    coordinator = await started(world, steps(suffix("a")))
    before = await world.assigned()
    await copied_and_ended(world, coordinator, end=50)
    await started(world, steps(suffix("b")))
    after = await world.assigned()
    assert after.transforms_since == after.anchor.source_offset > before.transforms_since == 0
    assert after.transforms != before.transforms
    assert after.producer_id not in (-1, before.producer_id)
    assert (after.anchor.source_offset, after.anchor.target_offset) == (50, 50)
    assert world.record().origin == after.anchor


async def test_transforms_do_not_change_with_records_unaccounted_for(world: World) -> None:
    """The partition is not handed out, its line says what to do; with the earlier transforms it goes on."""
    coordinator = await started(world, steps(suffix("a")))
    before = await world.assigned()
    await copied_and_ended(world, coordinator, end=53)
    changed = await started(world, steps(suffix("b")))
    (line,) = await shown(changed.partitions, lambda rows: rows and rows[0].state == "stopped")
    assert "put the earlier transforms back" in (line.reason or "")
    assert "up to target offset 53" in (line.reason or "")
    assert not any(ORDERS in replicator.held for replicator in world.ray.replicators.values() if replicator.alive)
    assert world.record().transforms == before.transforms
    assert await changed.down(5.0)
    await started(world, steps(suffix("a")))
    assert (await world.assigned()).transforms == before.transforms


async def test_state_from_before_there_were_transforms(world: World) -> None:
    """It is read as of a partition without any, and changes like one."""
    coordinator = await started(world)
    await copied_and_ended(world, coordinator, end=50)
    del world.kafka.states[FLOW][schema.PARTITION.key(ORDERS.source)]["transforms"]
    await started(world, steps(suffix()))
    assert (await world.assigned()).transforms


async def test_a_transform_that_is_not_there_decides_nothing(world: World) -> None:
    """On the coordinator's node the code is missing: what was copied keeps its transforms."""
    coordinator = await started(world, steps(suffix()))
    before = await world.assigned()
    await copied_and_ended(world, coordinator, end=50)
    missing = await started(world, steps(("tests.support.transforms:Missing", {})))
    await shown(missing.status, lambda status: "can't be imported" in " ".join(status.flows[0].problems))
    assert world.record().transforms == before.transforms
