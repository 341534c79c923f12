"""Settings changed while everything around the coordinator is in memory: what they don't touch does not stop."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.coordinator.service import CoordinatorService
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.names import FlowName
from tests.unit.coordinator.fakes import ORDERS, World, eventually, flow, partition, texts
from tests.unit.coordinator.fakes import settings as of_flows

_B_TO_C = FlowName("B", "C")


def _flow(*include: str, **options: Any) -> FlowSettings:
    return flow(topics={"refresh_interval_s": 60.0, "include": include}, **options)


def settings(*flows: FlowSettings) -> MirrorSettings:
    """With a lease that settings allow."""
    return of_flows(*flows).model_copy(update={"lease_ms": 1000})


def _moved(world: World, topic: str) -> list[str]:
    """What has been done with the topic's partitions."""
    return [line for line in world.kafka.log if line.startswith(("assign", "release")) and f" {topic}-" in line]


async def _begun(world: World, *flows: FlowSettings) -> CoordinatorService:
    for topic in ("orders", "payments", "users"):
        world.kafka.add_topic("A", topic, 2)
    coordinator = await world.running(settings(*flows))
    await eventually(lambda: len(world.first.held) == 4)
    return coordinator


async def test_a_filter_moves_only_what_comes_and_goes(world: World) -> None:
    """One topic leaves and one comes, at once and not at the next refresh; the one that stays keeps its epoch.

    The one that left comes back later, and goes on where it was.
    """
    coordinator = await _begun(world, _flow("orders", "payments"))
    held = world.first.held
    world.first.copy(partition("payments"), 50)
    await coordinator.apply(settings(_flow("orders", "users")))
    await eventually(lambda: {partition.topic for partition in held} == {"orders", "users"})
    await eventually(lambda: len(held) == 4)
    assert {row.topic for row in await coordinator.topics()} == {"orders", "users"}
    await coordinator.apply(settings(_flow("orders", "users", "payments")))
    await eventually(lambda: len(held) == 6)
    again = world.first.assigned[partition("payments")]
    assert (again.epoch, again.anchor.source_offset) == (2, 50)
    assert len(_moved(world, "orders")) == 2
    assert "flow stopped" not in await texts(coordinator)


async def test_another_flow_leaves_the_first_alone(world: World) -> None:
    """A flow that comes with names of its own, which all flows are told of, and goes again, moves nothing of A->B."""
    coordinator = await _begun(world, _flow("orders", "payments"))
    named = flow("B->C", topics={"map": {"clicks": "all-clicks"}, "refresh_interval_s": 0.005})
    world.kafka.add_topic("B", "clicks")
    await coordinator.apply(settings(_flow("orders", "payments"), named))
    await world.until_held(partition("clicks", 0, _B_TO_C))
    await coordinator.apply(settings(_flow("orders", "payments")))
    await eventually(lambda: partition("clicks", 0, _B_TO_C) not in world.first.held)
    assert len(_moved(world, "orders") + _moved(world, "payments")) == 4


@pytest.mark.parametrize(
    "options",
    [{"groups": {"include": ("ours",)}}, {"heartbeats": {"emit_interval_s": 9.0}}, {"trouble": {"policy": "skip"}}],
)
async def test_what_runs_beside_stops_no_copy(world: World, options: dict[str, Any]) -> None:
    """Groups, heartbeats, and what becomes of troubles: no partition is released or assigned for them."""
    coordinator = await _begun(world, _flow("orders", "payments"))
    await coordinator.apply(settings(_flow("orders", "payments", **options)))
    await eventually(lambda: world.first.fingerprint == coordinator.parts.pool.context.fingerprint)
    assert len(_moved(world, "orders") + _moved(world, "payments")) == 4


async def test_the_data_path_begins_its_flow_anew_and_no_other(world: World) -> None:
    """What the copying itself depends on drains the flow and begins it again."""
    other = flow("A->C", topics={"include": ("users",)})
    for topic in ("orders", "users"):
        world.kafka.add_topic("A", topic)
    coordinator = world.coordinator()
    await coordinator.apply(settings(_flow("orders"), other))
    await eventually(lambda: len(world.first.held) == 2)
    await coordinator.apply(settings(_flow("orders", fetch={"max_wait_ms": 100}), other))
    await eventually(lambda: world.first.assigned[ORDERS].epoch == 2)
    assert len(_moved(world, "users")) == 1


async def test_bad_settings_change_nothing(world: World) -> None:
    """One bad flow among good changes: each mistake is reported, and the system runs on as it was, later flows too."""
    coordinator = await _begun(world, _flow("orders", "payments"))
    before, log = coordinator.parts.settings, len(world.kafka.log)
    bad = [flow("A->C", topics={"include": ("(",)}), flow("B->C", policy={"class_name": "no.such.Policy"})]
    with pytest.raises(ConfigError) as refused:
        await coordinator.apply(settings(_flow("users"), flow("C->B"), *bad))
    assert [problem.partition(":")[0] for problem in refused.value.problems] == [
        "A->C",
        "B->C",
        "nothing has been changed",
    ]
    assert coordinator.parts.settings is before
    assert world.kafka.log[log:] == ["close C->B"]
    assert {partition.topic for partition in world.first.held} == {"orders", "payments"}


async def test_set_changes_single_keys(world: World) -> None:
    """A dry run only says it; the change outlives the coordinator, and the next settings replace it."""
    coordinator = await _begun(world, _flow("orders", "payments"))
    held = world.first.held
    dry = await coordinator.set("A->B", {"topics.include": "users"}, dry_run=True)
    assert str(dry) == "A->B configured (topics)"
    assert {partition.topic for partition in held} == {"orders", "payments"}
    assert await coordinator.set("A->B", {"topics.include": "users"}) == dry
    await eventually(lambda: {partition.topic for partition in held} == {"users"})
    assert "settings changed: A->B configured (topics)" in await texts(coordinator)
    await coordinator.set(None, {"replicators": "2"})
    await eventually(lambda: len(world.ray.replicators) == 2)
    with pytest.raises(ConfigError, match="did you mean include"):
        await coordinator.set("A->B", {"topics.inclde": "orders"})
    second = await world.another(coordinator)
    assert (await second.configuration()).flows[0].topics.include == ("users",)
