"""What the two sides of a replicated partition share: its data, its state, and how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mirror_ray.model.assignment import Assignment
from mirror_ray.model.fault import PartitionFault
from mirror_ray.model.latency import LatencyCounter
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.replication.faults import StopCause
from mirror_ray.replication.partition_states import CopyState, Instruction, Recovery, StateEvent, transition
from mirror_ray.replication.partition_transforms import PartitionTransforms
from mirror_ray.replication.pipeline import BufferBudget, CopyProgress, Pipeline
from mirror_ray.replication.position import ReplicationPosition
from mirror_ray.replication.segment_log import SegmentLog
from mirror_ray.replication.statistics import StatisticsTally

#: Events that count as a restart in the statistics.
_RESTARTS = frozenset({StateEvent.BATCH_REFUSED, StateEvent.CONNECTION_LOST, StateEvent.INTERRUPTED, StateEvent.FAILED})


@dataclass(slots=True, eq=False, repr=False)
class PartitionData:
    """``budget`` is shared by the flow's partitions; ``buffer_limit_bytes`` is this partition's own."""

    assignment: Assignment
    budget: BufferBudget
    buffer_limit_bytes: int
    read_committed: bool = True
    state: CopyState = CopyState.ESTABLISHING
    #: What the partition waits for, as ``status`` shows it.
    reason: str | None = None
    stop_cause: StopCause | None = None
    #: Why the partition is BLOCKED.
    blocked_by: Exception | None = None
    position: ReplicationPosition = field(init=False)
    #: Next source offset to ask the broker for, and the leader epoch of what was read before it.
    fetch_offset: int = field(init=False)
    fetch_epoch: int = field(init=False)
    #: Next source offset to select and rewrite.
    process_offset: int = field(init=False)
    pipeline: Pipeline = field(init=False)
    #: Whether the last answer had gaps before some of its records, where offsets are preserved.
    has_gaps: bool = False
    source_end: int = -1
    high_watermark: int = -1
    progress: CopyProgress = field(default_factory=CopyProgress)
    #: Which source offset is which target offset, as acknowledged since the assignment.
    segments: SegmentLog = field(init=False)
    #: None: no statistics are wanted.
    tally: StatisticsTally | None = None
    #: Counts how long records took, together with the flow's other partitions.
    latencies: LatencyCounter | None = None
    #: None: batches are passed on as they are.
    transforms: PartitionTransforms | None = None
    #: Whether small batches are merged; it needs the record kernel.
    merge: bool = False
    source: TopicPartition = field(init=False)
    #: Below this source offset nothing is merged: a merged batch was refused.
    _unmerged_to: int = -1
    #: Below this source offset each record is a batch of its own: one of them was refused.
    _singly_to: int = -1
    #: Whether something went wrong since the target's log end was read.
    _restarts: bool = False
    _instructions: list[Instruction] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.source = self.assignment.partition.source
        self.pipeline = Pipeline(self.budget)
        self.segments = SegmentLog(self.assignment)
        self.position = ReplicationPosition(self.assignment, self.assignment.anchor)
        self._fetch_from(self.acknowledged)

    def __repr__(self) -> str:
        return f"<{self.assignment.partition} {self.state.name} at {self.acknowledged}>"

    def _on(self, event: StateEvent) -> None:
        """Apply the table."""
        row = transition(self.state, event)
        self.state = row.finish
        self._restarts |= event in _RESTARTS
        for instruction in row.instructions:
            if instruction is Instruction.DROP:
                self.pipeline.remember()
                self.pipeline.drop()
            elif instruction not in self._instructions:
                self._instructions.append(instruction)

    def take_instructions(self) -> Sequence[Instruction]:
        """Return what is to be done since the last call."""
        if not self._instructions:
            return ()
        taken, self._instructions = self._instructions, []
        return taken

    @property
    def acknowledged(self) -> OffsetPair:
        """The pair of source position and target end that the target has committed."""
        return self.position.acknowledged

    @property
    def fault(self) -> PartitionFault | None:
        """The fault that a decision is needed about, if any."""
        return None if self.stop_cause is None else self.stop_cause.fault

    @property
    def settled(self) -> bool:
        """Whether all that was taken from the source is acknowledged."""
        return self.pipeline.settled

    @property
    def drained(self) -> bool:
        """Whether nothing is on its way any more."""
        return self.settled or (not self.state.sends and not self.pipeline.in_flight)

    @property
    def complete(self) -> bool:
        """Whether nothing of ours lies behind ``acknowledged`` on the target, for sure."""
        return self.settled and self.position.known and self.state.sends

    def interrupt(self, reason: str | None) -> None:
        """Read the target's log end again, for something failed that is expected to pass; ``reason`` is shown."""
        self._on(StateEvent.INTERRUPTED)
        self.reason = reason

    def stop(self, error: Exception) -> None:
        """Stop, and be shown as stopped until the partition is seen to go on."""
        self._on(StateEvent.FAILED)
        self.stop_cause = StopCause.of(error, self.assignment.partition)
        self.reason = self.stop_cause.text

    def drain(self) -> None:
        """Fetch nothing more; what is buffered is still sent."""
        self._on(StateEvent.DRAIN)

    def _position_found(self) -> None:
        self._begin()
        self._recovered(Recovery.POSITION_FOUND)

    def _begin(self) -> None:
        """Count from what is acknowledged now."""
        self.segments.begin(self.acknowledged)
        if self.tally is not None:
            self.tally.begin(self.acknowledged, restarted=self._restarts)
        self._restarts = False

    def _fetch_from(self, pair: OffsetPair) -> None:
        self.fetch_offset = self.process_offset = pair.source_offset
        self.fetch_epoch = pair.source_epoch

    def _recovered(self, sign: Recovery) -> None:
        cause = self.stop_cause
        if cause is not None and sign in cause.over_by:
            self.stop_cause = None
        if self.reason is not None and self.fault is None and self.state.sends:
            self.reason = None
