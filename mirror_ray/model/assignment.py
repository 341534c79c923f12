"""What the coordinator assigns to a replicator, and what a replicator reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mirror_ray.model.fault import PartitionFault
from mirror_ray.model.latency import LatencyHistogram
from mirror_ray.model.names import FlowName, FlowPartition, TopicId, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.quota import ThrottledTime
from mirror_ray.model.schema_id_counts import SchemaIdCounts
from mirror_ray.model.schema_need import SchemaNeed

#: Beyond every offset.
NO_END = 2**63 - 1

#: ``establishing``: reading the target's log end. ``copying``: live. ``stopped``: an error, retried later.
#: ``refused``: the coordinator does not hand it out, ``paused``: by an operator, ``waiting``: not assigned yet.
PartitionState = Literal["waiting", "establishing", "copying", "paused", "stopped", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The assignment of one partition, complete for a replicator that knows nothing else of it."""

    partition: FlowPartition
    source_topic_id: TopicId
    target: TopicPartition
    target_topic_id: TopicId
    #: The idempotent producer on the target, agreed and persisted before any first write: the flow's, or where the
    #: remote topic is shared the partition's own. -1: the flow copies at least once.
    producer_id: int
    producer_epoch: int
    anchor: OffsetPair
    #: Grows each time the partition is handed out; reports carry it back.
    epoch: int
    #: Which coordinator raised the epoch to that, as the grant in the state topic says.
    owner: str = ""
    #: Whether nothing of ours lies behind ``anchor``, for sure.
    settled: bool = False
    #: Where in the flow's state topic to begin to look for higher epochs: nothing before it is newer than this
    #: assignment. -1: at its start.
    state_offset: int = -1
    #: ``max.message.bytes`` of the target topic: a larger batch is split.
    max_message_bytes: int
    #: Others write to the remote topic too: what is ours there is known by the producer id alone.
    shared: bool = False
    #: Records of others below this target offset have been accepted: ours are looked for among them.
    foreign_to: int = -1
    #: Source offsets, the end not included, whose records are left out: the target will never take them.
    skip: tuple[tuple[int, int], ...] = ()
    #: Source offset at which the copy ends: what lies there and behind it is not fetched, and left out by ``skip``.
    end_offset: int = NO_END
    #: ``compression.type`` to apply to batches that are not compressed on the source; None leaves them as they are.
    compress_with: Literal["gzip", "snappy", "lz4", "zstd"] | None = None
    #: Which transforms records go through, by ``Chain.identity``; empty: none.
    transforms: str = ""
    #: From which source offset on they made all that was copied.
    transforms_since: int = 0
    #: Whether each record has the same offset on the target as on the source.
    preserve_offsets: bool = False
    #: Of the replicator, where offsets are preserved: its transactions fill gaps on the target.
    transactional_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """How far one partition is. Offsets are positions: the next offset to be read or written."""

    partition: FlowPartition
    epoch: int
    state: PartitionState
    reason: str | None
    #: The acknowledged pair, fit to be persisted and copied on from.
    anchor: OffsetPair
    #: Source's last stable offset (read_committed) or high watermark, as of the last fetch; -1 before the first.
    source_end: int
    #: Source's high watermark: what lies between it and ``source_end`` is held back by open transactions.
    high_watermark: int
    records: int
    bytes: int
    #: Largest timestamp among the acknowledged records, ms since the epoch; -1 when none was copied yet.
    last_timestamp_ms: int
    #: Mean wire bytes of a record, from what this replicator copied; 0 when unknown.
    bytes_per_record: float = 0.0
    #: Bytes before compression for each byte on the wire, from samples of what this replicator copied; None: unknown.
    compression: float | None = None
    #: What was done with schema ids in these records; None: they are not translated.
    schema_ids: SchemaIdCounts | None = None
    #: Why it is stopped, where another attempt alone will not help.
    trouble: PartitionFault | None = None
    #: Of a partition that was released: whether all that was sent for it was answered, so that nothing lies behind
    #: ``anchor``.
    settled: bool = False

    @property
    def position(self) -> int:
        """Next source offset whose record the target has not acknowledged yet."""
        return self.anchor.source_offset

    @property
    def target_end(self) -> int:
        """The target's log end that belongs to ``position``."""
        return self.anchor.target_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatorReport:
    """State of one replicator process, with the partitions that changed since the last report (or all)."""

    replicator: str
    node: str
    pid: int
    cpu_seconds: float
    memory_bytes: int
    buffered_bytes: int
    #: Cumulative since the process began.
    records: int
    bytes: int
    partitions: tuple[PartitionReport, ...]
    #: How many partitions it holds, whether or not they are in ``partitions``.
    assigned: int
    #: Partitions, with their epochs, that it dropped by itself since the last report: somebody else has them.
    given_up: tuple[tuple[FlowPartition, int], ...] = ()
    #: Sentences for the event log, oldest first, each with its time in ms since the epoch and its level.
    events: tuple[tuple[int, str, str], ...] = ()
    #: How many there were since the process began, these included.
    events_end: int = 0
    #: By flow, cumulative since the process began.
    latencies: tuple[tuple[FlowName, LatencyHistogram], ...] = ()
    held: tuple[tuple[FlowName, ThrottledTime], ...] = ()
    #: What partitions wait for at this moment, where flows translate schema ids; each once.
    schema_needs: tuple[SchemaNeed, ...] = ()
    #: Whether the process has the record kernel, without which small batches are not merged.
    has_kernel: bool = True
