"""Where the partitions of a new topic begin, with everything around the coordinator in memory."""

from __future__ import annotations

from mirror_ray.model.names import TopicPartition
from tests.unit.coordinator.fakes import FLOW, ORDERS, World, eventually, flow, partition, settings


async def test_latest_applies_to_topics_of_the_first_start_only(world: World) -> None:
    """With auto.offset.reset=latest, what exists begins at its end and what appears later at its beginning."""
    world.kafka.add_topic("A", "old")
    world.kafka.source_ends[TopicPartition("old", 0)] = 7
    world.kafka.source_ends[TopicPartition("new", 0)] = 9
    await world.running(settings(flow(fetch={"auto_offset_reset": "latest"})))
    await world.until_held(partition("old"))
    world.kafka.add_topic("A", "new")
    await world.until_held(partition("new"))
    held = world.first.held
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
    await world.running(settings(flow(topics=rules)))
    await eventually(lambda: {partition("timed"), partition("placed")} <= world.first.held.keys())
    held = world.first.held
    world.kafka.add_topic("A", "later")
    world.kafka.grow("A", "placed", 2)
    await eventually(lambda: {partition("later"), partition("placed", 1)} <= held.keys())
    found = {str(partition.source): copy.position for partition, copy in held.items()}
    assert found == {"timed-0": 31, "placed-0": 12, "later-0": 0, "placed-1": 0}
    assert not [key for key in world.kafka.states[FLOW] if key.startswith("start/")]


async def test_offsets_out_of_bounds_are_refused(world: World) -> None:
    """Never a place near by: the topic waits and says both bounds, the others go on, a corrected config holds."""
    world.kafka.add_topic("A", "orders")
    world.kafka.add_topic("A", "other")
    world.kafka.source_starts[TopicPartition("orders", 0)] = 10
    world.kafka.source_ends[TopicPartition("orders", 0)] = 20
    coordinator = await world.running(
        settings(flow(topics={"refresh_interval_s": 0.005, "start_overrides": ("orders=0@5",)}))
    )
    await world.until_held(partition("other"))
    (line,) = [row for row in await coordinator.topics() if row.topic == "orders"]
    assert line.state == "refused"
    assert "goes from 10 to 20" in (line.reason or "")
    await coordinator.apply(settings(flow(topics={"refresh_interval_s": 0.005, "start_overrides": ("orders=0@15",)})))
    await world.until_held(ORDERS)
    assert world.first.held[ORDERS].position == 15
    assert [event for event in await coordinator.events() if "topics.start has changed; 1 topics" in event.text]
