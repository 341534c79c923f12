"""Where the partitions of a new topic begin, with everything around the coordinator in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from mirror_ray.config.settings import OffsetSettings
from mirror_ray.coordinator.offset_prefixes import OffsetPrefixes
from mirror_ray.coordinator.timing import CoordinatorTiming
from mirror_ray.model.names import TopicPartition
from mirror_ray.topics.discovery_rules import TargetLogBounds
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


PRESERVE = {"offsets": "preserve"}


async def test_preserved_offsets_begin_where_the_source_does(world: World) -> None:
    """The remote log is brought there before anything is handed out; another partition waits for nobody."""
    world.kafka.add_topic("A", "orders")
    world.kafka.source_starts[TopicPartition("orders", 0)] = 1_000_000
    world.kafka.source_ends[TopicPartition("orders", 0)] = 1_000_020
    world.kafka.add_topic("A", "new")
    await world.running(settings(flow(**PRESERVE)))
    await eventually(lambda: {ORDERS, partition("new")} <= world.first.held.keys())
    log = world.kafka.log
    assert log.beginning("fill") == ["fill A.orders-0 from 0 to 1000000 as 4242"]
    assert log.place("fill") < log.place("write partition/orders/0")
    assigned = world.first.assigned
    orders = assigned[ORDERS]
    assert (orders.anchor.source_offset, orders.anchor.target_offset) == (1_000_000, 1_000_000)
    assert all(given.preserve_offsets for given in assigned.values())
    assert orders.transactional_id == "mirror-ray-A-to-B-gaps-mirror:replicator:1"
    grant = world.kafka.states[FLOW]["grant/orders/0"]
    assert grant is not None
    assert grant["transactional_id"] == orders.transactional_id


async def test_a_prefix_that_was_begun_goes_on(world: World) -> None:
    """By the producer of the last batch; a log that somebody else has written to, or that is too long, is refused."""
    for topic, end in (("orders", 10), ("taken", 10), ("long", 500)):
        world.kafka.add_topic("A", topic)
        world.kafka.add_topic("B", f"A.{topic}")
        world.kafka.source_starts[TopicPartition(topic, 0)] = world.kafka.source_ends[TopicPartition(topic, 0)] = 100
        world.kafka.ends[TopicPartition(f"A.{topic}", 0)] = end
    world.kafka.last_producers[TopicPartition("A.orders", 0)] = 4242
    world.kafka.last_producers[TopicPartition("A.taken", 0)] = 7
    coordinator = await world.running(settings(flow(**PRESERVE)))
    await world.until_held(ORDERS)
    assert world.kafka.log.beginning("fill") == ["fill A.orders-0 from 10 to 100 as 4242"]
    reasons = {row.topic: row.reason or "" for row in await coordinator.topics() if row.state == "refused"}
    assert "is not empty" in reasons["taken"]
    assert "its partition 0 ends at 500" in reasons["long"]


async def test_a_prefix_above_the_bound_is_not_filled(world: World) -> None:
    """The partitions of a topic count together; it waits with a reason and an event, until the bound is raised.

    That disturbs no other topic.
    """
    for topic, partitions in (("orders", 1), ("long", 2)):
        world.kafka.add_topic("A", topic, partitions)
    for key in (TopicPartition("orders", 0), TopicPartition("long", 0), TopicPartition("long", 1)):
        world.kafka.source_starts[key] = world.kafka.source_ends[key] = 600
    coordinator = await world.running(settings(flow(offsets={"mode": "preserve", "prefix_max": 1199})))
    await world.until_held(ORDERS)
    assert world.kafka.log.beginning("fill") == ["fill A.orders-0 from 0 to 600 as 4242"]
    (line,) = [row for row in await coordinator.topics() if row.topic == "long"]
    assert line.state == "refused"
    words = (
        "A.long has to be filled with 1,200 offsets",
        "about 0 s",
        "offsets.prefix.max = 1,199",
        "leave long out of",
    )
    assert [word for word in words if word not in (line.reason or "")] == []
    told = [event for event in await coordinator.events() if event.subject == "long" and "1,200 offsets" in event.text]
    assert [event.level for event in told] == ["error"]
    epoch = world.first.assigned[ORDERS].epoch
    await coordinator.apply(settings(flow(offsets={"mode": "preserve", "prefix_max": 1200})))
    await eventually(lambda: {partition("long"), partition("long", 1)} <= world.first.held.keys())
    assert len(world.kafka.log.beginning("fill")) == 3
    assert world.first.assigned[ORDERS].epoch == epoch


async def test_who_had_a_partition_is_fenced_before_it_is_handed_out_again(world: World) -> None:
    """An open transaction of a replicator that died would leave its marker somewhere in the log."""
    await world.copying("orders", wanted=settings(flow(**PRESERVE)))
    world.first.alive = False
    await eventually(lambda: world.kafka.log.beginning("end transactions"))
    assert world.kafka.log.beginning("end transactions") == [
        "end transactions of mirror-ray-A-to-B-gaps-mirror:replicator:1"
    ]


async def test_a_topic_with_progress_is_not_preserved_and_that_is_told(world: World) -> None:
    """And one that was preserved goes on at offsets of its own once that is turned off, with the sequence it has."""
    await world.copying("orders")
    coordinator = world.coordinators[0]
    await coordinator.apply(settings(flow(**PRESERVE)))
    await eventually(lambda: world.first.assigned[ORDERS].epoch > 1)
    assert not world.first.assigned[ORDERS].preserve_offsets
    told = [event.text for event in await coordinator.events() if "without progress: orders, 1 in all" in event.text]
    assert len(told) == 1
    world.kafka.add_topic("A", "new")
    await world.until_held(partition("new"))
    assert world.first.assigned[partition("new")].preserve_offsets
    await coordinator.apply(settings(flow()))
    await eventually(lambda: not world.first.assigned[partition("new")].preserve_offsets)
    assert not world.record(partition("new")).preserve_offsets


class _Log:
    """One remote log, as a broker has it: its beginning comes back where it is killed too soon."""

    def __init__(self) -> None:
        self.now_ms, self.bounds, self.deleted = 0, TargetLogBounds(start=0, end=0), 0

    async def last_producers(self, ends: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return {}

    async def fill_prefix(self, partition: TopicPartition, log_end: int, end: int, producer: tuple[int, int]) -> None:
        self.bounds, self.deleted = TargetLogBounds(start=end, end=end), self.deleted + 1


async def test_a_prefix_counts_once_brokers_have_noted_where_the_log_begins() -> None:
    """A broker that is killed before that has the fillers again; they are deleted again, and waited for again."""
    log = _Log()
    state = SimpleNamespace(records=SimpleNamespace(flow=None))
    context: Any = SimpleNamespace(
        name=FLOW, port=log, state=state, timing=CoordinatorTiming(), emit=lambda *_: None, wall_ms=lambda: log.now_ms
    )
    prefixes = OffsetPrefixes(context, OffsetSettings(mode="preserve"))

    async def waits() -> bool:
        outcome = await prefixes.prepare("orders", "A.orders", {0: (100, log.bounds)})
        await asyncio.sleep(0)
        return outcome.waits

    assert [await waits(), await waits(), log.deleted] == [True, True, 1]
    log.now_ms = 64_000
    assert await waits()
    log.bounds = TargetLogBounds(start=0, end=100)
    assert [await waits(), await waits(), log.deleted] == [True, True, 2]
    log.now_ms += 64_000
    assert await waits()
    log.now_ms += 1_000
    assert not await waits()
    at_zero = TargetLogBounds(start=0, end=0)
    assert not (await prefixes.prepare("new", "A.new", {0: (0, at_zero)})).waits
