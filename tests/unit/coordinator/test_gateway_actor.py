"""The gateway and the coordinator: what one has to report, the other keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mirror_ray.config.gateway import GatewaySettings
from mirror_ray.config.providers import STANDARD_PROVIDERS
from mirror_ray.config.secrets import Secret
from mirror_ray.coordinator import supervision
from mirror_ray.mirror import CoordinatorClient
from mirror_ray.model.audit import AuditEntry
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.notice import Notice
from mirror_ray.web.client_limits import BOUNDS, ClientLimits
from mirror_ray.web.service import GatewayService
from tests.support.waiting import wait_until_async
from tests.unit.coordinator.fakes import FLOW, World, eventually, flow, settings


async def test_who_was_not_let_in_is_kept_and_reported(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the log of every flow, in nobody's name; other notices are events alone."""
    monkeypatch.setattr(supervision, "_POLL_S", 0.01)
    coordinator = world.coordinator()
    await coordinator.act("ann@desk", "apply", (settings(flow()), None))
    await eventually(lambda: coordinator.parts.gateway.address is not None)
    refused = "refused, for they had no right token: 12 from 10.0.0.7"
    world.notices += [Notice("warning", refused, refused=True), Notice("info", "the files have changed")]
    await eventually(lambda: not world.notices and len(world.kept) > 1)
    last = world.kept[-1]
    assert (last.kind, last.subject, last.outcome, last.error, last.flow) == (
        "unknown_token",
        "system mirror",
        "refused",
        refused,
        str(FLOW),
    )
    assert not last.operator
    events = [(event.level, event.subject, event.text) for event in await coordinator.events()]
    assert ("warning", "gateway", refused) in events
    assert ("info", "gateway", "the files have changed") in events
    assert len(world.kept) == 2


class _Nobody:
    """A system that does not answer, and must not be asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ask(self, method: str, *_: object, timeout_s: float) -> Any:
        assert timeout_s > 0
        self.asked.append(method)
        raise MirrorError("nobody answers")

    def end(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def _gateway(system: _Nobody, bounds: ClientLimits = BOUNDS) -> GatewayService:
    async def read(*_: object) -> Sequence[AuditEntry]:
        raise NotImplementedError

    return GatewayService(CoordinatorClient("mirror", system, ""), read, on_snapshot=lambda _: None, bounds=bounds)


async def test_a_gateway_reports_what_came_since_the_last_query() -> None:
    """And follows a token; nobody else hears of what strangers send."""
    system, bounds = _Nobody(), replace(BOUNDS, first_report_s=0.05, renewal_s=0.02)
    gateway = _gateway(system, bounds)
    served = GatewaySettings(port=0, token=Secret("a-token-of-the-page-0123456789"))
    address, error = await gateway.configure(served)
    assert not error
    async with aiohttp.ClientSession() as session:
        for _ in range(3):
            headers = {"Authorization": "Bearer nonsense"}
            async with session.post(f"{address}/api/v1/pause", json={"flow": "A->B"}, headers=headers) as answer:
                assert answer.status == 401

    async def notices() -> Any:
        return (await gateway.configure(served))[1]

    found = await wait_until_async(notices, 2.0, "it is reported")
    assert found == [Notice("warning", "refused, for they had no right token: 3 from 127.0.0.1", refused=True)]
    await gateway.stop()
    assert set(system.asked) <= {"snapshot"}


async def test_a_token_is_rotated_without_a_stop(tmp_path: Path) -> None:
    """What its file holds from now on is let in within a check or two; what it held is not."""
    file = tmp_path / "token"
    old, new = "the-old-token-0123456789", "the-new-token-0123456789"
    _write(file, old)
    settings = GatewaySettings(port=0, reading="token", token=Secret(f"${{dir:{tmp_path}:token}}", STANDARD_PROVIDERS))
    gateway = _gateway(_Nobody(), replace(BOUNDS, renewal_s=0.02))
    address, _ = await gateway.configure(settings)
    async with aiohttp.ClientSession() as session:

        async def answered(token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            async with session.get(f"{address}/api/v1/history", headers=headers) as answer:
                return answer.status

        assert (await answered(old), await answered(new)) == (200, 401)
        _write(file, new)

        async def rotated() -> bool:
            return (await answered(old), await answered(new)) == (401, 200)

        await wait_until_async(rotated, 2.0, "the new token holds")
    await gateway.stop()


def _write(file: Path, token: str) -> None:
    file.write_text(f"{token}\n")


@pytest.mark.parametrize("times", [1, 3])
async def test_a_gateway_stops_as_often_as_it_is_asked_to(times: int) -> None:
    """The port is free again."""
    gateway = _gateway(_Nobody())
    address, _ = await gateway.configure(GatewaySettings(port=0))
    for _ in range(times):
        await gateway.stop()
    with pytest.raises(ConnectionError):
        await asyncio.open_connection("127.0.0.1", int(address.rsplit(":", 1)[1]))
