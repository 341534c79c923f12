"""Keeps the helper actors up (heartbeat, gateway, checkpoint actors), and passes on what they report.

A helper that has died is started again by the next poll.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.ports import CheckpointPort, Emit, GatewayPort, HeartbeatPort
from mirror_ray.model.errors import MirrorError, NotRunningError
from mirror_ray.observe.groups import FlowGroups, GroupStatus
from mirror_ray.offsets.translation import Translation

_log = logging.getLogger(__name__)

_POLL_S = 1.0


class HeartbeatWatch:
    """Polls the heartbeat actor."""

    def __init__(self, make: Callable[[MirrorSettings], HeartbeatPort], emit: Emit) -> None:
        """``make``: the actor's client for some settings."""
        #: Seconds since the last acknowledged heartbeat, by flow.
        self.ages_s: Mapping[str, float | None] = {}
        self._make, self._emit = make, emit
        self._port: HeartbeatPort | None = None

    def configure(self, settings: MirrorSettings) -> None:
        """Emit heartbeats by these settings from now on."""
        self._port = self._make(settings)

    async def watch(self, ready: Callable[[], Awaitable[object]]) -> None:
        """Poll every second from ``ready`` on."""
        await ready()
        while True:
            await asyncio.sleep(_POLL_S)
            if self._port is not None:
                try:
                    self.ages_s = dict(await self._port.ages_s())
                except MirrorError as error:
                    self.ages_s = {}
                    self._emit("warning", "heartbeat", f"{error}; started again")

    async def stop(self) -> None:
        """End the actor."""
        port, self._port = self._port, None
        if port is not None:
            await port.stop()


class GatewayWatch:
    """Polls the gateway."""

    def __init__(
        self, make: Callable[[MirrorSettings], GatewayPort], emit: Emit, refused: Callable[[str], Awaitable[object]]
    ) -> None:
        """``refused`` keeps in the audit log that a client was refused, and why."""
        #: Where the web UI is; None: it is off, or not up yet.
        self.address: str | None = None
        self._make, self._emit, self._refused = make, emit, refused
        self._port: GatewayPort | None = None
        self._reported: str | None = None

    async def configure(self, settings: MirrorSettings) -> None:
        """Serve by these settings from now on."""
        before, self._port = self._port, self._make(settings) if settings.gateway.enabled else None
        if before is not None and self._port is None:
            self.address = None
            await before.stop()

    async def watch(self, ready: Callable[[], Awaitable[object]]) -> None:
        """Poll every second from ``ready`` on."""
        await ready()
        while True:
            if self._port is not None:
                await self._poll(self._port)
            await asyncio.sleep(_POLL_S)

    async def _poll(self, port: GatewayPort) -> None:
        try:
            address = await port.address()
        except MirrorError as error:
            self.address = None
            if str(error) != self._reported:
                self._reported = str(error)
                self._emit("warning", "gateway", f"{error}; tried again")
            return
        if address != self.address:
            self._emit("info", "gateway", f"the page and the metrics are at {address}")
        self.address, self._reported = address, None
        for notice in port.notices():
            self._emit(notice.level, "gateway", notice.text)
            if notice.refused:
                await self._refused(notice.text)

    async def stop(self) -> None:
        """End the gateway."""
        port, self._port = self._port, None
        if port is not None:
            await port.stop()


class GroupWatch:
    """Polls the checkpoint actors, and passes questions about consumer groups on to them."""

    def __init__(
        self, make: Callable[[MirrorSettings], CheckpointPort], emit: Callable[[str, str, str, int], None]
    ) -> None:
        """``emit`` writes an event that happened at a time (ms)."""
        self.flows: Mapping[str, FlowGroups] = {}
        #: Why a flow's audit log lacks some of what they have committed.
        self.audit: Mapping[str, str] = {}
        self._make, self._emit = make, emit
        self._port: CheckpointPort | None = None
        self._failing = False

    def configure(self, settings: MirrorSettings) -> None:
        """Sync groups by these settings from now on."""
        self._port = self._make(settings)

    async def watch(self, ready: Callable[[], Awaitable[object]]) -> None:
        """Poll every second from ``ready`` on."""
        await ready()
        while True:
            await asyncio.sleep(_POLL_S)
            if self._port is None:
                continue
            try:
                report = await self._port.report()
            except MirrorError as error:
                self.flows = {}
                if not self._failing:
                    _log.warning("checkpoint actors: %s; started again", error)
                self._failing = True
                continue
            self._failing = False
            self.flows, self.audit = report.flows, report.audit
            for time_ms, level, subject, text in report.events:
                self._emit(level, subject, text, time_ms)

    async def groups(self, flow: str | None) -> Sequence[GroupStatus]:
        """Every group, of one flow or of all."""
        return await self._running().groups(flow)

    async def settle(self, deadline_s: float) -> bool:
        """Sync at once what can be; whether that was done by the deadline."""
        return await self._running().settle(deadline_s)

    async def translate(self, flow: str, topic: str, partition: int, offset: int, *, back: bool) -> Translation:
        """The target offset that belongs to a source offset; ``back``: the other way round."""
        return await self._running().translate(flow, topic, partition, offset, back=back)

    async def stop(self) -> None:
        """End the checkpoint actors."""
        port, self._port = self._port, None
        if port is not None:
            await port.stop()

    def _running(self) -> CheckpointPort:
        if self._port is None:
            raise NotRunningError("no flows yet: mirror-ray up CONFIG")
        return self._port


class AuditWatch:
    """What keeps the audit logs from being whole, here and in the checkpoint actors; an event at each change."""

    def __init__(self, own: Callable[[], Mapping[str, str]], groups: GroupWatch, emit: Emit) -> None:
        """``own``: why a flow's log lacks something of this process."""
        self._own, self._groups, self._emit = own, groups, emit
        self._reported: dict[str, str] = {}

    def problems(self) -> Mapping[str, str]:
        """Why a flow's log lacks something, by flow."""
        found = {**self._groups.audit, **self._own()}
        for flow, reason in found.items():
            if self._reported.get(flow) != reason:
                self._emit("warning", flow, reason)
        for flow in self._reported.keys() - found.keys():
            self._emit("info", flow, "the audit log is written again")
        self._reported = found
        return found
