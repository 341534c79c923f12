"""Partitions change hands although nobody has seen their holder dead, and coordinators meet."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from mirror_ray.model.errors import StateFencedError
from mirror_ray.model.lease_terms import LeaseTerms
from mirror_ray.model.names import FlowPartition
from mirror_ray.model.replicator_health import ReplicatorHealth
from tests.unit.coordinator.fake_ray import FakeRay, FakeReplicator
from tests.unit.coordinator.fakes import FLOW, LEASE_MS, ORDERS, QUICK, World, eventually, settings, shown, texts
from tests.unit.coordinator.virtual_clock import virtual_loop

_WAIT_S = LeaseTerms(LEASE_MS).takeover_s


async def _one_each(world: World) -> tuple[FakeReplicator, FakeReplicator, FlowPartition, int]:
    """Two replicators with a partition each, the second one's, and how long the log is by now."""
    _, pool = await world.divided(2)
    return pool[1], pool[2], next(iter(pool[2].held)), len(world.kafka.log)


async def _assigned(world: World, stray: FlowPartition, since: int) -> float:
    """Wait until the partition is assigned after that line of the log; seconds from the first higher epoch on."""
    log = world.kafka.log

    def first(line: str) -> float | None:
        return next(
            (at_s for text, at_s in zip(log[since:], log.times_s[since:], strict=True) if text.startswith(line)), None
        )

    await eventually(lambda: first(f"assign {stray} ") is not None, 10)
    fenced_s, assigned_s = first(f"write grant/{stray.topic}/{stray.partition}"), first(f"assign {stray} ")
    assert fenced_s is not None
    assert assigned_s is not None
    return assigned_s - fenced_s


def _first_epoch(world: World, stray: FlowPartition, since: int) -> int:
    line = next(line for line in world.kafka.log[since:] if line.startswith(f"assign {stray} "))
    return int(line.split(" epoch ")[1].split()[0])


async def test_partitions_of_a_lost_node_wait_for_the_lease(world: World) -> None:
    """A higher epoch is written at once; only when the lease has run out after it is the partition handed out."""
    _, lost, stray, before = await _one_each(world)
    lost.lost = True
    assert await _assigned(world, stray, before) > _WAIT_S - 0.1
    # Once for the old holder to see, once for the new one.
    assert _first_epoch(world, stray, before) == 3
    assert any("nobody has seen dead" in text for text in await texts(world.coordinators[0]))


async def test_partitions_of_a_dead_process_are_handed_out_at_once(world: World) -> None:
    """A death that was seen needs no waiting."""
    _, dead, stray, before = await _one_each(world)
    dead.alive = False
    assert await _assigned(world, stray, before) < _WAIT_S / 2
    assert not any("nobody has seen dead" in text for text in await texts(world.coordinators[0]))


async def test_silent_replicator_that_nobody_sees_dead_is_waited_out(world: World) -> None:
    """Killed, but its node does not say whether it is dead."""
    _, silent, stray, before = await _one_each(world)

    async def unseen() -> bool:
        world.kafka.log.append(f"kill {silent.id}")
        silent.lost = True
        await asyncio.sleep(10)
        return True

    silent.silent, silent.seen_dead = True, unseen  # type: ignore[method-assign]
    assert await _assigned(world, stray, before) > _WAIT_S - 0.1


async def test_silent_replicators_partitions_go_elsewhere_and_it_is_used_again(world: World) -> None:
    """Nobody kills it for the time being: others have what it had after its lease, and when it answers it helps."""
    world.timing = replace(QUICK, unresponsive_s=60.0)
    first, silent, stray, before = await _one_each(world)
    silent.silent = True
    assert await _assigned(world, stray, before) > _WAIT_S - 0.1
    assert stray in first.held
    # As it does when it reads the state topic.
    silent.give_up(stray)
    silent.silent = False
    await eventually(lambda: len(first.held) == len(silent.held) == 1)
    events = await world.coordinators[0].events()
    assert any(event.level == "error" and "others take over orders-" in event.text for event in events)
    assert not world.kafka.log.beginning("kill", "spawn 3")


async def test_silent_replicator_without_others_keeps_what_it_has(world: World) -> None:
    """Taking it away would only stop the copy: it may still be going on."""
    world.timing = replace(QUICK, unresponsive_s=60.0)
    await world.copying("orders", partitions=2)
    before = len(world.kafka.log)
    world.first.silent = True
    await asyncio.sleep(5 * QUICK.silent_s)
    world.first.silent = False
    await eventually(world.coordinators[0].parts.pool.candidates)
    assert not world.kafka.log.beginning("write grant", "assign", "release", since=before)


async def test_a_coordinator_that_stood_still_blames_nobody(world: World) -> None:
    """It was stopped itself: that it heard nothing meanwhile costs no replicator its partitions or its life."""
    world.timing = replace(QUICK, silent_s=0.5, unresponsive_s=0.6)
    _, asked, _, before = await _one_each(world)
    asked.silent = True
    await asyncio.sleep(0.02)
    virtual_loop().stand_still(1.0)
    await asyncio.sleep(0.02)
    asked.silent = False
    await eventually(lambda: len(world.coordinators[0].parts.pool.candidates()) == 2)
    assert not world.kafka.log.beginning("kill", "assign", "release", since=before)


async def test_unwritten_epoch_holds_the_takeover_up(world: World) -> None:
    """While the state can't be written, the lease has not begun to run out."""
    _, lost, stray, before = await _one_each(world)
    world.kafka.unreachable.add("B")
    lost.lost = True
    await asyncio.sleep(_WAIT_S)
    world.kafka.unreachable.clear()
    assert await _assigned(world, stray, before) > _WAIT_S - 0.1


async def test_a_new_coordinator_waits_for_what_nobody_gave_back(world: World) -> None:
    """Partitions of a replicator that was lost while no coordinator ran are fenced; the others are adopted."""
    kept, lost, stray, _ = await _one_each(world)
    (same,) = kept.held
    world.abandon(world.coordinators[0])
    lost.lost = True
    before = len(world.kafka.log)
    await world.another()
    assert await _assigned(world, stray, before) > _WAIT_S - 0.1
    assert not world.kafka.log.beginning(f"assign {same} ", since=before)


async def test_a_new_coordinator_does_not_wait_for_long_for_a_replicator_that_hangs(world: World) -> None:
    """What it has is handed out when its lease has run out; what it says later is too late."""
    kept, hung, stray, _ = await _one_each(world)
    (same,) = kept.held
    world.abandon(world.coordinators[0])
    answers = asyncio.Event()
    health = hung.health

    async def at_last() -> ReplicatorHealth:
        await answers.wait()
        return await health()

    hung.health = at_last  # type: ignore[method-assign]
    world.timing = replace(QUICK, start_timeout_s=60.0)
    before = len(world.kafka.log)
    await world.another()
    assert await _assigned(world, stray, before) > _WAIT_S - 0.1
    assert kept.held.keys() == {stray, same}
    hung.give_up(stray)
    answers.set()
    await eventually(lambda: len(kept.held) == len(hung.held) == 1)


async def test_nothing_waits_after_down(world: World) -> None:
    """What down gave back is handed out at once by the next start."""
    await _one_each(world)
    assert await world.coordinators[0].down(2.0)
    state = world.kafka.states[FLOW]
    assert [state[f"grant/orders/{number}"]["lease_ms"] for number in (0, 1)] == [0, 0]
    before = len(world.kafka.log)
    await world.running()
    assert await _assigned(world, ORDERS, before) < _WAIT_S / 2


async def test_paused_partition_is_given_back(world: World) -> None:
    """A pause leaves no lease behind."""
    await _one_each(world)
    await world.coordinators[0].pause("A->B")
    state = world.kafka.states[FLOW]
    await eventually(lambda: [state[f"grant/orders/{number}"]["lease_ms"] for number in (0, 1)] == [0, 0])


async def test_given_up_partition_is_handed_out_again(world: World) -> None:
    """A replicator that dropped a partition by itself does not keep it in our books."""
    first, second, dropped, before = await _one_each(world)
    second.give_up(dropped)
    await eventually(lambda: world.kafka.log.beginning(f"assign {dropped} ", since=before))
    assert len(first.held) + len(second.held) == 2


async def test_a_fenced_coordinator_stops_acting_for_the_flow(world: World) -> None:
    """Another system opens the state: the first one says so, takes nothing back and hands nothing out any more."""
    first, second, _, before = await _one_each(world)
    coordinator = world.coordinators[0]
    # Same Kafka, but a Ray of its own, with a log of its own.
    other = World(kafka=world.kafka)
    other.ray = FakeRay([])
    await other.coordinator().apply(settings())
    pool = other.ray.replicators
    await eventually(lambda: 1 in pool and len(pool[1].held) == 2, 10)
    for replicator in (first, second):
        replicator.give_up(next(iter(replicator.held)))
    status = await shown(coordinator.status, lambda status: status.flows[0].state == "degraded")
    assert any("another coordinator" in problem for problem in status.flows[0].problems)
    with pytest.raises(StateFencedError):
        await coordinator.pause("A->B")
    await asyncio.sleep(0.1)
    assert not world.kafka.log.beginning("assign", "release", since=before)
    assert not first.held
    assert not second.held
    assert any("another coordinator" in text for text in await texts(coordinator))
    # Two systems that sync the same groups would take each other's commits for somebody else's.
    await eventually(lambda: not world.group_settings[-1].flows[0].groups.emit_checkpoints_enabled, 10)
    assert other.group_settings[-1].flows[0].groups.emit_checkpoints_enabled


async def test_what_another_coordinator_took_is_missed(world: World) -> None:
    """One that does not know that it was replaced took a partition back, and heard of it alone."""
    world.timing = replace(QUICK, recount_s=0.05)
    await world.copying("orders", partitions=2)
    taken, _ = world.first.held.popitem()
    await eventually(lambda: taken in world.first.held)
