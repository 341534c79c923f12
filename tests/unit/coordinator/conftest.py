"""The world that every test of a coordinator begins with."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.coordinator.fakes import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A world whose coordinators are abandoned at the end."""
    made = World()
    yield made
    for coordinator in made.coordinators:
        made.abandon(coordinator)
