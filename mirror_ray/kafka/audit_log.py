"""The way into the audit log: whoever changes a cluster does it through a ``AuditLog``, which keeps what was done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from mirror_ray.model.audit import AuditEntry, AuditPrincipal, Outcome, entry_of
from mirror_ray.model.cluster_change import ClusterChange
from mirror_ray.model.errors import ClusterUnreachableError, MirrorError

_K = TypeVar("_K")
_Outcomes = Mapping[_K, MirrorError | None]


class AuditLog(Protocol):
    """Keeps what is changed. Thread-safe."""

    def begin(self, changes: Sequence[ClusterChange]) -> list[AuditEntry]:
        """To be called before they are made; blocks where the record is required.

        Raises:
            MirrorError: The record is required and can't be written: nothing may be changed.
        """
        ...

    def end(self, entries: Iterable[AuditEntry]) -> None:
        """Keep what came of them: what ``begin`` returned, with their outcomes."""
        ...


class _Unrecorded:
    def begin(self, changes: Sequence[ClusterChange]) -> list[AuditEntry]:
        who = AuditPrincipal(system="", component="")
        return [entry_of(each, who, "", time_ms=0, id_="", outcome="intended") for each in changes]

    def end(self, entries: Iterable[AuditEntry]) -> None:
        pass


#: For what is none of a system's: a demonstration's own topics, and the log itself.
UNRECORDED: Final[AuditLog] = _Unrecorded()


def recorded(
    trail: AuditLog,
    changes: Mapping[_K, ClusterChange],
    act: Callable[[], _Outcomes[_K]],
    unchanged: Callable[[MirrorError], bool] = lambda _: False,
) -> dict[_K, MirrorError | None]:
    """Make changes, and keep them and what came of each.

    Args:
        trail: Keeps them.
        changes: What is to be changed.
        act: Makes the changes.
        unchanged: Whether an error says that it was so already.
    """
    entries = dict(zip(changes, trail.begin(list(changes.values())), strict=True))
    try:
        outcomes = dict(act())
    except BaseException as error:
        _end_unknown(trail, entries.values(), error)
        raise
    trail.end(_with_outcomes(entries, outcomes, unchanged))
    return outcomes


async def recorded_async(
    trail: AuditLog, changes: Mapping[_K, ClusterChange], act: Callable[[], Awaitable[_Outcomes[_K]]]
) -> dict[_K, MirrorError | None]:
    """``recorded`` on an event loop, which it does not block."""
    begun = await asyncio.to_thread(trail.begin, list(changes.values()))
    entries = dict(zip(changes, begun, strict=True))
    try:
        outcomes = dict(await act())
    except BaseException as error:
        _end_unknown(trail, entries.values(), error)
        raise
    trail.end(_with_outcomes(entries, outcomes, lambda _: False))
    return outcomes


def _end_unknown(trail: AuditLog, entries: Iterable[AuditEntry], error: BaseException) -> None:
    trail.end(each.said("unknown", str(error) or type(error).__name__) for each in entries)


def _with_outcomes(
    entries: Mapping[_K, AuditEntry], outcomes: _Outcomes[_K], unchanged: Callable[[MirrorError], bool]
) -> list[AuditEntry]:
    said = []
    for key, entry in entries.items():
        error = outcomes.get(key)
        if error is None:
            said.append(entry.said("done"))
        elif unchanged(error):
            said.append(entry.said("unchanged"))
        else:
            outcome: Outcome = "unknown" if isinstance(error, ClusterUnreachableError) else "refused"
            said.append(entry.said(outcome, str(error)))
    return said
