"""Problems of a running system, in one form for status, the web UI, metrics and alerts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

#: ``flow_down``: a cluster of the flow does not answer. ``partition_stopped``: a topic or partition is stopped or
#: refused. ``lag_high``, ``lag_growing``: the lag is above the limit; the source is written faster than it is copied.
#: ``heartbeat_stale``, ``checkpoint_stale``: no heartbeat, or no round of group sync, for too long.
#: ``replicator_died``: a short while ago. ``crash_loop``: again and again. ``replicator_missing``: it can't be started,
#: or answers with errors. ``drift``: configs or ACLs differ and can't be synced. ``schemas_failing``: schemas are not
#: mirrored, all or some. ``gap_recorded``: a partition skipped records. ``audit_failing``: changes can't be written to
#: the audit log. ``coordinator_absent``: the coordinator does not answer; the replicators go on copying.
ProblemKind = Literal[
    "flow_down",
    "partition_stopped",
    "lag_high",
    "lag_growing",
    "heartbeat_stale",
    "checkpoint_stale",
    "replicator_died",
    "crash_loop",
    "replicator_missing",
    "drift",
    "schemas_failing",
    "gap_recorded",
    "audit_failing",
    "coordinator_absent",
]
PROBLEM_KINDS: tuple[ProblemKind, ...] = get_args(ProblemKind)

Severity = Literal["warning", "critical"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem of the moment."""

    kind: ProblemKind
    severity: Severity
    #: The flow; "" for a problem of the system.
    flow: str
    #: The flow, topic, partition or replicator.
    subject: str
    #: A sentence on what is wrong, the same wherever it is shown.
    text: str
    #: A sentence on what to do next.
    remedy: str

    def __str__(self) -> str:
        where = self.subject if self.flow in ("", self.subject) else f"{self.flow} {self.subject}"
        return f"{self.kind}  {where}: {self.text}. Next: {self.remedy}"
