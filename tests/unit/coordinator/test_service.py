"""What a coordinator keeps, shows and takes up again, with everything around it in memory."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from unittest.mock import ANY

import pytest

from mirror_ray.coordinator.service import CoordinatorService
from mirror_ray.model.assignment import Assignment, PartitionReport, PartitionState
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.names import FlowName
from tests.unit.coordinator import fake_ray
from tests.unit.coordinator.fake_ray import report_of
from tests.unit.coordinator.fakes import (
    FLOW,
    LEASE_MS,
    ORDERS,
    QUICK,
    World,
    eventually,
    flow,
    partition,
    settings,
    shown,
)


async def test_anchor_is_persisted_before_the_first_assignment(world: World) -> None:
    """A new topic is created on the target, its producer and anchor are written, and only then is it handed out."""
    world.kafka.add_topic("A", "orders")
    await world.running()
    await eventually(lambda: world.kafka.log.beginning("assign"))
    log = world.kafka.log
    steps = ["create A.orders 1", "write flow", "write partition/orders/0", "write grant/orders/0"]
    assert all(log.index(step) < log.place("assign") for step in steps)
    state = world.kafka.states[FLOW]
    assert state["grant/orders/0"] == {"epoch": 1, "lease_ms": LEASE_MS, "owner": ANY}
    assert state["flow"]["producer_id"] == 4242


async def test_progress_is_persisted_and_shown(world: World) -> None:
    """Acknowledged pairs reach the state topic and the status."""
    coordinator = await world.copying("orders")
    world.first.copy(ORDERS, 50)
    await eventually(lambda: world.kafka.states[FLOW]["partition/orders/0"]["source_offset"] == 50)
    (line,) = await coordinator.partitions("A->B")
    assert (line.position, line.lag_records, line.records, line.state) == (50, 0, 50, "copying")
    status = await coordinator.status()
    assert (status.flows[0].state, status.flows[0].lag_records, status.flows[0].records) == ("running", 0, 50)


async def test_pause_takes_back_and_outlives_a_restart(world: World) -> None:
    """A paused topic is released, stays so under the next coordinator, and resumes where it was."""
    for topic in ("orders", "other"):
        world.kafka.add_topic("A", topic)
    coordinator = await world.running()
    held = world.first.held if world.ray.replicators else {}
    await eventually(lambda: len(world.first.held) == 2)
    await coordinator.pause("A->B", "orders")
    await eventually(lambda: ORDERS not in world.first.held)
    assert {row.topic: row.state for row in await coordinator.topics()} == {"orders": "paused", "other": "copying"}
    second = await world.another(coordinator)
    await _until(second, "orders", "paused")
    assert ORDERS not in world.first.held
    await second.resume("A->B", "orders")
    await world.until_held(ORDERS)
    assert not held or held is world.first.held


async def _until(coordinator: CoordinatorService, topic: str, state: str) -> None:
    await shown(coordinator.topics, lambda rows: any((row.topic, row.state) == (topic, state) for row in rows))


async def test_restarted_coordinator_adopts_without_moving_anything(world: World) -> None:
    """The new coordinator finds settings, state and living replicators; no partition is released or assigned."""
    first, pool = await world.divided(4)
    world.abandon(first)
    before = len(world.kafka.log)
    second = await world.another()
    await shown(second.partitions, lambda rows: [row.state for row in rows] == ["copying"] * 4)
    pool[1].copy(next(iter(pool[1].held)), 20)
    await eventually(lambda: any("partition" in line for line in world.kafka.log[before:]))
    assert not world.kafka.log.beginning("assign", "release", "spawn", "create", since=before)


async def test_unreachable_cluster_of_one_flow_leaves_the_others_alone(world: World) -> None:
    """A->C can't be reached and says so; A->B copies; A->C follows when its cluster is back."""
    world.kafka.add_topic("A", "orders")
    world.kafka.unreachable.add("C")
    coordinator = world.coordinator()
    await coordinator.apply(settings(flow(), flow("A->C")))
    await world.until_held(ORDERS)
    status = {row.flow: row for row in (await coordinator.status()).flows}
    assert status["A->C"].state == "unreachable"
    assert "C can't be reached" in status["A->C"].problems[0]
    world.kafka.unreachable.clear()
    await eventually(lambda: partition("orders", 0, FlowName("A", "C")) in world.first.held)


async def test_at_least_once_needs_no_producer(world: World) -> None:
    """No producer id is asked for; going back to exactly once asks for one."""
    coordinator = await world.copying("orders", wanted=settings(flow(produce={"delivery_guarantee": "at_least_once"})))
    assert world.first.assigned[ORDERS].producer_id == -1
    assert world.kafka.producers == 0
    await coordinator.apply(settings())
    await eventually(lambda: world.first.assigned[ORDERS].producer_id == 4242)


async def test_other_cluster_behind_an_alias_is_refused(world: World) -> None:
    """A flow whose state tells of another target cluster does not run, and says both ids."""
    first = await world.copying("orders")
    world.kafka.cluster_ids["B"] = "elsewhere"
    await eventually(lambda: ORDERS not in world.first.held)
    (status,) = (await first.status()).flows
    assert "elsewhere" in status.problems[0]
    assert "cluster-B" in status.problems[0]


async def test_a_flow_starts_until_all_of_it_has_copied_and_never_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition without an answer from its replicator keeps it starting; a topic that comes later does not."""
    for topic in ("orders", "slow"):
        world.kafka.add_topic("A", topic)
    establishing = {"slow", "late"}

    def slow(assignment: Assignment) -> PartitionReport:
        state: PartitionState = "establishing" if assignment.partition.topic in establishing else "copying"
        return replace(report_of(assignment), state=state)

    monkeypatch.setattr(fake_ray, "report_of", slow)
    coordinator = await world.running()
    await _until(coordinator, "orders", "copying")
    await _until(coordinator, "slow", "establishing")
    assert (await coordinator.status()).flows[0].state == "starting"
    replicator = world.first
    replicator.held[partition("slow")] = replace(replicator.held[partition("slow")], state="copying")
    replicator.changed.add(partition("slow"))
    await shown(coordinator.status, lambda status: status.flows[0].state == "running")
    await asyncio.sleep(4 * QUICK.step_s)
    world.kafka.add_topic("A", "late")
    await _until(coordinator, "late", "establishing")
    assert (await coordinator.status()).flows[0].state == "running"


async def test_apply_leaves_unchanged_flows_alone(world: World) -> None:
    """Adding a flow releases nothing of the one that runs; removing it takes its partitions back."""
    coordinator = await world.copying("orders")
    before = len(world.kafka.log)
    await coordinator.apply(settings(flow(), flow("A->C")))
    other = partition("orders", 0, FlowName("A", "C"))
    await eventually(lambda: other in world.first.held)
    assert not world.kafka.log.beginning("release", since=before)
    await coordinator.apply(settings())
    await eventually(lambda: other not in world.first.held)
    assert ORDERS in world.first.held


async def test_unknown_flow_and_useless_scale_are_config_errors(world: World) -> None:
    """An operator's slip is answered with the names that exist."""
    coordinator = await world.running()
    with pytest.raises(ConfigError, match="A->B"):
        await coordinator.pause("X->Y")
    with pytest.raises(ConfigError, match="at least one"):
        await coordinator.scale(0)
    for act in (coordinator.scale(10**9), coordinator.apply(settings(), 10**9), coordinator.scale_by_load(1, 10**9)):
        with pytest.raises(ConfigError, match="1000000000 is too large: at most 1,000, all of which one coordinator"):
            await act


async def test_only_what_a_flow_has_is_paused(world: World) -> None:
    """A topic that it does not copy, and a partition that is not there, are slips."""
    coordinator = await world.copying("orders", partitions=2)
    for topic, number, says in (
        ("<b>x", None, "can't be a topic's name"),
        ("orders", -7, "flow A->B: -7 is no partition: they are numbered from 0"),
        ("orders", 2, "orders has 2 partitions, numbered from 0: not 2"),
        ("order", None, "it copies no topic order; did you mean orders?"),
    ):
        with pytest.raises(ConfigError, match=says):
            await coordinator.pause("A->B", topic, number)
    await coordinator.pause("A->B", "orders", 1)
    await eventually(lambda: partition("orders", 1) not in world.first.held)
