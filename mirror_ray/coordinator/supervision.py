"""Keeps the helper actors up (heartbeat, gateway, checkpoint actors), and passes on what they report.

A helper that has died is started again by the next poll.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Generic, Protocol, TypeVar

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.ports import CheckpointPort, Emit, GatewayPort, HeartbeatPort
from mirror_ray.model.errors import MirrorError, NotRunningError
from mirror_ray.model.names import FlowName
from mirror_ray.observe.groups import CheckpointReport, FlowGroups

_log = logging.getLogger(__name__)

_POLL_S = 1.0


class _Stoppable(Protocol):
    async def stop(self) -> None: ...


class _Audited(Protocol):
    @property
    def audit(self) -> Mapping[str, str]: ...


_Port = TypeVar("_Port", bound=_Stoppable)
_Status = TypeVar("_Status")
_Status_co = TypeVar("_Status_co", covariant=True)


class _Report(Protocol[_Status_co]):
    @property
    def events(self) -> tuple[tuple[int, str, str, str], ...]: ...

    @property
    def flows(self) -> Mapping[str, _Status_co]: ...

    @property
    def audit(self) -> Mapping[str, str]: ...


class HelperWatch(Generic[_Port]):
    """Polls one kind of helper every second, by the newest settings."""

    def __init__(self, make: Callable[[MirrorSettings], _Port]) -> None:
        """``make``: the actor's client for some settings."""
        self._make = make
        self._port: _Port | None = None

    async def configure(self, settings: MirrorSettings) -> None:
        """Have the helper work by these settings from now on."""
        self._port = self._make(settings)

    async def watch(self, ready: Callable[[], Awaitable[object]] | None = None) -> None:
        """Poll from ``ready`` on; without it at once."""
        if ready is not None:
            await ready()
        while True:
            if self._port is not None:
                await self._poll(self._port)
            await asyncio.sleep(_POLL_S)

    async def _poll(self, port: _Port) -> None:
        raise NotImplementedError

    async def stop(self) -> None:
        """End the helper."""
        port, self._port = self._port, None
        if port is not None:
            await port.stop()


class ReportWatch(HelperWatch[_Port], Generic[_Port, _Status]):
    """Polls helpers that report how each flow is, and what happened since."""

    def __init__(
        self, what: str, make: Callable[[MirrorSettings], _Port], emit: Callable[[str, str, str, int], None]
    ) -> None:
        """``what`` they are, for the log; ``emit`` writes an event that happened at a time (ms)."""
        super().__init__(make)
        self.flows: Mapping[str, _Status] = {}
        #: Why a flow's audit log lacks some of what they have changed.
        self.audit: Mapping[str, str] = {}
        self._what, self._emit = what, emit
        self._failing = False

    async def _poll(self, port: _Port) -> None:
        try:
            report = await self._ask(port)
        except MirrorError as error:
            self.flows = {}
            if not self._failing:
                _log.warning("%s: %s; started again", self._what, error)
            self._failing = True
            return
        self._failing = False
        self.flows, self.audit = report.flows, report.audit
        for time_ms, level, subject, text in report.events:
            self._emit(level, subject, text, time_ms)

    async def _ask(self, port: _Port) -> _Report[_Status]:
        raise NotImplementedError


class HeartbeatWatch(HelperWatch[HeartbeatPort]):
    """Polls the heartbeat actor."""

    def __init__(self, make: Callable[[MirrorSettings], HeartbeatPort], emit: Emit) -> None:
        super().__init__(make)
        #: Seconds since the last acknowledged heartbeat, by flow.
        self.ages_s: Mapping[str, float | None] = {}
        self._emit = emit

    async def _poll(self, port: HeartbeatPort) -> None:
        try:
            self.ages_s = dict(await port.ages_s())
        except MirrorError as error:
            self.ages_s = {}
            self._emit("warning", "heartbeat", f"{error}; started again")


class GatewayWatch(HelperWatch[GatewayPort]):
    """Polls the gateway."""

    def __init__(
        self, make: Callable[[MirrorSettings], GatewayPort], emit: Emit, refused: Callable[[str], Awaitable[object]]
    ) -> None:
        """``refused`` keeps in the audit log that a client was refused, and why."""
        super().__init__(make)
        #: Where the web UI is; None: it is off, or not up yet.
        self.address: str | None = None
        self._emit, self._refused = emit, refused
        self._reported: str | None = None

    async def configure(self, settings: MirrorSettings) -> None:
        """Serve by these settings from now on."""
        if settings.gateway.enabled:
            await super().configure(settings)
        else:
            self.address = None
            await self.stop()

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


class GroupWatch(ReportWatch[CheckpointPort, FlowGroups]):
    """Polls the checkpoint actors, and passes questions about consumer groups on to them."""

    def __init__(
        self,
        make: Callable[[MirrorSettings], CheckpointPort],
        emit: Callable[[str, str, str, int], None],
        fenced: Callable[[], Collection[FlowName]],
    ) -> None:
        """``emit`` writes an event that happened at a time (ms); ``fenced``: flows that another coordinator has."""
        super().__init__("checkpoint actors", make, emit)
        self._settings: MirrorSettings | None = None
        self._fenced, self._without = fenced, frozenset[FlowName]()

    async def configure(self, settings: MirrorSettings) -> None:
        """Sync by these settings from now on, but for flows whose groups another system syncs."""
        self._settings, self._without = settings, frozenset(self._fenced())
        await super().configure(_without_groups(settings, self._without))

    async def _poll(self, port: CheckpointPort) -> None:
        if self._settings is not None and self._without != frozenset(self._fenced()):
            await self.configure(self._settings)
        else:
            await super()._poll(port)

    async def _ask(self, port: CheckpointPort) -> CheckpointReport:
        return await port.report()

    @property
    def actors(self) -> CheckpointPort:
        """The checkpoint actors.

        Raises:
            NotRunningError: There are none yet.
        """
        if self._port is None:
            raise NotRunningError("no flows yet: mirror-ray up CONFIG")
        return self._port


def _without_groups(settings: MirrorSettings, flows: Collection[FlowName]) -> MirrorSettings:
    if not flows:
        return settings
    off = {"emit_checkpoints_enabled": False}
    changed = tuple(
        flow.model_copy(update={"groups": flow.groups.model_copy(update=off)}) if flow.name in flows else flow
        for flow in settings.flows
    )
    return settings.model_copy(update={"flows": changed})


class AuditWatch:
    """What keeps the audit logs from being whole, here and in the helper actors; an event at each change."""

    def __init__(self, own: Callable[[], Mapping[str, str]], *others: _Audited, emit: Emit) -> None:
        """``own``: why a flow's log lacks something of this process; ``others``: the helpers."""
        self._own, self._others, self._emit = own, others, emit
        self._reported: dict[str, str] = {}

    def problems(self) -> Mapping[str, str]:
        """Why a flow's log lacks something, by flow."""
        found = {flow: why for other in self._others for flow, why in other.audit.items()} | dict(self._own())
        for flow, reason in found.items():
            if self._reported.get(flow) != reason:
                self._emit("warning", flow, reason)
        for flow in self._reported.keys() - found.keys():
            self._emit("info", flow, "the audit log is written again")
        self._reported = found
        return found
