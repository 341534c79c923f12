"""The coordinator with everything around it in memory."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import replace
from functools import partial

import pytest

from actors.coordinator import Coordinator
from actors.fingerprint import fingerprint
from mirror_ray.config.settings import ClusterSettings
from mirror_ray.model.assignment import Assignment, PartitionReport, PartitionState
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.names import FlowName, TopicPartition
from tests.unit.actors import fakes
from tests.unit.actors.fakes import FLOW, QUICK, World, eventually, flow, partition, settings


async def test_anchor_is_persisted_before_the_first_assignment(world: World) -> None:
    """A new topic is created on the target, its producer and anchor are written, and only then is it handed out."""
    world.kafka.add_topic("A", "orders")
    await world.coordinator().apply(settings())
    await eventually(lambda: any(each.startswith("assign") for each in world.kafka.log))
    log = world.kafka.log
    steps = ["create A.orders 1", "write flow", "write partition/orders/0", "write grant/orders/0"]
    assigned = next(index for index, each in enumerate(log) if each.startswith("assign"))
    assert all(log.index(step) < assigned for step in steps)
    state = world.kafka.states[FLOW]
    assert state["grant/orders/0"] == {"epoch": 1, "lease_ms": fakes.LEASE_MS}
    assert state["flow"]["producer_id"] == 4242


async def test_topics_and_partitions_that_appear_are_found(world: World) -> None:
    """A topic created while the flow runs, and partitions added to another, are copied without being told."""
    world.kafka.add_topic("A", "orders")
    coordinator = world.coordinator()
    await coordinator.apply(settings())
    await eventually(lambda: partition("orders") in world.ray.replicators[1].held)
    world.kafka.add_topic("A", "late")
    world.kafka.grow("A", "orders", 3)
    await eventually(lambda: {partition("late"), partition("orders", 2)} <= set(world.ray.replicators[1].held))
    assert "create A.orders 3" in world.kafka.log


async def test_only_what_could_not_be_asked_is_asked_again(world: World) -> None:
    """A topic of many partitions whose leaders come up one by one: all of it once, at the end, in one go."""
    late = TopicPartition("A.orders", 2)
    world.kafka.add_topic("A", "orders", 3)
    world.kafka.leaderless.add(late)
    await world.coordinator().apply(settings())
    await eventually(lambda: len(world.kafka.asked) > 2)
    assert {len(each) for each in world.kafka.asked[1:]} == {1}
    assert not world.ray.replicators[1].held
    world.kafka.leaderless.clear()
    await eventually(lambda: len(world.ray.replicators[1].held) == 3)
    assert [len(each) for each in world.kafka.asked[-2:]] == [1, 3]


async def test_clusters_that_do_not_change_cost_a_look(world: World) -> None:
    """Nothing is gone into while there is nothing new; a topic that appears is."""
    world.kafka.add_topic("A", "orders")
    coordinator = world.coordinator()
    await coordinator.apply(settings())
    await eventually(lambda: partition("orders") in world.ray.replicators[1].held)
    before = world.kafka.selected
    await asyncio.sleep(0.1)
    assert world.kafka.selected - before <= 2
    world.kafka.add_topic("A", "late")
    await eventually(lambda: partition("late") in world.ray.replicators[1].held)


async def test_remote_topic_with_foreign_records_is_refused(world: World) -> None:
    """A remote topic that is not empty and not accounted for is never assigned; the others are."""
    for topic in ("orders", "other"):
        world.kafka.add_topic("A", topic)
    world.kafka.add_topic("B", "A.orders")
    world.kafka.ends[TopicPartition("A.orders", 0)] = 10
    coordinator = world.coordinator()
    await coordinator.apply(settings())
    await eventually(lambda: partition("other") in world.ray.replicators[1].held)
    topics = {each.topic: each for each in await coordinator.topics()}
    assert topics["orders"].state == "refused"
    assert "not empty" in (topics["orders"].reason or "")
    assert partition("orders") not in world.ray.replicators[1].held
    assert (await coordinator.status()).flows[0].state == "degraded"


async def test_recreated_source_topic_is_refused_with_both_ids(world: World) -> None:
    """A source topic that was deleted and created again is taken back and refused."""
    world.kafka.add_topic("A", "orders")
    coordinator = world.coordinator()
    await coordinator.apply(settings())
    replicator = world.ray.replicators
    await eventually(lambda: partition("orders") in replicator[1].held)
    old = world.kafka.sources["A"]["orders"].topic_id
    world.kafka.add_topic("A", "orders")
    new = world.kafka.sources["A"]["orders"].topic_id
    await eventually(lambda: partition("orders") not in replicator[1].held)
    (topic,) = await coordinator.topics()
    assert topic.reason is not None
    assert old in topic.reason
    assert new in topic.reason


async def test_remote_topic_deleted_under_us_is_not_created_again(world: World) -> None:
    """A remote topic that vanishes is refused, not silently begun anew."""
    world.kafka.add_topic("A", "orders")
    coordinator = world.coordinator()
    await coordinator.apply(settings())
    await eventually(lambda: partition("orders") in world.ray.replicators[1].held)
    del world.kafka.sources["B"]["A.orders"]
    await eventually(lambda: partition("orders") not in world.ray.replicators[1].held)
    assert "A.orders" not in world.kafka.sources["B"]
    assert (await coordinator.topics())[0].state == "refused"


async def test_latest_applies_to_topics_of_the_first_start_only(world: World) -> None:
    """With auto.offset.reset=latest, what exists begins at its end and what appears later at its beginning."""
    world.kafka.add_topic("A", "old")
    world.kafka.source_ends[TopicPartition("old", 0)] = 7
    world.kafka.source_ends[TopicPartition("new", 0)] = 9
    await world.coordinator().apply(settings(flow(fetch={"auto_offset_reset": "latest"})))
    await eventually(lambda: partition("old") in world.ray.replicators[1].held)
    world.kafka.add_topic("A", "new")
    await eventually(lambda: partition("new") in world.ray.replicators[1].held)
    held = world.ray.replicators[1].held
    assert held[partition("old")].position == 7
    assert held[partition("new")].position == 0
    assert not [key for key in world.kafka.states[FLOW] if key.startswith("latest/")]


async def test_starts_are_of_the_topics_that_are_there(world: World) -> None:
    """A time and offsets hold for topics of the first start; a later topic and a later partition lose nothing."""
    for topic in ("timed", "placed"):
        world.kafka.add_topic("A", topic)
        world.kafka.source_ends[TopicPartition(topic, 0)] = 50
    world.kafka.source_times[TopicPartition("timed", 0), 1_700_000_000_000] = 31
    rules = {"refresh_interval_s": 0.005, "start": "2023-11-14T22:13:20Z", "start_overrides": ("placed=0@12",)}
    await world.coordinator().apply(settings(flow(topics=rules)))
    await eventually(lambda: {partition("timed"), partition("placed")} <= world.ray.replicators[1].held.keys())
    held = world.ray.replicators[1].held
    world.kafka.add_topic("A", "later")
    world.kafka.grow("A", "placed", 2)
    await eventually(lambda: {partition("later"), partition("placed", 1)} <= held.keys())
    found = {str(each.source): copy.position for each, copy in held.items()}
    assert found == {"timed-0": 31, "placed-0": 12, "later-0": 0, "placed-1": 0}
    assert not [key for key in world.kafka.states[FLOW] if key.startswith("start/")]


async def test_offsets_out_of_bounds_are_refused(world: World) -> None:
    """Never a place near by: the topic waits and says both bounds, the others go on, a corrected config holds."""
    world.kafka.add_topic("A", "orders")
    world.kafka.add_topic("A", "other")
    world.kafka.source_starts[TopicPartition("orders", 0)] = 10
    world.kafka.source_ends[TopicPartition("orders", 0)] = 20
    coordinator = world.coordinator()
    await coordinator.apply(settings(flow(topics={"refresh_interval_s": 0.005, "start_overrides": ("orders=0@5",)})))
    await eventually(lambda: partition("other") in world.ray.replicators[1].held)
    (line,) = [each for each in await coordinator.topics() if each.topic == "orders"]
    assert line.state == "refused"
    assert "goes from 10 to 20" in (line.reason or "")
    await coordinator.apply(settings(flow(topics={"refresh_interval_s": 0.005, "start_overrides": ("orders=0@15",)})))
    await eventually(lambda: partition("orders") in world.ray.replicators[1].held)
    assert world.ray.replicators[1].held[partition("orders")].position == 15
    assert [each for each in await coordinator.events() if "topics.start has changed; 1 topics" in each.text]


async def test_progress_is_persisted_and_shown(world: World) -> None:
    """Acknowledged pairs reach the state topic and the status."""
    world.kafka.add_topic("A", "orders")
    coordinator = world.coordinator()
    await coordinator.apply(settings())
    await eventually(lambda: partition("orders") in world.ray.replicators[1].held)
    world.ray.replicators[1].copy(partition("orders"), 50)
    await eventually(lambda: world.kafka.states[FLOW]["partition/orders/0"]["source_offset"] == 50)
    (line,) = await coordinator.partitions("A->B")
    assert (line.position, line.lag_records, line.records, line.state) == (50, 0, 50, "copying")
    status = await coordinator.status()
    assert (status.flows[0].state, status.flows[0].lag_records, status.flows[0].records) == ("running", 0, 50)


async def test_partitions_of_a_dead_replicator_go_on_from_their_anchors(world: World) -> None:
    """After a kill the survivor has everything with a higher epoch, a replacement comes, the survivor never stopped."""
    world.kafka.add_topic("A", "orders", 4)
    coordinator = world.coordinator()
    await coordinator.apply(settings(replicators=2))
    pool = world.ray.replicators
    await eventually(lambda: len(pool) == 2 and len(pool[1].held) == len(pool[2].held) == 2)
    kept, lost = set(pool[1].held), set(pool[2].held)
    victim = pool[2]
    for each in lost:
        victim.copy(each, 30)
    await eventually(
        lambda: all(
            world.kafka.states[FLOW][f"partition/orders/{each.partition}"]["source_offset"] == 30 for each in lost
        )
    )
    before = len(world.kafka.log)
    victim.alive = False
    await eventually(lambda: pool[2] is not victim and len(pool[2].held) == 2 and len(pool[1].held) == 2)
    log = world.kafka.log[before:]
    for one in lost:
        first = next(each for each in log if each.startswith(f"assign {one} "))
        assert first.endswith("at 30")
        assert "epoch 1 " not in first
    assert {each.partition for each in pool[1].held | pool[2].held} == {0, 1, 2, 3}
    assert kept & set(pool[1].held)


async def test_assignment_made_during_an_exchange_goes_with_the_next(world: World) -> None:
    """A replicator that answers slowly gets every partition all the same."""
    coordinator = world.coordinator()
    await coordinator.apply(settings())
    await eventually(lambda: 1 in world.ray.replicators)
    world.ray.replicators[1].answers_after_s = 0.02
    for number in range(5):
        world.kafka.add_topic("A", f"topic-{number}")
        await eventually(partial(_holds, world, f"topic-{number}"))


def _holds(world: World, topic: str) -> bool:
    return partition(topic) in world.ray.replicators[1].held


async def test_silent_replicator_is_killed_before_its_partitions_move(world: World) -> None:
    """One that does not answer keeps its partitions until it has been killed."""
    world.kafka.add_topic("A", "orders", 2)
    coordinator = world.coordinator()
    await coordinator.apply(settings(replicators=2))
    pool = world.ray.replicators
    await eventually(lambda: len(pool) == 2 and len(pool[1].held) == len(pool[2].held) == 1)
    (stuck,) = pool[2].held
    before = len(world.kafka.log)
    pool[2].silent = True
    await eventually(lambda: any(each.startswith(f"assign {stuck} ") for each in world.kafka.log[before:]))
    log = world.kafka.log[before:]
    killed = log.index(f"kill {pool[2].id}")
    assert killed < next(index for index, each in enumerate(log) if each.startswith(f"assign {stuck} "))


async def test_scale_moves_the_newcomers_share_and_drains_before_removal(world: World) -> None:
    """From two to three at most a third moves, each released first; back to two, the third is drained and stopped."""
    world.kafka.add_topic("A", "orders", 6)
    coordinator = world.coordinator()
    await coordinator.apply(settings(replicators=2))
    pool = world.ray.replicators
    await eventually(lambda: sum(len(each.held) for each in pool.values()) == 6)
    before = len(world.kafka.log)
    await coordinator.scale(3)
    await eventually(lambda: len(pool) == 3 and all(len(each.held) == 2 for each in pool.values()))
    assert len([each for each in world.kafka.log[before:] if each.startswith("release")]) == 2
    await coordinator.scale(2)
    await eventually(lambda: f"stop {pool[3].id}" in world.kafka.log)
    await eventually(lambda: [len(pool[number].held) for number in (1, 2)] == [3, 3])
    assert [each.id for each in await coordinator.replicators()] == [pool[1].id, pool[2].id]


async def test_pause_takes_back_and_outlives_a_restart(world: World) -> None:
    """A paused topic is released, stays so under the next coordinator, and resumes where it was."""
    for topic in ("orders", "other"):
        world.kafka.add_topic("A", topic)
    coordinator = world.coordinator()
    await coordinator.apply(settings())
    held = world.ray.replicators[1].held if world.ray.replicators else {}
    await eventually(lambda: len(world.ray.replicators[1].held) == 2)
    await coordinator.pause("A->B", "orders")
    await eventually(lambda: partition("orders") not in world.ray.replicators[1].held)
    assert {each.topic: each.state for each in await coordinator.topics()} == {"orders": "paused", "other": "copying"}
    world.abandon(coordinator)
    second = world.coordinator()
    await second.begin()
    await eventually(lambda: _state(second, "orders", "paused"))
    assert partition("orders") not in world.ray.replicators[1].held
    await second.resume("A->B", "orders")
    await eventually(lambda: partition("orders") in world.ray.replicators[1].held)
    assert not held or held is world.ray.replicators[1].held


async def _state(coordinator: object, topic: str, state: str) -> bool:
    return any(each.topic == topic and each.state == state for each in await coordinator.topics())  # type: ignore[attr-defined]


async def test_restarted_coordinator_adopts_without_moving_anything(world: World) -> None:
    """The new coordinator finds settings, state and living replicators; no partition is released or assigned."""
    world.kafka.add_topic("A", "orders", 4)
    first = world.coordinator()
    await first.apply(settings(replicators=2))
    pool = world.ray.replicators
    await eventually(lambda: len(pool) == 2 and len(pool[1].held) == len(pool[2].held) == 2)
    world.abandon(first)
    before = len(world.kafka.log)
    second = world.coordinator()
    await second.begin()

    async def adopted() -> bool:
        return [each.state for each in await second.partitions()] == ["copying"] * 4

    await eventually(adopted)
    pool[1].copy(next(iter(pool[1].held)), 20)
    await eventually(lambda: any("partition" in each for each in world.kafka.log[before:]))
    assert not [each for each in world.kafka.log[before:] if each.startswith(("assign", "release", "spawn", "create"))]


async def test_unreachable_cluster_of_one_flow_leaves_the_others_alone(world: World) -> None:
    """A->C can't be reached and says so; A->B copies; A->C follows when its cluster is back."""
    world.kafka.add_topic("A", "orders")
    world.kafka.unreachable.add("C")
    coordinator = world.coordinator()
    await coordinator.apply(settings(flow(), flow("A->C")))
    await eventually(lambda: partition("orders") in world.ray.replicators[1].held)
    status = {each.flow: each for each in (await coordinator.status()).flows}
    assert status["A->C"].state == "unreachable"
    assert "C can't be reached" in status["A->C"].problems[0]
    world.kafka.unreachable.clear()
    await eventually(lambda: partition("orders", 0, FlowName("A", "C")) in world.ray.replicators[1].held)


async def test_second_flow_into_one_remote_topic_shares_it(world: World) -> None:
    """The first writer is taken back and told to count before the second one is anchored, by a producer of its own."""
    world.naming = lambda _flow, topic: topic + ".copy"
    world.kafka.add_topic("A", "orders")
    coordinator = world.coordinator()
    await coordinator.apply(settings(flow()))
    ours, other = partition("orders"), partition("orders", 0, FlowName("C", "B"))
    await eventually(lambda: ours in world.ray.replicators[1].held)
    assert not world.ray.replicators[1].assigned[ours].shared
    world.ray.replicators[1].copy(ours, 30)
    world.kafka.ends[TopicPartition("orders.copy", 0)] = 30
    world.kafka.add_topic("C", "orders")
    before = len(world.kafka.log)
    await coordinator.apply(settings(flow(), flow("C->B")))
    await eventually(lambda: other in world.ray.replicators[1].held and ours in world.ray.replicators[1].held)
    first, second = (world.ray.replicators[1].assigned[each] for each in (ours, other))
    assert first.shared
    assert second.shared
    assert (first.anchor.source_offset, first.anchor.target_offset, first.anchor.sequence) == (30, 30, 30)
    assert (second.anchor.source_offset, second.anchor.target_offset, second.anchor.sequence) == (0, 30, 0)
    assert first.producer_id != second.producer_id
    log = world.kafka.log[before:]
    released = next(index for index, each in enumerate(log) if each.startswith(f"release {ours}"))
    assert released < next(index for index, each in enumerate(log) if each.startswith(f"assign {other}"))


async def test_declared_shared_topic_may_be_filled_already(world: World) -> None:
    """shared.remote.topics lets a flow begin behind what others wrote, by a producer of the partition's own."""
    world.kafka.add_topic("A", "orders")
    world.kafka.add_topic("B", "A.orders")
    world.kafka.ends[TopicPartition("A.orders", 0)] = 10
    await world.coordinator().apply(
        settings(flow(topics={"refresh_interval_s": 0.005, "shared_remote": ("A\\.orders",)}))
    )
    await eventually(lambda: partition("orders") in world.ray.replicators[1].held)
    assignment = world.ray.replicators[1].assigned[partition("orders")]
    assert assignment.shared
    assert (assignment.anchor.target_offset, assignment.anchor.next_sequence) == (10, 0)
    assert assignment.producer_id != world.kafka.states[FLOW]["flow"]["producer_id"]


async def test_at_least_once_needs_no_producer(world: World) -> None:
    """No producer id is asked for; going back to exactly once asks for one."""
    world.kafka.add_topic("A", "orders")
    coordinator = world.coordinator()
    await coordinator.apply(settings(flow(produce={"delivery_guarantee": "at_least_once"})))
    await eventually(lambda: partition("orders") in world.ray.replicators[1].held)
    assert world.ray.replicators[1].assigned[partition("orders")].producer_id == -1
    assert world.kafka.producers == 0
    await coordinator.apply(settings())
    await eventually(lambda: world.ray.replicators[1].assigned[partition("orders")].producer_id == 4242)


async def test_other_cluster_behind_an_alias_is_refused(world: World) -> None:
    """A flow whose state tells of another target cluster does not run, and says both ids."""
    world.kafka.add_topic("A", "orders")
    first = world.coordinator()
    await first.apply(settings())
    await eventually(lambda: partition("orders") in world.ray.replicators[1].held)
    world.kafka.cluster_ids["B"] = "elsewhere"
    await eventually(lambda: partition("orders") not in world.ray.replicators[1].held)
    (status,) = (await first.status()).flows
    assert "elsewhere" in status.problems[0]
    assert "cluster-B" in status.problems[0]


async def test_stopped_partition_shows_its_reason(world: World) -> None:
    """A partition that stopped itself degrades the flow, is shown with its reason, and is written as an event."""
    world.kafka.add_topic("A", "orders", 2)
    coordinator = world.coordinator()
    await coordinator.apply(settings())
    await eventually(lambda: len(world.ray.replicators[1].held) == 2)
    world.ray.replicators[1].stop_partition(partition("orders", 1), "corrupt batch at 17")
    await eventually(lambda: _degraded(coordinator))
    (told,) = [each for each in await coordinator.events() if "corrupt batch at 17" in each.text]
    assert told.level == "error"


async def _degraded(coordinator: object) -> bool:
    (status,) = (await coordinator.status()).flows  # type: ignore[attr-defined]
    return status.state == "degraded" and "corrupt batch at 17" in status.problems[0]


async def test_no_room_for_a_replicator_is_shown_and_asked_again(world: World) -> None:
    """While Ray has no room the flow says so; when there is room it copies."""
    world.kafka.add_topic("A", "orders")
    world.ray.no_room = True
    coordinator = world.coordinator()
    await coordinator.apply(settings())

    async def shown() -> bool:
        return any("no room" in each for each in (await coordinator.status()).flows[0].problems)

    await eventually(shown)
    world.ray.no_room = False
    await eventually(lambda: bool(world.ray.replicators) and partition("orders") in world.ray.replicators[1].held)


async def test_replicator_that_answers_with_errors_is_shown_and_told_once(world: World) -> None:
    """An error that nobody foresaw degrades the flow for as long as it lasts, and is one event, not one per attempt."""
    world.kafka.add_topic("A", "orders")
    coordinator = world.coordinator()
    await coordinator.apply(settings())
    await eventually(lambda: partition("orders") in world.ray.replicators[1].held)

    async def told() -> list[str]:
        return [each.text for each in await coordinator.events() if "KeyError: 'orders'" in each.text]

    async def shown() -> bool:
        (status,) = (await coordinator.status()).flows
        return status.state == "degraded" and any("KeyError: 'orders'" in each for each in status.problems)

    world.ray.replicators[1].bug = KeyError("orders")
    await eventually(shown)
    for _ in range(20):
        assert await shown()
        await asyncio.sleep(QUICK.respawn_s / 4)
    assert len(await told()) == 1
    world.ray.replicators[1].bug = None

    async def healed() -> bool:
        return not (await coordinator.status()).flows[0].problems

    await eventually(healed)
    assert any("answers without errors again" in each.text for each in await coordinator.events())


async def test_a_flow_starts_until_all_of_it_has_copied_and_never_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition without an answer from its replicator keeps it starting; a topic that comes later does not."""
    for topic in ("orders", "slow"):
        world.kafka.add_topic("A", topic)
    establishing = {"slow", "late"}
    report = fakes._report

    def slow(assignment: Assignment) -> PartitionReport:
        state: PartitionState = "establishing" if assignment.partition.topic in establishing else "copying"
        return replace(report(assignment), state=state)

    monkeypatch.setattr(fakes, "_report", slow)
    coordinator = world.coordinator()
    await coordinator.apply(settings())
    await eventually(lambda: _state(coordinator, "orders", "copying"))
    await eventually(lambda: _state(coordinator, "slow", "establishing"))
    assert (await coordinator.status()).flows[0].state == "starting"
    replicator = world.ray.replicators[1]
    replicator.held[partition("slow")] = replace(replicator.held[partition("slow")], state="copying")
    replicator.changed.add(partition("slow"))
    await eventually(lambda: _flow_state(coordinator, "running"))
    await asyncio.sleep(4 * QUICK.step_s)
    world.kafka.add_topic("A", "late")
    await eventually(lambda: _state(coordinator, "late", "establishing"))
    assert (await coordinator.status()).flows[0].state == "running"


async def _flow_state(coordinator: Coordinator, state: str) -> bool:
    return (await coordinator.status()).flows[0].state == state


async def test_apply_leaves_unchanged_flows_alone(world: World) -> None:
    """Adding a flow releases nothing of the one that runs; removing it takes its partitions back."""
    world.kafka.add_topic("A", "orders")
    coordinator = world.coordinator()
    await coordinator.apply(settings())
    await eventually(lambda: partition("orders") in world.ray.replicators[1].held)
    before = len(world.kafka.log)
    await coordinator.apply(settings(flow(), flow("A->C")))
    other = partition("orders", 0, FlowName("A", "C"))
    await eventually(lambda: other in world.ray.replicators[1].held)
    assert not [each for each in world.kafka.log[before:] if each.startswith("release")]
    await coordinator.apply(settings())
    await eventually(lambda: other not in world.ray.replicators[1].held)
    assert partition("orders") in world.ray.replicators[1].held


async def test_unknown_flow_and_useless_scale_are_config_errors(world: World) -> None:
    """An operator's slip is answered with the names that exist."""
    coordinator = world.coordinator()
    await coordinator.apply(settings())
    with pytest.raises(ConfigError, match="A->B"):
        await coordinator.pause("X->Y")
    with pytest.raises(ConfigError, match="at least one"):
        await coordinator.scale(0)


def test_fingerprint_tells_settings_apart_and_nothing_else() -> None:
    """It is the same behind a process boundary, and another one for another password."""
    alice, other = (
        settings().model_copy(update={"clusters": {"A": ClusterSettings.model_validate(cluster)}})
        for password in ("one", "two")
        for cluster in [
            {
                "alias": "A",
                "bootstrap_servers": ("a:9092",),
                "security": {"sasl": {"mechanism": "PLAIN", "username": "alice", "password": password}},
            }
        ]
    )
    assert fingerprint(pickle.loads(pickle.dumps(alice))) == fingerprint(alice)
    assert fingerprint(other) != fingerprint(alice)
