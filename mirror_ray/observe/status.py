"""The status of a running system: frozen values that print as a line, are passed between processes, become JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from mirror_ray.model.assignment import PartitionState
from mirror_ray.model.fault import FaultKind
from mirror_ray.model.quota import ThrottledTime
from mirror_ray.observe.backfills import BackfillStatus
from mirror_ray.observe.figures import counter, figure, gauge
from mirror_ray.observe.groups import FlowGroups
from mirror_ray.observe.problems import Problem
from mirror_ray.observe.schemas import FlowSchemas

#: ``idle``: a flow that is not enabled and only emits heartbeats. ``degraded``: some of its partitions don't copy.
FlowState = Literal["starting", "running", "degraded", "paused", "unreachable", "idle"]
ReplicatorState = Literal["starting", "running", "unresponsive", "draining", "dead"]

_RECORDS: Final = "Records acknowledged since the coordinator began."
_BYTES: Final = "Their bytes on the wire, compressed."
_COMPRESSION: Final = "Bytes before compression for each byte on the wire, from samples."
_TRANSLATED: Final = figure(metric=counter("schema_ids_translated", "Those changed to the target's, as acknowledged."))
_UNFRAMED: Final = figure(metric=counter("schema_ids_unframed", "Keys and values without one where they have one."))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One partition of a flow, as of the replicator's last report."""

    CLI_COLUMNS: ClassVar = (
        *("flow", "topic", "partition", "state", "source_end", "position"),
        *("lag_records", "lag_bytes", "lag_seconds", "held_back_records"),
    )
    WEB_COLUMNS: ClassVar = (
        *("partition", "state", "lag_records", "lag_seconds", "position", "source_end"),
        *("target_end", "held_back_records", "replicator", "reason"),
    )
    WEB_WIDE: ClassVar = ("target_end", "held_back_records", "replicator")
    #: The keys of `lag -o json`: tools outside the project read them.
    JSON_KEYS: ClassVar = (
        *("flow", "topic", "partition", "source_end", "position"),
        *("lag_records", "lag_bytes", "lag_seconds"),
    )

    flow: str = field(metadata=figure("Flow"))
    topic: str = field(metadata=figure("Topic"))
    partition: int = field(metadata=figure("Partition", "number"))
    target_topic: str
    state: PartitionState = field(metadata=figure("State", "state"))
    reason: str | None = field(metadata=figure("Reason", web="Why"))
    replicator: str | None = field(metadata=figure("Replicator"))
    #: The source's last stable offset; -1 until known.
    source_end: int = field(metadata=figure("Source end", "offset", web="Source's end"))
    #: The next source offset that the target has not acknowledged; -1 until known.
    position: int = field(metadata=figure("Position", "offset"))
    target_end: int = field(metadata=figure("Target end", "offset", web="Target's end"))
    #: ``source_end - position``; None until known.
    lag_records: int | None = field(
        metadata=figure("Lag", "count", metric=gauge("partition_lag_records", "As of the flow."))
    )
    #: Estimate: lag_records times the mean wire bytes of a record of this partition; None until known.
    lag_bytes: int | None = field(
        metadata=figure("Bytes", "bytes", metric=gauge("partition_lag_bytes", "As of the flow."))
    )
    #: Age of the newest acknowledged record while there is lag, else 0; None until known.
    lag_seconds: float | None = field(
        metadata=figure("Behind", "seconds", metric=gauge("partition_lag_seconds", "As of the flow."))
    )
    #: Records beyond ``source_end`` that an open transaction on the source holds back.
    held_back_records: int = field(metadata=figure("Held back", "count"))
    records: int = field(metadata=figure(metric=counter("partition_records", _RECORDS)))
    bytes: int = field(metadata=figure(metric=counter("partition_bytes", _BYTES)))
    #: The kind of fault that it waits with for a decision; None: no fault.
    trouble: FaultKind | None = None
    #: Bytes before compression for each byte on the wire, from samples; None until known.
    compression: float | None = None

    def __str__(self) -> str:
        return (
            f"{self.flow}  {self.topic}-{self.partition}  {_because(self.state, self.reason)}  {_lag(self.lag_records)}"
            f"  {self.position} of {self.source_end}  {self.replicator or 'no replicator'}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """One topic of a flow."""

    CLI_COLUMNS: ClassVar = (
        *("flow", "topic", "remote_topic", "state", "copying", "lag_records", "lag_seconds"),
        *("records_per_s", "bytes_per_s", "compression", "records", "bytes", "reason"),
    )
    WEB_COLUMNS: ClassVar = (
        *("topic", "flow", "remote_topic", "state", "lag_records", "lag_seconds", "lag_bytes"),
        *("bytes_per_s", "compression", "cost_per_hour", "copying", "reason"),
    )
    WEB_WIDE: ClassVar = (
        *("remote_topic", "lag_bytes", "bytes_per_s", "compression"),
        *("cost_per_hour", "copying", "reason"),
    )

    flow: str = field(metadata=figure("Flow"))
    topic: str = field(metadata=figure("Topic"))
    remote_topic: str = field(metadata=figure("Remote topic", web="On the target"))
    partitions: int
    copying: int = field(metadata=figure("Copying", "pair", second="partitions", web="Partitions"))
    state: PartitionState = field(metadata=figure("State", "state"))
    reason: str | None = field(metadata=figure("Reason", web="Why"))
    lag_records: int | None = field(
        metadata=figure("Lag", "count", metric=gauge("topic_lag_records", "As of the flow."))
    )
    records: int = field(metadata=figure("Records", "count", metric=counter("topic_records", _RECORDS)))
    bytes: int = field(metadata=figure("Bytes", "bytes", metric=counter("topic_bytes", _BYTES)))
    #: Sum of its partitions' lags; None until all that copy are known.
    lag_bytes: int | None = field(
        default=None, metadata=figure("Lag bytes", "bytes", metric=gauge("topic_lag_bytes", "As of the flow."))
    )
    #: The greatest of its partitions' ages; None until all that copy are known.
    lag_seconds: float | None = field(
        default=None, metadata=figure("Behind", "seconds", metric=gauge("topic_lag_seconds", "As of the flow."))
    )
    records_per_s: float = field(default=0.0, metadata=figure("Records/s", "count"))
    bytes_per_s: float = field(default=0.0, metadata=figure("Bytes/s", "bytes"))
    #: Bytes before compression for each byte on the wire, from samples; None until known.
    compression: float | None = field(
        default=None, metadata=figure("Compressed", "ratio", metric=gauge("topic_compression_ratio", _COMPRESSION))
    )
    #: What an hour costs at this rate; None without ``cost.price_per_gb``.
    cost_per_hour: float | None = field(default=None, metadata=figure("Cost/h", "money"))
    #: Since the coordinator began; None: schema ids in this topic are not translated.
    schema_ids_translated: int | None = field(default=None, metadata=_TRANSLATED)
    schema_ids_unframed: int | None = field(default=None, metadata=_UNFRAMED)

    def __str__(self) -> str:
        return (
            f"{self.flow}  {self.topic} to {self.remote_topic}  {_because(self.state, self.reason)}"
            f"  {self.copying}/{self.partitions} partitions copying  {_lag(self.lag_records)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStatus:
    """One flow."""

    #: The columns of `up` and `demo`, which are redrawn.
    LIVE_COLUMNS: ClassVar = (
        *("flow", "state", "topics", "copying", "lag_records", "lag_seconds"),
        *("records_per_s", "bytes_per_s", "heartbeat_age_s"),
    )
    CLI_COLUMNS: ClassVar = (*LIVE_COLUMNS, "compression")
    WEB_COLUMNS: ClassVar = (
        *("flow", "state", "lag_records", "lag_seconds", "lag_bytes", "records_per_s", "bytes_per_s"),
        *("compression", "cost_per_hour", "copying", "heartbeat_age_s"),
    )
    WEB_WIDE: ClassVar = ("lag_bytes", "bytes_per_s", "compression", "cost_per_hour", "copying", "heartbeat_age_s")

    flow: str = field(metadata=figure("Flow"))
    state: FlowState = field(metadata=figure("State", "state"))
    topics: int = field(metadata=figure("Topics", "count", metric=gauge("flow_topics", "Topics of the flow.")))
    partitions: int = field(metadata=figure(metric=gauge("flow_partitions", "Partitions of the flow.")))
    copying: int = field(
        metadata=figure(
            "Copying",
            "pair",
            second="partitions",
            web="Partitions",
            metric=gauge("flow_partitions_copying", "Partitions that copy now."),
        )
    )
    lag_records: int | None = field(
        metadata=figure(
            "Lag",
            "count",
            metric=gauge("flow_lag_records", "The source's last stable offsets less what the target has acknowledged."),
        )
    )
    lag_seconds: float | None = field(
        metadata=figure(
            "Behind",
            "seconds",
            metric=gauge("flow_lag_seconds", "Age of the newest copied record, where it is oldest; 0 without lag."),
        )
    )
    records_per_s: float = field(metadata=figure("Records/s", "count"))
    bytes_per_s: float = field(metadata=figure("Bytes/s", "bytes"))
    records: int
    bytes: int
    #: Age of the last heartbeat that the target acknowledged; None before the first or where they are off.
    heartbeat_age_s: float | None = field(
        metadata=figure(
            "Heartbeat", "seconds", metric=gauge("heartbeat_age_seconds", "Since the target acknowledged a heartbeat.")
        )
    )
    #: Whether topics were listed at least once since the coordinator began.
    discovered: bool
    #: One sentence each: what does not run and what to do.
    problems: tuple[str, ...] = ()
    #: How its consumer groups are synced; None: they are not, or it is not known yet.
    groups: FlowGroups | None = None
    #: How its schemas are mirrored; None: they are not, or it is not known yet.
    schemas: FlowSchemas | None = None
    #: Estimate; None until known.
    lag_bytes: int | None = field(
        default=None,
        metadata=figure(
            "Lag bytes",
            "bytes",
            metric=gauge("flow_lag_bytes", "The same in bytes, by the mean size of the records copied so far."),
        ),
    )
    #: What throttles it: its windows, its limits, a quota of the brokers; None: nothing does.
    why: str | None = None
    limit_bytes_per_s: int | None = field(
        default=None,
        metadata=figure(
            metric=gauge(
                "flow_limit_bytes_per_second", "limits.bytes_per_second of the configuration, as it holds now."
            )
        ),
    )
    held: ThrottledTime = field(default_factory=ThrottledTime)
    #: Of its topics together, and as theirs.
    compression: float | None = field(
        default=None, metadata=figure("Compressed", "ratio", metric=gauge("flow_compression_ratio", _COMPRESSION))
    )
    cost_per_hour: float | None = field(default=None, metadata=figure("Cost/h", "money"))

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

    CLI_COLUMNS: ClassVar = (
        *("id", "state", "node", "pid", "partitions"),
        *("records_per_s", "bytes_per_s", "cpu", "memory"),
    )
    WEB_COLUMNS: ClassVar = (*CLI_COLUMNS, "buffered_bytes")
    WEB_WIDE: ClassVar = ("node", "pid", "bytes_per_s", "buffered_bytes")
    #: The keys of `replicators -o json`: tools outside the project read them.
    JSON_KEYS: ClassVar = ("id", "node", "pid", "partitions", "records_per_s", "bytes_per_s", "cpu", "memory")

    id: str = field(metadata=figure("Replicator"))
    state: ReplicatorState = field(metadata=figure("State", "state"))
    node: str = field(metadata=figure("Node"))
    pid: int = field(metadata=figure("Pid", "number"))
    partitions: int = field(
        metadata=figure("Partitions", "count", metric=gauge("replicator_partitions", "Partitions that it has."))
    )
    records_per_s: float = field(metadata=figure("Records/s", "count"))
    bytes_per_s: float = field(metadata=figure("Bytes/s", "bytes"))
    #: Share of one core, since the last report.
    cpu: float = field(metadata=figure("CPU", "share", web="Core"))
    #: Resident memory in bytes.
    memory: int = field(metadata=figure("Memory", "bytes", metric=gauge("replicator_memory_bytes", "Resident memory.")))
    #: Since its process began.
    cpu_seconds: float = field(
        default=0.0, metadata=figure(metric=counter("replicator_cpu_seconds", "Processor time of its process."))
    )
    records: int = field(
        default=0,
        metadata=figure(metric=counter("replicator_records", "Records acknowledged since its process began.")),
    )
    bytes: int = field(default=0, metadata=figure(metric=counter("replicator_bytes", _BYTES)))
    #: Fetched and not acknowledged yet.
    buffered_bytes: int = field(
        default=0,
        metadata=figure(
            "Buffered", "bytes", metric=gauge("replicator_buffered_bytes", "Fetched and not acknowledged yet.")
        ),
    )
    #: Whether it has the record kernel, without which small batches are not merged.
    has_kernel: bool = True

    def __str__(self) -> str:
        return (
            f"{self.id}  {self.state}  pid {self.pid} on {self.node}  {self.partitions} partitions"
            f"  {_rate(self.records_per_s, self.bytes_per_s)}  cpu {self.cpu:.0%}  {self.memory / 1e6:,.0f} MB"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticStatus:
    """How the number of replicators follows load and lag."""

    min_replicators: int
    max_replicators: int
    #: The number that load asks for; more than ``desired_replicators`` if nodes have no room for them.
    wanted: int
    #: An operator has set the number, so that it does not change by itself.
    pinned: bool
    #: The result of the last check of the load, in one sentence; empty before the first.
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
    #: Backfills that have not ended.
    backfills: tuple[BackfillStatus, ...] = ()
    #: The URL of the web UI; None: it is off, or not up yet.
    gateway: str | None = None
    #: The critical ones first.
    problems: tuple[Problem, ...] = ()
    #: None: the number of replicators does not change by itself.
    elastic: ElasticStatus | None = None
    #: The price of a GB (1,000,000,000 bytes on the wire); 0: none is configured.
    price_per_gb: float = 0.0
    currency: str = ""

    def __str__(self) -> str:
        first = f"mirror-ray system {self.name!r}, coordinator pid {self.coordinator_pid} on {self.coordinator_node}"
        return "\n".join([first, *(f"  {line}" for part in self._parts() for line in str(part).splitlines())])

    def _parts(self) -> tuple[FlowStatus | BackfillStatus | ReplicatorStatus, ...]:
        return (*self.flows, *self.backfills, *self.replicators)


def _because(state: str, reason: str | None) -> str:
    return f"{state}: {reason}" if reason else state


def _lag(records: int | None) -> str:
    return "lag not known yet" if records is None else f"lag {records:,}"


def _rate(records_per_s: float, bytes_per_s: float) -> str:
    return f"{records_per_s:,.0f} records/s  {bytes_per_s / 1e6:,.1f} MB/s"
