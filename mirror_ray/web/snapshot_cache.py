"""The last snapshot of a system, for all clients; also while its coordinator does not answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from mirror_ray.mirror import CoordinatorClient
from mirror_ray.model.errors import MirrorError
from mirror_ray.observe.history import EVERY_MS, History
from mirror_ray.observe.problems import Problem
from mirror_ray.observe.system_snapshot import SystemSnapshot

_log = logging.getLogger(__name__)

#: How often while a client streams.
_LIVE_S: Final = 1.0
#: A coordinator that is restarted is back within a few seconds; one that is busy answers within this.
_ABSENT_S: Final = 5.0
#: An answer of the coordinator is waited for so long before it is asked again.
_ANSWER_S: Final = 5.0
#: Whoever asks is answered within this, if need be with the last snapshot.
_WAIT_S: Final = 0.8


@dataclass(frozen=True, slots=True)
class CachedSnapshot:
    """The last snapshot, how old it is, and whether the coordinator answers."""

    snapshot: SystemSnapshot | None
    age_s: float
    up: bool


class SnapshotCache:
    """Takes a snapshot every five seconds, every second while a client streams them, and at once when one asks."""

    def __init__(
        self, client: CoordinatorClient, *, clock: Callable[[], float], on_snapshot: Callable[[SystemSnapshot], None]
    ) -> None:
        """``clock``: monotonic seconds. ``on_snapshot`` is called with each new one."""
        self.history = History()
        self._streams = 0
        self._client = client
        self._clock = clock
        self._on_snapshot = on_snapshot
        self._snapshot: SystemSnapshot | None = None
        self._taken_s = clock()
        self._asking: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """For as long as the gateway is there."""
        while True:
            every_s = _LIVE_S if self._streams else EVERY_MS / 1000
            await self.refresh(every_s / 2)
            await asyncio.sleep(every_s)

    @contextlib.contextmanager
    def streamed(self) -> Iterator[None]:
        """While a client streams snapshots."""
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1

    async def refresh(self, older_than_s: float) -> None:
        """Ask for a new snapshot if the last one is older than that. Whoever comes meanwhile waits for the same.

        Nobody waits for long: while the coordinator does not answer, the last snapshot has to do.
        """
        if self._snapshot is not None and self._clock() - self._taken_s <= older_than_s:
            return
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        await asyncio.wait({self._asking}, timeout=_WAIT_S)

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(_ANSWER_S):
                snapshot = await self._client.snapshot()
        except (MirrorError, TimeoutError) as error:
            _log.info("no snapshot: %s", error)
            return
        self._snapshot, self._taken_s = snapshot, self._clock()
        self.history.add(snapshot)
        self._on_snapshot(snapshot)

    def seen(self) -> CachedSnapshot:
        """What is known now. When nobody has answered for a while, that is a problem of its own."""
        age_s = self._clock() - self._taken_s
        up = self._snapshot is not None and age_s < EVERY_MS / 1000 + _ABSENT_S
        snapshot = self._snapshot
        if snapshot is not None and not up:
            system = replace(snapshot.system, problems=(_absent(snapshot.system.name), *snapshot.system.problems))
            snapshot = replace(snapshot, system=system)
        return CachedSnapshot(snapshot, age_s, up)


def _absent(system: str) -> Problem:
    return Problem(
        kind="coordinator_absent",
        severity="critical",
        flow="",
        subject=system,
        text="the coordinator does not answer; replicators go on copying, all that is shown is old",
        remedy="ray status: is the head up? Ray starts the coordinator again by itself",
    )
