"""Which topics a coordinator finds, refuses and shares, with everything around it in memory."""

from __future__ import annotations

import asyncio

from mirror_ray.model.names import FlowName, TopicPartition
from tests.unit.coordinator.fakes import FLOW, ORDERS, REMOTE, World, eventually, flow, partition, settings


async def test_topics_and_partitions_that_appear_are_found(world: World) -> None:
    """A topic created while the flow runs, and partitions added to another, are copied without being told."""
    await world.copying("orders")
    world.kafka.add_topic("A", "late")
    world.kafka.grow("A", "orders", 3)
    await eventually(lambda: {partition("late"), partition("orders", 2)} <= set(world.first.held))
    assert "create A.orders 3" in world.kafka.log


async def test_only_what_could_not_be_asked_is_asked_again(world: World) -> None:
    """A topic of many partitions whose leaders come up one by one: all of it once, at the end, in one go."""
    late = TopicPartition("A.orders", 2)
    world.kafka.add_topic("A", "orders", 3)
    world.kafka.leaderless.add(late)
    await world.running()
    await eventually(lambda: len(world.kafka.asked) > 2)
    assert {len(question) for question in world.kafka.asked[1:]} == {1}
    assert not world.first.held
    world.kafka.leaderless.clear()
    await eventually(lambda: len(world.first.held) == 3)
    assert [len(question) for question in world.kafka.asked[-2:]] == [1, 3]


async def test_clusters_that_do_not_change_cost_one_query(world: World) -> None:
    """Nothing is gone into while there is nothing new; a topic that appears is."""
    await world.copying("orders")
    before = world.kafka.selected
    await asyncio.sleep(0.1)
    assert world.kafka.selected - before <= 2
    world.kafka.add_topic("A", "late")
    await world.until_held(partition("late"))


async def test_remote_topic_with_foreign_records_is_refused(world: World) -> None:
    """A remote topic that is not empty and not accounted for is never assigned; the others are."""
    for topic in ("orders", "other"):
        world.kafka.add_topic("A", topic)
    world.kafka.add_topic("B", "A.orders")
    world.kafka.ends[REMOTE] = 10
    coordinator = await world.running()
    await world.until_held(partition("other"))
    topics = {row.topic: row for row in await coordinator.topics()}
    assert topics["orders"].state == "refused"
    assert "not empty" in (topics["orders"].reason or "")
    assert ORDERS not in world.first.held
    assert (await coordinator.status()).flows[0].state == "degraded"


async def test_recreated_source_topic_is_refused_with_both_ids(world: World) -> None:
    """A source topic that was deleted and created again is taken back and refused."""
    world.kafka.add_topic("A", "orders")
    coordinator = await world.running()
    replicator = world.ray.replicators
    await eventually(lambda: ORDERS in replicator[1].held)
    old = world.kafka.sources["A"]["orders"].topic_id
    world.kafka.add_topic("A", "orders")
    new = world.kafka.sources["A"]["orders"].topic_id
    await eventually(lambda: ORDERS not in replicator[1].held)
    (topic,) = await coordinator.topics()
    assert topic.reason is not None
    assert old in topic.reason
    assert new in topic.reason


async def test_second_flow_into_one_remote_topic_shares_it(world: World) -> None:
    """The first writer is taken back and told to count before the second one is anchored, by a producer of its own."""
    world.naming = lambda _flow, topic: topic + ".copy"
    world.kafka.add_topic("A", "orders")
    coordinator = await world.running(settings(flow()))
    ours, other = ORDERS, partition("orders", 0, FlowName("C", "B"))
    await eventually(lambda: ours in world.first.held)
    assert not world.first.assigned[ours].shared
    world.first.copy(ours, 30)
    world.kafka.ends[TopicPartition("orders.copy", 0)] = 30
    world.kafka.add_topic("C", "orders")
    before = len(world.kafka.log)
    await coordinator.apply(settings(flow(), flow("C->B")))
    await eventually(lambda: other in world.first.held and ours in world.first.held)
    first, second = (world.first.assigned[key] for key in (ours, other))
    assert first.shared
    assert second.shared
    assert (first.anchor.source_offset, first.anchor.target_offset, first.anchor.sequence) == (30, 30, 30)
    assert (second.anchor.source_offset, second.anchor.target_offset, second.anchor.sequence) == (0, 30, 0)
    assert first.producer_id != second.producer_id
    log = world.kafka.log[before:]
    released = next(index for index, line in enumerate(log) if line.startswith(f"release {ours}"))
    assert released < next(index for index, line in enumerate(log) if line.startswith(f"assign {other}"))


async def test_declared_shared_topic_may_be_filled_already(world: World) -> None:
    """shared.remote.topics lets a flow begin behind what others wrote, by a producer of the partition's own."""
    world.kafka.add_topic("A", "orders")
    world.kafka.add_topic("B", "A.orders")
    world.kafka.ends[REMOTE] = 10
    await world.running(settings(flow(topics={"refresh_interval_s": 0.005, "shared_remote": ("A\\.orders",)})))
    assignment = await world.assigned()
    assert assignment.shared
    assert (assignment.anchor.target_offset, assignment.anchor.next_sequence) == (10, 0)
    assert assignment.producer_id != world.kafka.states[FLOW]["flow"]["producer_id"]
