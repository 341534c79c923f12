"""The picture that the page, the metrics and status are made from."""

from __future__ import annotations

from tests.unit.coordinator.fakes import World, eventually, partition


async def test_it_is_what_the_commands_show(world: World) -> None:
    """The same values as each of them gives alone."""
    for topic in ("orders", "payments"):
        world.kafka.add_topic("A", topic, 3)
    coordinator = await world.running()
    await eventually(lambda: world.ray.replicators and len(world.first.held) == 6)
    world.first.copy(partition("orders"), 50)

    async def same() -> bool:
        picture = await coordinator.snapshot()
        return (
            picture.partitions == await coordinator.partitions()
            and picture.topics == await coordinator.topics()
            and picture.system.flows == (await coordinator.status()).flows
            and picture.gaps == await coordinator.gaps()
            and picture.events[-1:] == await coordinator.events(1)
            and sum(row.records for row in picture.topics) == 50
        )

    await eventually(same)


async def test_it_is_made_once_a_second_whoever_asks(world: World) -> None:
    """Thousands of partitions are gathered once for all that look at the same time."""
    world.kafka.add_topic("A", "orders")
    coordinator = await world.running()
    first = await coordinator.snapshot()
    assert await coordinator.snapshot() is first
    assert (await coordinator.snapshot()).event_counts["info"] == first.events[-1].number
