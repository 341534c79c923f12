"""Changes of a registry beside what is registered, each of them in the audit log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mirror_ray.kafka.audit_log import AuditLog, recorded_async
from mirror_ray.model.cluster_change import ClusterChange
from mirror_ray.model.errors import MirrorError
from mirror_ray.registry.client import RegistryRefusedError
from mirror_ray.registry.registry import Mode, SchemaRegistry
from mirror_ray.registry.schema import Subject, SubjectVersion


class RecordedChanges:
    """Sets levels and modes of a registry, and soft-deletes versions. Raises what ``SchemaRegistry`` raises."""

    def __init__(self, registry: SchemaRegistry, audit_log: AuditLog) -> None:
        self._registry, self._audit_log = registry, audit_log

    async def set_level(self, subject: Subject | None, level: str, *, before: str | None, why: str) -> None:
        """Set a subject's compatibility level; None: the global one."""
        change = self._change("set_compatibility", _named(subject), before, level, why)
        await self._record(change, lambda: self._registry.set_compatibility(subject, level))

    async def set_mode(
        self, subject: Subject | None, mode: Mode, *, before: str | None, why: str, force: bool = False
    ) -> None:
        """Set a subject's mode; None: the global one."""
        change = self._change("set_mode", _named(subject), before, mode, why)
        await self._record(change, lambda: self._registry.set_mode(subject, mode, force=force))

    async def clear_mode(self, subject: Subject, *, before: str | None, why: str) -> None:
        """Have a subject have no mode of its own, so that the global one holds."""
        change = self._change("set_mode", _named(subject), before, None, why)
        await self._record(change, lambda: self._registry.clear_mode(subject))

    async def delete(self, at: SubjectVersion, why: str) -> None:
        """Soft-delete a version."""
        change = self._change("delete_schema", f"schema {at}", None, "soft-deleted", why)
        await self._record(change, lambda: self._registry.delete(at))

    def _change(self, kind: str, subject: str, before: str | None, after: str | None, why: str) -> ClusterChange:
        return ClusterChange(
            kind=kind, cluster=self._registry.alias, subject=subject, before=before, after=after, why=why
        )

    async def _record(self, change: ClusterChange, act: Callable[[], Awaitable[None]]) -> None:
        refused: RegistryRefusedError | None = None

        async def outcome() -> dict[str, MirrorError | None]:
            nonlocal refused
            try:
                await act()
            except RegistryRefusedError as error:
                refused = error
            return {change.subject: refused}

        await recorded_async(self._audit_log, {change.subject: change}, outcome)
        if refused is not None:
            raise refused


def _named(subject: Subject | None) -> str:
    return "schema registry" if subject is None else f"schema {subject}"
