"""Limits in a running system, with everything around it in memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mirror_ray.config.limits import LimitSettings
from mirror_ray.config.settings import MirrorSettings
from tests.unit.coordinator.fakes import FLOW, World, eventually, flow, settings, shown, texts


def _limited(**limits: object) -> MirrorSettings:
    base = settings(replicators=2)
    return base.model_copy(update={"flows": (flow().model_copy(update={"limits": LimitSettings(**limits)}),)})


def _allowed(world: World) -> list[float]:
    there = (replicator.allowances.get(FLOW) for replicator in world.ray.replicators.values())
    return [share.bytes_per_s or 0.0 for share in there if share is not None]


async def test_replicators_share_a_limit_and_hear_when_there_is_none(world: World) -> None:
    """Together they may never read more; one without a share would not be limited."""
    world.kafka.add_topic("A", "orders", 4)
    coordinator = await world.running(_limited(bytes_per_second=1_000_000))
    await eventually(lambda: [round(number) for number in _allowed(world)] == [500_000, 500_000])
    (shown,) = (await coordinator.status()).flows
    assert (shown.limit_bytes_per_s, shown.why) == (1_000_000, None)
    await coordinator.set("A->B", {"limits.bytes_per_second": "100000"})
    await eventually(lambda: [round(number) for number in _allowed(world)] == [50_000, 50_000])
    assert len(world.kafka.log.beginning("assign")) == 4
    await coordinator.set("A->B", {"limits.bytes_per_second": None})
    await eventually(lambda: all(not replicator.allowances for replicator in world.ray.replicators.values()))


async def test_a_flow_stands_still_outside_its_windows(world: World) -> None:
    """It is shown as paused, with the reason; lag is no fault of its own, then and until it has caught up."""
    world.kafka.add_topic("A", "orders")
    coordinator, later = world.coordinator(), datetime.now(UTC) + timedelta(hours=2)
    await coordinator.apply(_limited())
    await eventually(lambda: any(replicator.held for replicator in world.ray.replicators.values()))
    await coordinator.set("A->B", {"limits.windows": f"{later:%a %H}:00-{later:%H}:59"})
    await eventually(lambda: not any(replicator.held for replicator in world.ray.replicators.values()))
    status = await coordinator.status()
    assert (status.flows[0].state, status.problems) == ("paused", ())
    assert status.flows[0].why == f"outside limits.windows; goes on {later:%a %H}:00 UTC"
    assert (await coordinator.partitions())[0].reason == status.flows[0].why
    await coordinator.set("A->B", {"limits.windows": "00:00-24:00"})
    await eventually(lambda: any(replicator.held for replicator in world.ray.replicators.values()))
    events = await texts(coordinator)
    assert "inside limits.windows again: copying goes on" in events
    await shown(coordinator.status, lambda status: status.flows[0].state == "running")


async def test_limits_that_can_not_be_meant_change_nothing(world: World) -> None:
    """The key is named."""
    coordinator = await world.running(_limited(bytes_per_second=1_000_000))
    with pytest.raises(Exception, match=r"limits\.windows: 'nights' is no time of the week"):
        await coordinator.set("A->B", {"limits.windows": "nights"})
    assert (await coordinator.configuration()).flows[0].limits.bytes_per_second == 1_000_000
