"""What is wrong with a running system, in one form for everybody who asks: status, the page, metrics and alerts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

#: ``flow_down``: a side of the flow does not answer. ``partition_stopped``: a topic or partition is stopped or refused.
#: ``lag_high``, ``lag_growing``: behind by more than the limit; the source writes faster than we copy.
#: ``heartbeat_stale``, ``checkpoint_stale``: no heartbeat, or no round over consumer groups, for too long.
#: ``replicator_died``: not long ago. ``crash_loop``: again and again. ``replicator_missing``: it can't be brought up,
#: or answers with errors. ``drift``: configs or rights differ and can't be brought in step. ``gap_recorded``: a
#: partition went on without some records. ``audit_failing``: what is changed can't be kept in the audit log.
#: ``coordinator_absent``: nobody answers for the system; the replicators go on
#: copying.
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
    "gap_recorded",
    "audit_failing",
    "coordinator_absent",
]
PROBLEM_KINDS: tuple[ProblemKind, ...] = get_args(ProblemKind)

Severity = Literal["warning", "critical"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong now."""

    kind: ProblemKind
    severity: Severity
    #: The flow that it is about; "" where it is about the system.
    flow: str
    #: The flow, topic, partition or replicator that it is about.
    subject: str
    #: One sentence: what is wrong. The same wherever it is shown.
    text: str
    #: One sentence: what to do next.
    remedy: str

    def __str__(self) -> str:
        where = self.subject if self.flow in ("", self.subject) else f"{self.flow} {self.subject}"
        return f"{self.kind}  {where}: {self.text}. Next: {self.remedy}"
