"""What is to be compared of one partition, and what a first look at it found. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mirror_ray.model.names import NO_TOPIC_ID, TopicId, TopicPartition
from mirror_ray.state.records import SkippedRange
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
    #: Whether the last record of each key counts, and not every record.
    compacted: bool = False
    #: Whether the source's records are compared as transforms make them.
    transformed: bool = False
    #: Whether timestamps are compared: a target with LogAppendTime sets its own.
    timestamps: bool = True
    begin: PositionPair = _NONE
    end: PositionPair = _NONE
    #: How far the copy had come; ``end`` is less where a log lost its end.
    reached: PositionPair = _NONE
    #: All ranges; others' records may lie between those of the target.
    ranges: tuple[ComparedRange, ...] = ()
    #: Numbers of the ranges that are looked at.
    chosen: tuple[int, ...] = ()
    #: Of a compacted partition: of so many of the keys.
    key_fraction: float = 1.0
    skipped_ranges: tuple[SkippedRange, ...] = ()
    notes: tuple[str, ...] = ()
    #: What is not on the target by a recorded gap, and is not compared.
    left_out: str | None = None
    #: Why the source's records do not tell what their copies are.
    irreproducible: str | None = None
    #: Why it can't be compared.
    reason: str | None = None
    #: Target offsets that are not compared, and that the map does not account for: read to see who wrote them.
    uncompared: tuple[Span, ...] = ()
    owners: ProducerOwners = field(default_factory=ProducerOwners)
    #: The pair up to which it was acknowledged that all was copied when this began.
    acknowledged: PositionPair = _NONE
    #: Target offset before which nothing is the flow's: copying began there.
    copy_start: int = 0
    #: Where the source ends for the flow.
    source_end: int = -1
    account: UncomparedAccount = field(default_factory=UncomparedAccount)
    halt: Halt | None = None

    @property
    def chosen_ranges(self) -> list[ComparedRange]:
        """The ranges that are looked at, in order."""
        return [self.ranges[number] for number in self.chosen]

    @property
    def unchecked(self) -> CheckedRecords:
        """What is said of it where nothing was looked at."""
        return CheckedRecords(ranges=len(self.ranges), notes=self.notes, reason=self.reason)

    def verdict(
        self, checked: CheckedRecords | None = None, account: UncomparedAccount | None = None
    ) -> PartitionVerdict:
        """What is said of it, with what was found; ``account``: the numbers, where more is known of them now."""
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
    """A first look at a job: how much there is, and where it is not equal."""

    #: Of the ranges that are equal, and of a compacted partition, of all that was looked through.
    records: int = 0
    target_records: int = 0
    #: Numbers of the ranges that differ, ascending.
    ranges: tuple[int, ...] = ()
    #: Of a compacted partition: how many keys were compared, and which differ.
    keys: int = 0
    #: Whether both sides of it are the same, record by record.
    same: bool = False
    differing_keys: frozenset[bytes] = field(default_factory=frozenset)


class FirstPass(Protocol):
    """Takes the first look: reads everything, and finds where it is not equal."""

    async def look(self, jobs: Sequence[CompareJob]) -> Sequence[FirstPassResult]:
        """One look for each job.

        Raises:
            ClusterUnreachableError: A cluster does not answer.
        """
        ...
