"""Every change of a cluster goes through an ``AuditLog``, which records it before and after."""

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
    """Records changes of clusters. Thread-safe."""

    def begin(self, changes: Sequence[ClusterChange]) -> list[AuditEntry]:
        """Record that these changes are intended; called before they are made.

        Blocks until they are in the log where ``audit.required`` is set.

        Raises:
            MirrorError: The log is required and can't be written: nothing may be changed.
        """

    def end(self, entries: Iterable[AuditEntry]) -> None:
        """Record the outcomes of changes: the entries that ``begin`` returned, with their outcomes."""


class _Unrecorded:
    def begin(self, changes: Sequence[ClusterChange]) -> list[AuditEntry]:
        who = AuditPrincipal(system="", component="")
        return [entry_of(change, who, "", time_ms=0, id_="", outcome="intended") for change in changes]

    def end(self, entries: Iterable[AuditEntry]) -> None:
        pass


#: For changes that are no system's: a demonstration's own topics, and the log itself.
UNRECORDED: Final[AuditLog] = _Unrecorded()


def recorded(
    audit_log: AuditLog,
    changes: Mapping[_K, ClusterChange],
    act: Callable[[], _Outcomes[_K]],
    unchanged: Callable[[MirrorError], bool] = lambda _: False,
) -> dict[_K, MirrorError | None]:
    """Make ``changes`` by ``act``, which returns each one's error, or None; record each with its outcome.

    ``unchanged``: whether an error means that nothing had to be changed. Returns the outcomes of ``act``.

    Raises:
        MirrorError: The log is required and can't be written; ``act`` was not called.
    """
    entries = dict(zip(changes, audit_log.begin(list(changes.values())), strict=True))
    try:
        outcomes = dict(act())
    except BaseException as error:
        _end_unknown(audit_log, entries.values(), error)
        raise
    audit_log.end(_with_outcomes(entries, outcomes, unchanged))
    return outcomes


async def recorded_async(
    audit_log: AuditLog, changes: Mapping[_K, ClusterChange], act: Callable[[], Awaitable[_Outcomes[_K]]]
) -> dict[_K, MirrorError | None]:
    """``recorded`` on an event loop, which it does not block."""
    begun = await asyncio.to_thread(audit_log.begin, list(changes.values()))
    entries = dict(zip(changes, begun, strict=True))
    try:
        outcomes = dict(await act())
    except BaseException as error:
        _end_unknown(audit_log, entries.values(), error)
        raise
    audit_log.end(_with_outcomes(entries, outcomes, lambda _: False))
    return outcomes


def _end_unknown(audit_log: AuditLog, entries: Iterable[AuditEntry], error: BaseException) -> None:
    audit_log.end(entry.with_outcome("unknown", str(error) or type(error).__name__) for entry in entries)


def _with_outcomes(
    entries: Mapping[_K, AuditEntry], outcomes: _Outcomes[_K], unchanged: Callable[[MirrorError], bool]
) -> list[AuditEntry]:
    finished = []
    for key, entry in entries.items():
        error = outcomes.get(key)
        if error is None:
            finished.append(entry.with_outcome("done"))
        elif unchanged(error):
            finished.append(entry.with_outcome("unchanged"))
        else:
            outcome: Outcome = "unknown" if isinstance(error, ClusterUnreachableError) else "refused"
            finished.append(entry.with_outcome(outcome, str(error)))
    return finished
