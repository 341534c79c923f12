"""What operators do is kept, with who did it, before and after; in the events, too."""

from __future__ import annotations

import pytest

from mirror_ray.model.errors import ConfigError
from tests.unit.coordinator.fakes import FLOW, World, eventually, flow, settings, texts


async def test_acts_are_kept_with_before_and_after(world: World) -> None:
    """From the first `up` to `down`; no secret and no dry run is in them."""
    world.kafka.add_topic("A", "orders")
    coordinator, name = world.coordinator(), str(FLOW)
    await coordinator.act("ann@desk", "apply", (settings(flow()).model_copy(update={"lease_ms": 5000}), None))
    await eventually(lambda: "write partition/orders/0" in world.kafka.log)
    await coordinator.act("page 10.0.0.7", "pause", (name, "orders", 0))
    await coordinator.act("ann@desk", "resume", (name, "orders", 0))
    await coordinator.act("ann@desk", "scale", (2,))
    await coordinator.act("ann@desk", "set", (name, {"topics.include": "orders"}, True))
    await coordinator.act("ann@desk", "set", (None, {"gateway.token": "s3cret-of-the-page"}, False))
    await coordinator.act("ann@desk", "down", (1.0,))
    assert [(entry.operator, entry.kind, entry.before, entry.after) for entry in world.kept] == [
        ("ann@desk", "up", "does not run", "runs A->B, 1 replicators"),
        ("page 10.0.0.7", "pause", "paused: nothing", "paused: orders-0"),
        ("ann@desk", "resume", "paused: orders-0", "paused: nothing"),
        ("ann@desk", "scale", "1 replicators", "2 replicators"),
        ("ann@desk", "set", "gateway.token=-", "gateway.token=(secret)"),
        ("ann@desk", "down", "runs A->B, 2 replicators", "stopped, all drained"),
    ]
    assert {entry.outcome for entry in world.kept} == {"done"}
    assert "s3cret-of-the-page" not in repr(world.kept)
    events = await texts(coordinator)
    assert "pause by page 10.0.0.7: paused: nothing -> paused: orders-0" in events


async def test_what_is_refused_is_kept_and_reported(world: World) -> None:
    """And what is no command is not done."""
    coordinator = world.coordinator()
    await coordinator.act("ann@desk", "apply", (settings(flow()), None))
    with pytest.raises(ConfigError):
        await coordinator.act("eve@far", "scale", (0,))
    with pytest.raises(ConfigError, match="no command"):
        await coordinator.act("eve@far", "begin", ())
    last = world.kept[-1]
    assert (last.operator, last.kind, last.outcome) == ("eve@far", "scale", "refused")
    assert any("by eve@far was refused" in text for text in await texts(coordinator))
