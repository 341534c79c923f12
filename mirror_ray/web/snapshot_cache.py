"""The last picture of a system, kept for everybody who looks: also while nobody answers for the system."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from mirror_ray.model.errors import MirrorError
from mirror_ray.observe.history import EVERY_MS, History
from mirror_ray.observe.problems import Problem
from mirror_ray.observe.system_snapshot import SystemSnapshot
from mirror_ray.web.port import SystemPort

_log = logging.getLogger(__name__)

#: How often while somebody looks.
_LIVE_S: Final = 1.0
#: A coordinator that is restarted is back within a few seconds; one that is busy answers within this.
_ABSENT_S: Final = 5.0
#: Whoever asks is answered within this, if need be with the last picture.
_WAIT_S: Final = 0.8


@dataclass(frozen=True, slots=True)
class CachedSnapshot:
    """The last picture, how old it is, and whether the coordinator answers."""

    picture: SystemSnapshot | None
    age_s: float
    up: bool


class SnapshotCache:
    """Asks for pictures: every five seconds, every second while somebody looks, at once for whoever wants a new one."""

    def __init__(
        self, system: SystemPort, *, clock: Callable[[], float], on_picture: Callable[[SystemSnapshot], None]
    ) -> None:
        """``clock``: monotonic seconds. ``on_picture`` is called with each new one."""
        self.history = History()
        self._lookers = 0
        self._system = system
        self._clock = clock
        self._on_picture = on_picture
        self._picture: SystemSnapshot | None = None
        self._taken_s = clock()
        self._asking: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """For as long as the gateway is there."""
        while True:
            every_s = _LIVE_S if self._lookers else EVERY_MS / 1000
            await self.refresh(every_s / 2)
            await asyncio.sleep(every_s)

    @contextlib.contextmanager
    def looked_at(self) -> Iterator[None]:
        """For as long as somebody looks."""
        self._lookers += 1
        try:
            yield
        finally:
            self._lookers -= 1

    async def refresh(self, older_than_s: float) -> None:
        """Ask for a new picture if the last one is older than that. Whoever comes meanwhile waits for the same.

        Nobody waits for long: while the coordinator does not answer, the last picture has to do.
        """
        if self._picture is not None and self._clock() - self._taken_s <= older_than_s:
            return
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        await asyncio.wait({self._asking}, timeout=_WAIT_S)

    async def _ask(self) -> None:
        try:
            picture = await self._system.picture()
        except MirrorError as error:
            _log.info("no picture: %s", error)
            return
        self._picture, self._taken_s = picture, self._clock()
        self.history.add(picture)
        self._on_picture(picture)

    def seen(self) -> CachedSnapshot:
        """What is known now. When nobody has answered for a while, that is a problem of its own."""
        age_s = self._clock() - self._taken_s
        up = self._picture is not None and age_s < EVERY_MS / 1000 + _ABSENT_S
        picture = self._picture
        if picture is not None and not up:
            system = replace(picture.system, problems=(_absent(picture.system.name), *picture.system.problems))
            picture = replace(picture, system=system)
        return CachedSnapshot(picture, age_s, up)


def _absent(system: str) -> Problem:
    return Problem(
        kind="coordinator_absent",
        severity="critical",
        flow="",
        subject=system,
        text="the coordinator does not answer; replicators go on copying, all that is shown is old",
        remedy="ray status: is the head up? Ray starts the coordinator again by itself",
    )
