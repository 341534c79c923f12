"""What an `up` would change is what it changes: the number of replicators, too, and nothing that came in between."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.model.errors import NotReadyError
from mirror_ray.model.starter import Starter
from tests.unit.coordinator.fakes import World, flow
from tests.unit.coordinator.fakes import settings as of_flows

ANN = Starter(by="ann@desk", pid=17, command="mirror-ray up", foreground=True)
BOB = Starter(by="bob@desk", pid=18, command="mirror-ray up", foreground=True)


def settings(wait_ms: int = 500, **more: Any) -> MirrorSettings:
    """With a lease that settings allow."""
    return of_flows(flow(fetch={"max_wait_ms": wait_ms})).model_copy(update={"lease_ms": 1000, **more})


async def test_the_number_of_replicators_is_part_of_what_changes(world: World) -> None:
    """Asked for, or by the file; where it stays nothing is said."""
    coordinator = world.coordinator()
    await coordinator.apply(settings(), 2)
    found = await coordinator.apply(settings(), 5, True)
    assert [str(change) for change in found.system] == ["replicators: 2 -> 5"]
    assert (await coordinator.status()).desired_replicators == 2
    assert (await coordinator.apply(settings(), 2, True)).nothing
    assert (await coordinator.apply(settings(), None, True)).nothing
    done = await coordinator.act("ann@desk", "apply", (settings(), 5))
    assert [str(change) for change in done.system] == ["replicators: 2 -> 5"]
    assert (await coordinator.status()).desired_replicators == 5
    assert any(
        event.text.startswith("up by ann@desk: replicators=2 -> replicators=5") for event in await coordinator.events()
    )


async def test_a_number_in_the_file_counts_when_it_changes(world: World) -> None:
    """What `scale` has set stays until then."""
    coordinator = await world.running(settings(replicators=2))
    await coordinator.scale(4)
    assert (await coordinator.apply(settings(replicators=2))).nothing
    assert (await coordinator.status()).desired_replicators == 4
    found = await coordinator.apply(settings(replicators=3))
    assert [str(change) for change in found.system] == ["replicators: 4 -> 3"]
    assert (await coordinator.status()).desired_replicators == 3


async def test_what_was_changed_since_is_not_changed_back(world: World) -> None:
    """Two people see a difference; the second yes is refused, and says why. The same change twice is none."""
    coordinator = await world.running()
    first, second = [await coordinator.apply(settings(wait), None, True) for wait in (100, 200)]
    assert first.onto
    assert first.onto == second.onto
    await coordinator.apply(settings(100), None, False, first.onto)
    with pytest.raises(NotReadyError, match="was changed by somebody else since"):
        await coordinator.apply(settings(200), None, False, second.onto)
    assert await coordinator.configuration() == settings(100)
    await coordinator.apply(settings(100), None, False, second.onto)
    again = await coordinator.apply(settings(200), None, True)
    await coordinator.apply(settings(200), None, False, again.onto)
    # Whoever sees nothing to change reverts nothing, either.
    nothing = await coordinator.apply(settings(200), None, True)
    await coordinator.apply(settings(300))
    with pytest.raises(NotReadyError):
        await coordinator.apply(settings(200), None, False, nothing.onto)


async def test_a_number_that_was_changed_since(world: World) -> None:
    """Where it was shown."""
    coordinator = world.coordinator()
    await coordinator.apply(settings(), 2)
    shown, other = await coordinator.apply(settings(), 5, True), await coordinator.apply(settings(100), None, True)
    await coordinator.scale(3)
    with pytest.raises(NotReadyError):
        await coordinator.apply(settings(), 5, False, shown.onto)
    await coordinator.apply(settings(100), None, False, other.onto)
    assert (await coordinator.status()).desired_replicators == 3


async def test_whoever_comes_second_has_not_started_it(world: World) -> None:
    """Another file is refused, the same is taken; it is the first one's, also after a restart of the coordinator."""
    coordinator = world.coordinator()
    assert await coordinator.starter() is None
    await coordinator.apply(settings(), None, False, "", ANN)
    await coordinator.apply(settings(), None, False, "", BOB)
    with pytest.raises(NotReadyError, match="has been started by somebody else"):
        await coordinator.apply(settings(100), None, False, "", BOB)
    await coordinator.apply(settings(100), None, False, None, BOB)
    assert await coordinator.starter() == ANN
    again = await world.another(coordinator)
    assert await again.starter() == ANN
    await again.down()
    await again.apply(settings(), None, False, "", BOB)
    assert await again.starter() == BOB
