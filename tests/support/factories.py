"""Values and objects that tests need and don't care about the details of."""

from __future__ import annotations

from mirror_ray.groups.translated_offset import TranslatedOffset
from mirror_ray.kafka.audit_logs import AuditLogs
from mirror_ray.model.audit import AuditPrincipal
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.translation import Translation


def audit_logs(component: str = "test", system: str = "mirror") -> AuditLogs:
    """Audit logs of a process of its own; nothing is written before something is changed."""
    return AuditLogs(AuditPrincipal(system=system, component=component))


def translated_offset(
    origin: TopicPartition,
    origin_offset: int | None,
    destination: TopicPartition | None,
    offset: int | None,
    *,
    group: str = "g",
    exact: bool = True,
    reason: str | None = None,
    metadata: str = "",
) -> TranslatedOffset:
    """A group's offset on the cluster that it leaves, and where that is on the one that it goes to."""
    return TranslatedOffset(
        group=group,
        origin=origin,
        origin_offset=origin_offset,
        destination=destination,
        translation=Translation(offset=offset, exact=exact, reason=reason),
        metadata=metadata,
    )
