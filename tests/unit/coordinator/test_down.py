"""The coordinator goes down: drained where it can be, in time in any case."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

import pytest

from mirror_ray.state.schema import Document
from tests.unit.coordinator.fake_kafka import FakeFlowPort
from tests.unit.coordinator.fakes import FLOW, ORDERS, World, eventually, flow, settings


async def test_down_drains_persists_and_stops_everything(world: World) -> None:
    """After down the last anchors are written, replicators and heartbeat are stopped, the settings are forgotten."""
    coordinator, pool = await world.divided(2)
    for replicator in pool.values():
        for one in replicator.held:
            replicator.copy(one, 11)
    assert await coordinator.down(2.0)
    log = world.kafka.log
    state = world.kafka.states[FLOW]
    assert [state[f"partition/orders/{number}"]["source_offset"] for number in (0, 1)] == [11, 11]
    assert {f"kill {pool[1].id}", f"kill {pool[2].id}", f"close {FLOW}"} <= set(log)
    assert log.count("stop helper") == 3
    assert world.memory.blob is None


async def test_down_persists_what_a_flush_was_writing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flush is cancelled with the flow's other tasks; its pairs are written all the same."""
    world.kafka.add_topic("A", "orders")
    coordinator = await world.running()
    await eventually(lambda: any(ORDERS in replicator.held for replicator in world.ray.replicators.values()))
    write, begun = FakeFlowPort.write_state, asyncio.Event()

    async def held_up_once(port: FakeFlowPort, documents: Mapping[str, Document | None]) -> int:
        if not begun.is_set():
            begun.set()
            await asyncio.sleep(10.0)
        return await write(port, documents)

    monkeypatch.setattr(FakeFlowPort, "write_state", held_up_once)
    world.first.copy(ORDERS, 11)
    await asyncio.wait_for(begun.wait(), 2.0)
    assert await coordinator.down(2.0)
    assert world.kafka.states[FLOW]["partition/orders/0"]["source_offset"] == 11


@pytest.mark.parametrize("method", ["release", "stop", "kill"])
async def test_down_ends_in_time_though_a_replicator_hangs(
    world: World, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Whatever it does not answer, not even to its task being cancelled, the caller goes on after the deadline."""
    coordinator = await world.copying("orders")
    monkeypatch.setattr(world.first, method, _hang)
    async with asyncio.timeout(4.0):
        assert await coordinator.down(0.1) is (method != "release")
    assert world.memory.blob is None


async def test_down_ends_in_time_though_nothing_was_established(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a state topic that does not open, nor an update that waits for a flow to end, holds it up."""
    monkeypatch.setattr(FakeFlowPort, "open", _hang)
    monkeypatch.setattr(FakeFlowPort, "close", _hang)
    world.ray.no_room = True
    coordinator = await world.running()
    update = asyncio.create_task(coordinator.apply(settings(flow("A->C"))))
    await asyncio.sleep(0.02)
    assert not update.done()
    async with asyncio.timeout(4.0):
        assert not await coordinator.down(0.1)


async def _hang(*_args: object, **_options: object) -> None:
    """Ten seconds, and being cancelled only once is no reason to end earlier."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(10.0)
    await asyncio.sleep(10.0)
