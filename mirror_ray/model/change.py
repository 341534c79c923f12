"""A change that was made to a cluster, as the audit topic keeps it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change. Values are texts; None: there was, or is, none."""

    time_ms: int
    #: Who made it: the part of the system, or the command.
    by: str
    #: What was changed: ``topic A.orders`` on the cluster of this alias, and which property of it.
    cluster: str
    subject: str
    what: str
    before: str | None
    after: str | None
    why: str
