"""The coordinator's side of the consumer groups: watches the checkpoint actors, and passes questions on to them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.ports import CheckpointPort
from mirror_ray.model.errors import MirrorError, NotRunningError
from mirror_ray.observe.groups import FlowGroups, GroupStatus
from mirror_ray.offsets.translation import Translation

_log = logging.getLogger(__name__)

_EVERY_S = 1.0


class GroupWatch:
    """Keeps the checkpoint actors up; what they tell goes into the event log."""

    def __init__(
        self, port: Callable[[MirrorSettings], CheckpointPort], emit: Callable[[str, str, str, int], None]
    ) -> None:
        self.flows: Mapping[str, FlowGroups] = {}
        #: Why a flow's audit log has not all that they have committed.
        self.audit: Mapping[str, str] = {}
        self._make_port = port
        self._emit = emit
        self._port: CheckpointPort | None = None
        self._told: str | None = None

    def configure(self, settings: MirrorSettings) -> None:
        """Carry groups over by these settings from now on."""
        self._port = self._make_port(settings)

    async def watch(self, begin: Callable[[], Awaitable[object]]) -> None:
        """Ask them again and again, once ``begin`` is over; one that has died is started again by that."""
        await begin()
        while True:
            await asyncio.sleep(_EVERY_S)
            if self._port is None:
                continue
            try:
                report = await self._port.report()
            except MirrorError as error:
                self.flows = {}
                if self._told is None:
                    _log.warning("checkpoint actors: %s; started again", error)
                self._told = str(error)
                continue
            self._told = None
            self.flows, self.audit = report.flows, report.audit
            for time_ms, level, subject, text in report.events:
                self._emit(level, subject, text, time_ms)

    async def groups(self, flow: str | None) -> Sequence[GroupStatus]:
        """Every group, of one flow or of all."""
        return await self._running().groups(flow)

    async def settle(self, deadline_s: float) -> bool:
        """Carry over at once what can be; whether that was done by the deadline."""
        return await self._running().settle(deadline_s)

    async def translate(self, flow: str, topic: str, partition: int, offset: int, *, back: bool) -> Translation:
        """Where a position is on the other side."""
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
