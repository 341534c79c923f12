"""What is compared of one partition, and the result of the first pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mirror_ray.model.names import NO_TOPIC_ID, TopicId, TopicPartition
from mirror_ray.state.records import SkippedRange
from mirror_ray.transforms.met_schemas import NOTHING_MET, MetSchemas, SchemasWanted
from mirror_ray.verification.producers import ProducerOwners
from mirror_ray.verification.ranges import ComparedRange, PositionPair, Span
from mirror_ray.verification.report import CheckedRecords, Halt, PartitionVerdict, UncomparedAccount

_NONE = PositionPair(-1, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareJob:
    """One partition and its copy."""

    source: TopicPartition
    target: TopicPartition
    source_topic_id: TopicId = NO_TOPIC_ID
    target_topic_id: TopicId = NO_TOPIC_ID
    #: Whether only the last record of each key is compared.
    compacted: bool = False
    #: Whether the source's records go through the transforms before they are compared.
    transformed: bool = False
    #: Whether timestamps are compared: a target with LogAppendTime sets its own.
    timestamps: bool = True
    begin: PositionPair = _NONE
    end: PositionPair = _NONE
    #: How far the copy had come; ``end`` is less if a log lost its end.
    reached: PositionPair = _NONE
    #: All ranges; on the target, records of others may lie between them.
    ranges: tuple[ComparedRange, ...] = ()
    #: Indexes of the ranges that are compared.
    chosen: tuple[int, ...] = ()
    #: The fraction of the keys that is compared, of a compacted partition.
    key_fraction: float = 1.0
    #: The part of these keys that is compared: its number, and of how many.
    key_part: tuple[int, int] = (0, 1)
    skipped_ranges: tuple[SkippedRange, ...] = ()
    notes: tuple[str, ...] = ()
    #: What is not on the target because of a skipped range, and is not compared.
    left_out: str | None = None
    #: Why the copies can't be derived from the source's records again.
    irreproducible: str | None = None
    #: Why it can't be compared.
    reason: str | None = None
    #: Target offsets that are neither compared nor in the offset map: they are read to see who wrote them.
    uncompared: tuple[Span, ...] = ()
    owners: ProducerOwners = field(default_factory=ProducerOwners)
    #: The pair up to which everything was acknowledged when this began.
    acknowledged: PositionPair = _NONE
    #: The target offset at which copying began.
    copy_start: int = 0
    #: Where the source ended for the flow.
    source_end: int = -1
    account: UncomparedAccount = field(default_factory=UncomparedAccount)
    halt: Halt | None = None
    #: Which schemas are looked for in the source's records; None: none are.
    schemas: SchemasWanted | None = None

    @property
    def chosen_ranges(self) -> list[ComparedRange]:
        """The ranges that are compared, in order."""
        return [self.ranges[number] for number in self.chosen]

    @property
    def unchecked(self) -> CheckedRecords:
        """The result if nothing was compared."""
        return CheckedRecords(ranges=len(self.ranges), notes=self.notes, reason=self.reason)

    def verdict(
        self, checked: CheckedRecords | None = None, account: UncomparedAccount | None = None
    ) -> PartitionVerdict:
        """Make the verdict from what was found; ``account`` replaces the job's own figures."""
        return PartitionVerdict(
            topic=self.source.topic,
            partition=self.source.partition,
            target_topic=self.target.topic,
            compacted=self.compacted,
            source_from=self.begin.source,
            source_to=self.end.source,
            target_from=self.begin.target,
            target_to=self.end.target,
            left_out=self.left_out,
            checked=checked or self.unchecked,
            account=account or self.account,
            halt=self.halt,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstPassResult:
    """The result of the first pass: how much was read, and where it is not equal."""

    #: Records of the ranges that are equal; of a compacted partition, all records that were read.
    records: int = 0
    target_records: int = 0
    #: Indexes of the ranges that differ, ascending.
    ranges: tuple[int, ...] = ()
    #: The number of keys that were compared, of a compacted partition.
    keys: int = 0
    #: Whether both sides of a compacted partition are the same, record by record.
    same: bool = False
    differing_keys: frozenset[bytes] = field(default_factory=frozenset)
    #: The schemas of the source's records, where the logs' owner does not collect them.
    met: MetSchemas = NOTHING_MET


class FirstPass(Protocol):
    """Reads everything, and finds where it is not equal."""

    async def run(self, jobs: Sequence[CompareJob]) -> Sequence[FirstPassResult]:
        """Compare all jobs; one result each, in order. Raises ClusterUnreachableError if a cluster does not answer."""
