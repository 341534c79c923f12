"""The gateway and its coordinator behind Ray: each finds the other by name."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import ray
from ray.actor import ActorHandle

from actors import spawn
from actors.actor_clients import call
from mirror_ray.config.difference import SettingsDifference
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.ports import ReplicatorGoneError
from mirror_ray.kafka.audit_topics import read_audit
from mirror_ray.model.audit import AuditEntry, AuditQuery
from mirror_ray.model.errors import MirrorError, NoAnswerError, NotRunningError
from mirror_ray.model.notice import Notice
from mirror_ray.observe.groups import GroupStatus
from mirror_ray.observe.system_snapshot import SystemSnapshot
from mirror_ray.state.actor_names import NAMESPACE, coordinator_name, gateway_name

_ANSWER_S: Final = 5.0
_ACT_S: Final = 30.0


class RayGateway:
    """The gateway actor, brought up when it is first asked, and again when it has died."""

    def __init__(self, name: str, settings: MirrorSettings) -> None:
        """``name``: the system's."""
        self._name = name
        self._settings = settings.gateway
        self._handle: ActorHandle[Any] | None = None
        self._notices: list[Notice] = []

    async def address(self) -> str:
        """See ``GatewayPort``."""
        try:
            if self._handle is None:
                self._handle = await asyncio.to_thread(spawn.spawn_gateway, self._name)
            address, notices = await call(self._handle.configure.remote(self._settings))
            self._notices += notices
        except ReplicatorGoneError:
            self._handle = None
            raise
        return str(address)

    def notices(self) -> Sequence[Notice]:
        """See ``GatewayPort``."""
        told, self._notices = self._notices, []
        return told

    async def stop(self) -> None:
        """See ``GatewayPort``."""
        with contextlib.suppress(ValueError, TimeoutError, MirrorError):
            handle: ActorHandle[Any] = await asyncio.to_thread(
                ray.get_actor, gateway_name(self._name), namespace=NAMESPACE
            )
            await asyncio.wait_for(call(handle.stop.remote()), _ANSWER_S)
            await asyncio.to_thread(ray.kill, handle)


class RaySystem:
    """The coordinator as a ``System``."""

    def __init__(self, name: str) -> None:
        """``name``: the system's."""
        self._name = name
        self._operator = ""
        self._handle: ActorHandle[Any] | None = None

    def by(self, operator: str) -> RaySystem:
        """See ``System``."""
        same = RaySystem(self._name)
        same._operator, same._handle = operator, self._handle
        return same

    async def audit(self, wanted: AuditQuery) -> Sequence[AuditEntry]:
        """See ``System``. The log is read here: the coordinator has better things to do."""
        settings: MirrorSettings = await self._ask("configuration", within_s=_ANSWER_S)
        try:
            async with asyncio.timeout(_ACT_S):
                return await read_audit(settings, wanted)
        except TimeoutError:
            raise NoAnswerError(f"the audit log was not read within {_ACT_S:g} s: ask for a shorter time") from None
        except OSError as error:
            raise NoAnswerError(f"the audit log can't be read now: {error}") from error

    async def picture(self) -> SystemSnapshot:
        """See ``System``."""
        picture: SystemSnapshot = await self._ask("snapshot", within_s=_ANSWER_S)
        return picture

    async def groups(self, flow: str | None) -> Sequence[GroupStatus]:
        """See ``System``."""
        groups: Sequence[GroupStatus] = await self._ask("groups", flow, within_s=_ACT_S)
        return groups

    async def pause(self, flow: str, topic: str | None, partition: int | None) -> None:
        """See ``System``."""
        await self._act("pause", flow, topic, partition)

    async def resume(self, flow: str, topic: str | None, partition: int | None) -> None:
        """See ``System``."""
        await self._act("resume", flow, topic, partition)

    async def scale(self, replicators: int) -> None:
        """See ``System``."""
        await self._act("scale", replicators)

    async def set(self, flow: str | None, changes: Mapping[str, str | None], dry_run: bool) -> SettingsDifference:
        """See ``System``."""
        found: SettingsDifference = await self._act("set", flow, changes, dry_run)
        return found

    async def _act(self, act: str, *args: object) -> Any:
        return await self._ask("act", self._operator, act, args, within_s=_ACT_S)

    async def _ask(self, method: str, *args: object, within_s: float) -> Any:
        try:
            if self._handle is None:
                self._handle = await asyncio.to_thread(ray.get_actor, coordinator_name(self._name), namespace=NAMESPACE)
            return await asyncio.wait_for(call(getattr(self._handle, method).remote(*args)), within_s)
        except ValueError:
            raise NotRunningError(f"{self._name} has no coordinator: mirror-ray up CONFIG") from None
        except TimeoutError:
            self._handle = None
            raise NoAnswerError(f"the coordinator of {self._name} did not answer within {within_s:g} s") from None
        except ReplicatorGoneError:
            self._handle = None
            raise
