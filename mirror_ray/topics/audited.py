"""What was changed of a flow's remote topics, as its audit topic has it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_ray.model.acls import Acl
from mirror_ray.model.change import Change
from mirror_ray.model.names import FlowName
from mirror_ray.topics.config_sync import ConfigChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """Changes that one part of the system, or a command, made for a flow at one time."""

    flow: FlowName
    by: str
    time_ms: int

    def change(self, subject: str, what: str, before: str | None, after: str | None, why: str) -> Change:
        """Of anything, on the target."""
        return Change(
            time_ms=self.time_ms,
            by=f"{self.by} of {self.flow}",
            cluster=self.flow.target,
            subject=subject,
            what=what,
            before=before,
            after=after,
            why=why,
        )

    def config(self, remote: str, change: ConfigChange) -> Change:
        """Of a remote topic's config."""
        return self.change(f"topic {remote}", change.key, change.before, change.after, change.why)

    def created(self, acl: Acl) -> Change:
        """Of an ACL that is on the source."""
        return self.change(_on(acl), "ACL", None, str(acl), "on the source")

    def deleted(self, acl: Acl) -> Change:
        """Of one that no longer is."""
        return self.change(_on(acl), "ACL", str(acl), None, "no longer on the source")


def _on(acl: Acl) -> str:
    return f"{acl.resource.lower()} {acl.name}"
