"""The world that every test of a coordinator begins with, and its clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from tests.unit.coordinator.fakes import World
from tests.unit.coordinator.virtual_clock import VirtualClockLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Nobody sleeps here: time jumps to the next timer, but in the tests with a real gateway."""
    del config
    return {"real": asyncio.new_event_loop} if item.path.stem == "test_gateway_actor" else {"virtual": VirtualClockLoop}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A world whose coordinators are abandoned at the end."""
    made = World()
    yield made
    for coordinator in made.coordinators:
        made.abandon(coordinator)


@pytest.fixture
def orders(world: World) -> None:
    """There is a topic of this name on A."""
    world.kafka.add_topic("A", "orders")
