"""Values and objects that tests need and don't care about the details of."""

from __future__ import annotations

from mirror_ray.kafka.audit_logs import AuditLogs
from mirror_ray.model.audit import AuditPrincipal


def audit_logs(component: str = "test", system: str = "mirror") -> AuditLogs:
    """Audit logs of a process of its own; nothing is written before something is changed."""
    return AuditLogs(AuditPrincipal(system=system, component=component))
