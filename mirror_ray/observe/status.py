"""Snapshots of a running system: frozen values that print as one line, travel between processes and become JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from mirror_ray.model.assignment import PartitionState
from mirror_ray.model.fault import FaultKind, FaultPolicy
from mirror_ray.model.quota import ThrottledTime
from mirror_ray.observe.backfills import BackfillStatus
from mirror_ray.observe.groups import FlowGroups
from mirror_ray.observe.problems import Problem

#: ``idle``: a flow that is not enabled and only emits heartbeats. ``degraded``: some of its partitions don't copy.
FlowState = Literal["starting", "running", "degraded", "paused", "unreachable", "idle"]
ReplicatorState = Literal["starting", "running", "unresponsive", "draining", "dead"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One partition of a flow, as of the replicator's last report."""

    flow: str
    topic: str
    partition: int
    target_topic: str
    state: PartitionState
    reason: str | None
    replicator: str | None
    #: Source's last stable offset; -1 until known.
    source_end: int
    #: Next source offset that the target has not acknowledged; -1 until known.
    position: int
    target_end: int
    #: ``source_end - position``; None until known.
    lag_records: int | None
    #: Estimate: lag_records times the mean wire bytes of a record of this partition; None until known.
    lag_bytes: int | None
    #: Age of the newest acknowledged record while there is lag, else 0; None until known.
    lag_seconds: float | None
    #: Records beyond ``source_end`` that an open transaction on the source holds back.
    held_back_records: int
    records: int
    bytes: int
    #: What kind of trouble it is in; None: none that is for somebody to decide.
    trouble: FaultKind | None = None
    #: Bytes before compression for each byte on the wire, from samples; None until known.
    compression: float | None = None

    def __str__(self) -> str:
        return (
            f"{self.flow}  {self.topic}-{self.partition}  {_because(self.state, self.reason)}  {_lag(self.lag_records)}"
            f"  {self.position} of {self.source_end}  {self.replicator or 'no replicator'}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GapStatus:
    """What a partition went on without, or did anew. Ranges are of offsets, the end not included; -1: none."""

    flow: str
    topic: str
    partition: int
    kind: FaultKind
    policy: FaultPolicy
    time_ms: int
    source_from: int
    source_to: int
    target_from: int
    target_to: int
    text: str

    def __str__(self) -> str:
        time = datetime.fromtimestamp(self.time_ms / 1000).astimezone()
        return (
            f"{time:%Y-%m-%d %H:%M:%S}  {self.flow}  {self.topic}-{self.partition}  {self.kind}: {self.policy}"
            f"  source {offsets(self.source_from, self.source_to)}"
            f"  target {offsets(self.target_from, self.target_to)}  {self.text}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """One topic of a flow."""

    flow: str
    topic: str
    remote_topic: str
    partitions: int
    copying: int
    state: PartitionState
    reason: str | None
    lag_records: int | None
    records: int
    bytes: int
    #: Sum and greatest of its partitions'; None until all that copy are known.
    lag_bytes: int | None = None
    lag_seconds: float | None = None
    records_per_s: float = 0.0
    bytes_per_s: float = 0.0
    #: Bytes before compression for each byte on the wire, from samples; None until known.
    compression: float | None = None
    #: What an hour costs at this rate; None without ``cost.price_per_gb``.
    cost_per_hour: float | None = None

    def __str__(self) -> str:
        return (
            f"{self.flow}  {self.topic} to {self.remote_topic}  {_because(self.state, self.reason)}"
            f"  {self.copying}/{self.partitions} partitions copying  {_lag(self.lag_records)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStatus:
    """One flow."""

    flow: str
    state: FlowState
    topics: int
    partitions: int
    copying: int
    lag_records: int | None
    lag_seconds: float | None
    records_per_s: float
    bytes_per_s: float
    records: int
    bytes: int
    #: Age of the last heartbeat that was acknowledged by the target; None before the first or where they are off.
    heartbeat_age_s: float | None
    #: Whether topics were listed at least once since the coordinator began.
    discovered: bool
    #: One sentence each: what does not run and what to do.
    problems: tuple[str, ...] = ()
    #: How its consumer groups are carried over; None: they are not, or it is not known yet.
    groups: FlowGroups | None = None
    #: Estimate; None until known.
    lag_bytes: int | None = None
    #: What holds it up, if that is no fault: its windows, its limits, a quota of the brokers.
    why: str | None = None
    limit_bytes_per_s: int | None = None
    held: ThrottledTime = field(default_factory=ThrottledTime)
    #: Of its topics together, and as theirs.
    compression: float | None = None
    cost_per_hour: float | None = None

    def __str__(self) -> str:
        line = (
            f"{self.flow}  {self.state}  {self.topics} topics  {self.copying}/{self.partitions} partitions copying"
            f"  {_rate(self.records_per_s, self.bytes_per_s)}  {_lag(self.lag_records)}"
        )
        why = [f"  {self.why}"] if self.why else []
        return "\n".join([line, *why, *(f"  ! {problem}" for problem in self.problems)])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatorStatus:
    """One replicator process."""

    id: str
    state: ReplicatorState
    node: str
    pid: int
    partitions: int
    records_per_s: float
    bytes_per_s: float
    #: Share of one core, since the last report.
    cpu: float
    #: Resident memory in bytes.
    memory: int
    #: Since its process began.
    cpu_seconds: float = 0.0
    records: int = 0
    bytes: int = 0
    #: Fetched and not acknowledged yet.
    buffered_bytes: int = 0

    def __str__(self) -> str:
        return (
            f"{self.id}  {self.state}  pid {self.pid} on {self.node}  {self.partitions} partitions"
            f"  {_rate(self.records_per_s, self.bytes_per_s)}  cpu {self.cpu:.0%}  {self.memory / 1e6:,.0f} MB"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A sentence for the event log: what happened and why."""

    time_ms: int
    #: ``info`` or ``warning`` or ``error``.
    level: str
    #: The flow, topic, partition or replicator that it is about.
    subject: str
    text: str
    #: Grows by one with each event of a coordinator's life.
    number: int = 0

    def __str__(self) -> str:
        time = datetime.fromtimestamp(self.time_ms / 1000).astimezone()
        return f"{time:%H:%M:%S}  {self.subject}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticStatus:
    """How the number of replicators follows load and lag."""

    min_replicators: int
    max_replicators: int
    #: As many as there should be; more than ``desired_replicators`` where nodes have no room for them.
    wanted: int
    #: An operator has set the number: it follows nothing at the moment.
    pinned: bool
    #: What the last look at the load came to, in one sentence; empty before the first.
    why: str

    def __str__(self) -> str:
        return "pinned" if self.pinned else f"{self.min_replicators}–{self.max_replicators}"  # noqa: RUF001 - a range


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemStatus:
    """The whole system at a glance."""

    name: str
    started_ms: int
    flows: tuple[FlowStatus, ...]
    replicators: tuple[ReplicatorStatus, ...]
    desired_replicators: int
    coordinator_pid: int
    coordinator_node: str
    #: Those that are under way.
    backfills: tuple[BackfillStatus, ...] = ()
    #: Where the page is; None: it is off, or not up yet.
    gateway: str | None = None
    #: What is wrong, the critical things first.
    problems: tuple[Problem, ...] = ()
    #: None: the number of replicators follows nothing.
    elastic: ElasticStatus | None = None
    #: Of a GB (1,000,000,000 bytes on the wire), and in which currency; 0: no price is configured.
    price_per_gb: float = 0.0
    currency: str = ""

    def __str__(self) -> str:
        first = f"mirror-ray system {self.name!r}, coordinator pid {self.coordinator_pid} on {self.coordinator_node}"
        return "\n".join([first, *(f"  {line}" for each in self._parts() for line in str(each).splitlines())])

    def _parts(self) -> tuple[FlowStatus | BackfillStatus | ReplicatorStatus, ...]:
        return (*self.flows, *self.backfills, *self.replicators)


def offsets(first: int, end: int) -> str:
    """A range of offsets for people, or ``-`` for none."""
    return "-" if first < 0 else f"{first} to {end}"


def _because(state: str, reason: str | None) -> str:
    return f"{state}: {reason}" if reason else state


def _lag(records: int | None) -> str:
    return "lag not known yet" if records is None else f"lag {records:,}"


def _rate(records_per_s: float, bytes_per_s: float) -> str:
    return f"{records_per_s:,.0f} records/s  {bytes_per_s / 1e6:,.1f} MB/s"
