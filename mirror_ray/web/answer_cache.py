"""Answers that cost the system something, kept for whoever asks: however often that is, the system is asked rarely."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from mirror_ray.model.audit import AuditEntry, AuditQuery, newest
from mirror_ray.model.errors import MirrorError

_T = TypeVar("_T")
#: Reads the audit log: the entries that a query selects, oldest first.
AuditReader = Callable[[AuditQuery], Awaitable[Sequence[AuditEntry]]]

#: How far back the audit log is read for all, and for how long that is good enough.
_WINDOWS_MS: Final = ((3_600_000, 10.0), (86_400_000, 10.0), (604_800_000, 30.0), (None, 60.0))
#: Of the newest so many entries.
_ENTRIES: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Kept(Generic[_T]):
    answer: _T | MirrorError
    until_s: float


class CachedAnswer(Generic[_T]):
    """Asks at most once in ``fresh_s``; whoever comes meanwhile waits for the same answer, a refusal too."""

    def __init__(
        self, ask: Callable[[], Awaitable[_T]], fresh_s: float, clock: Callable[[], float], *, rest: float = 0.0
    ) -> None:
        """``clock``: monotonic seconds. ``rest``: an answer is kept for so many times as long as it took, at least."""
        self._ask, self._fresh_s, self._clock, self._rest = ask, fresh_s, clock, rest
        self._kept: _Kept[_T] | None = None
        self._asking: asyncio.Task[_Kept[_T]] | None = None

    async def get(self) -> _T:
        """The answer; raises the MirrorError that was raised instead of one."""
        if self._kept is None or self._clock() >= self._kept.until_s:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._renew())
            self._kept = await asyncio.shield(self._asking)
        if isinstance(self._kept.answer, MirrorError):
            raise self._kept.answer
        return self._kept.answer

    async def _renew(self) -> _Kept[_T]:
        began_s = self._clock()
        try:
            answer: _T | MirrorError = await self._ask()
        except MirrorError as error:
            answer = error
        now_s = self._clock()
        return _Kept(answer, now_s + max(self._fresh_s, self._rest * (now_s - began_s)))


class CachedAudit:
    """The audit log where nobody has a token: few windows of time, read one at a time."""

    def __init__(self, read: AuditReader, *, clock: Callable[[], float], wall_ms: Callable[[], int]) -> None:
        """``clock``: monotonic seconds; ``wall_ms``: the time of day."""
        self._read, self._wall_ms = read, wall_ms
        self._one = asyncio.Lock()
        self._windows = [
            (window_ms, CachedAnswer(self._window_reader(window_ms), fresh_s, clock))
            for window_ms, fresh_s in _WINDOWS_MS
        ]

    def _window_reader(self, window_ms: int | None) -> Callable[[], Awaitable[Sequence[AuditEntry]]]:
        async def read() -> Sequence[AuditEntry]:
            async with self._one:
                since_ms = None if window_ms is None else self._wall_ms() - window_ms
                return await self._read(AuditQuery(since_ms=since_ms, limit=_ENTRIES))

        return read

    async def read(self, wanted: AuditQuery) -> Sequence[AuditEntry]:
        """The entries that are wanted, of the newest that are kept; a few seconds old at most, or a minute."""
        back_ms = self._wall_ms() - (wanted.since_ms or 0)
        # The page asks for whole windows, and comes a moment later than it counted.
        slack_ms = 5_000
        chosen = next(
            answer for window_ms, answer in self._windows if window_ms is None or back_ms <= window_ms + slack_ms
        )
        return newest(await chosen.get(), replace(wanted, limit=min(wanted.limit, _ENTRIES)))
