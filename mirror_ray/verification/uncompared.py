"""What of a partition lies outside of what is compared, and whose it is.

Of the target every offset is either compared, or accounted for by the flow's map, or read to see who wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from mirror_ray.model.names import TopicPartition
from mirror_ray.model.segment import Segment
from mirror_ray.observe.status import PartitionStatus
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.schema import FlowStateRecords, Pause
from mirror_ray.verification.compared_ranges import PositionPair, stretches
from mirror_ray.verification.difference import Difference
from mirror_ray.verification.record_hashes import HashedRecord, RecordHash

Span = tuple[int, int]

#: Records of ours behind the acknowledged pair that are compared with the source's next ones.
_MOST_IN_FLIGHT = 20_000
_NO_PRINT = RecordHash(b"", b"", b"", -1)


class ComparisonEnd(NamedTuple):
    """That a partition does not go on."""

    state: Literal["stopped", "paused"]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UncomparedAccount:
    """Numbers of one partition, of what is not among the records that were compared."""

    #: Source offsets behind the end of the copy.
    not_copied: int = 0
    #: Records of ours on the target behind what was acknowledged when it began.
    in_flight: int = 0
    #: Source offsets before the start of the copy, and target offsets that were there before it began.
    before_copy: int = 0
    before_copy_target: int = 0
    #: Target offsets of records that the source has removed since, and source offsets that the target has.
    removed_on_source: int = 0
    removed_on_target: int = 0
    #: Of a compacted partition: records that only one side still has.
    cleaned_on_source: int = 0
    cleaned_on_target: int = 0
    #: Records of producers that are not ours: where the flow writes alone, and where others may.
    foreign: int = 0
    not_ours: int = 0
    #: Records of producers that may be those of a flow whose state could not be read.
    unattributed: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """One sentence for each number that is not 0 and that no other note tells."""
        said = (
            (self.not_copied, "source offsets are not copied yet"),
            (self.in_flight, "records were written and not acknowledged yet when it began: they are the source's next"),
            (self.before_copy_target, "target offsets are from before copying began, and were not compared"),
            (self.removed_on_source, "target offsets were not compared: the source has removed their records"),
            (self.removed_on_target, "source offsets were not compared: the target has removed their records"),
            (self.cleaned_on_source, "records are on the target alone: the source's cleaner has removed them"),
            (self.cleaned_on_target, "records are on the source alone: the target's cleaner has removed them"),
            (self.foreign, "records on the target are by producers that are not this flow's"),
            (self.not_ours, "records on the target are by producers that no flow's state knows: not ours"),
            (self.unattributed, "records on the target are by producers that are not known: a flow's state is unread"),
        )
        return tuple(f"{number:,} {what}" for number, what in said if number)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeaders:
    """One partition of the source. ``findings``: records of its remote partition that are not the flow's."""

    source: TopicPartition
    findings: Sequence[Difference]
    account: UncomparedAccount
    halt: ComparisonEnd | None
    #: Why it is not known whose records the remote partition holds; None: it is.
    reason: str | None = None
    #: Whether ``account`` says anything.
    counted: bool = True

    @property
    def drift(self) -> tuple[str, ...]:
        """What is not as it should be."""
        found = [finding for finding in self.findings if finding.gap is None]
        number = self.source.partition
        said = []
        if found:
            many = max(len(found), self.account.foreign)
            surplus = all(each.kind in ("extra", "doubled") for each in found)
            what = "too many on the target" if surplus else "are not what the source has next"
            said.append(f"partition {number}: {many:,} records {what}; the first: {found[0]}")
        if self.halt is not None:
            said.append(f"partition {number} is {self.halt.state}: {self.halt.reason}")
        return tuple(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOwners:
    """Who may have written a partition of the target."""

    #: Producers of this very partition; empty: they are not known.
    own: frozenset[int] = frozenset()
    #: Where it is shared: producers of any flow that copies to the cluster. Else ``own``.
    flows: frozenset[int] = frozenset()
    #: Whether others' records are a fault there.
    alone: bool = True
    #: Whether the state of some flow could not be read, so that a producer that is not known may be that flow's.
    unsure: bool = False

    def knows(self, producer_id: int) -> bool:
        """Whether a producer is a flow's, or may be: where its own are not known, nothing is said against any."""
        return not self.own or self.unsure or producer_id in self.own or producer_id in self.flows


class WrittenBatch(NamedTuple):
    """A batch of the target that is not compared: by its header, and what its records are if that is wanted."""

    producer_id: int
    offset: int
    records: int
    prints: Sequence[HashedRecord] = ()


def halted(memory: FlowStateRecords, source: TopicPartition, running: PartitionStatus | None) -> ComparisonEnd | None:
    """Whether a partition does not go on: as the running system says, else as its state does."""
    if running is not None:
        return _halted_now(running)
    if memory.handed_back_ms is not None:
        return ComparisonEnd("stopped", "the flow was handed back to MirrorMaker 2")
    if source in memory.repairs:
        repair = memory.repairs[source]
        return ComparisonEnd(
            "stopped", f"{repair.trouble.kind}, to be answered by {repair.policy}: {repair.trouble.text}"
        )
    pause = min((found for found in memory.paused if found.covers(source)), key=_narrowness, default=None)
    if pause is None:
        return None
    what = "the flow" if pause.topic is None else "the topic" if pause.partition is None else "it"
    return ComparisonEnd("paused", f"an operator paused {what}")


def _halted_now(running: PartitionStatus) -> ComparisonEnd | None:
    if running.state == "paused":
        return ComparisonEnd("paused", running.reason or "an operator paused it")
    if running.state in ("stopped", "refused"):
        return ComparisonEnd("stopped", running.reason or running.state)
    return None


def _narrowness(pause: Pause) -> int:
    return (pause.topic is not None) + (pause.partition is not None)


def writers_of(
    memory: FlowStateRecords, record: PartitionRecord | None, others: Iterable[FlowStateRecords], *, alone: bool
) -> ProducerOwners:
    """Who may write the remote partition of ``record``; ``others``: the states of other flows to that cluster."""
    own: set[int] = set()
    if record is not None and record.producer_id is not None:
        own.add(record.producer_id)
    if memory.flow is not None and record is not None and record.producer_id != -1:
        own.add(memory.flow.producer_id)
    flows = set(own)
    # Where the flow writes alone, another flow's records are as foreign as anybody's.
    for state in (memory, *others) if record is not None and record.shared else ():
        flows |= {found.producer_id for found in state.partitions.values() if found.producer_id is not None}
        flows |= {state.flow.producer_id} if state.flow is not None else set()
    return ProducerOwners(own=frozenset(own), flows=frozenset(flows), alone=alone)


def mapped(segments: Iterable[Segment]) -> list[Span]:
    """Target offsets that a map accounts for: its segments, and what lies between two where all of it was copied."""
    found: list[Span] = []
    before: Segment | None = None
    for segment in segments:
        if before is not None:
            end = before.target + before.length
            if segment.target - end == segment.number - before.number - before.length:
                found.append((end, segment.target))
        found.append((segment.target, segment.target + segment.length))
        before = segment
    return stretches(found)


def without(span: Span, covered: Iterable[Span]) -> list[Span]:
    """A span of offsets less those that are covered."""
    first, end = span
    found: list[Span] = []
    for begin, behind in stretches(covered):
        if behind <= first:
            continue
        if begin >= end:
            break
        if begin > first:
            found.append((first, begin))
        first = max(first, behind)
    return [*found, (first, end)] if first < end else found


@dataclass(slots=True)
class RecordSorter:
    """Sorts batches that are not compared by whose they are.

    Attributes:
        found: One finding for each record that should not be there, up to ``most``.
        ours: Prints of our records behind ``reached``, as they lie.
    """

    writers: ProducerOwners
    reached: PositionPair
    #: Before it nothing is ours: copying began there.
    origin: int
    #: Target offsets between which everything of ours is compared, so that what is not compared is too much.
    compared: Span
    most: int
    found: list[Difference]
    ours: list[HashedRecord]
    foreign_records: int = 0
    not_ours: int = 0
    unattributed: int = 0
    in_flight: int = 0

    @classmethod
    def of(cls, writers: ProducerOwners, reached: PositionPair, origin: int, compared: Span, most: int) -> RecordSorter:
        """A new one."""
        return cls(writers, reached, origin, compared, most, [], [])

    def wants(self, producer_id: int, last_offset: int) -> bool:
        """Whether it wants to know what the records of a batch are, and not only how many."""
        if producer_id in self.writers.own:
            behind = last_offset >= self.reached.target
            return len(self.ours) < _MOST_IN_FLIGHT if behind else last_offset >= self.compared[0]
        return self.writers.alone and not self.writers.knows(producer_id) and len(self.found) < self.most

    def take(self, batch: WrittenBatch) -> None:
        """Take the next batch."""
        if batch.producer_id in self.writers.own:
            if batch.offset >= self.reached.target:
                self.in_flight += batch.records
                self.ours += batch.prints
            elif self.compared[0] <= batch.offset < self.compared[1]:
                self._found(batch, None)
        elif batch.offset < self.origin or batch.producer_id in self.writers.flows:
            return
        elif not self.writers.alone or not self.writers.own:
            self.not_ours += batch.records
        elif self.writers.unsure:
            self.unattributed += batch.records
        else:
            self.foreign_records += batch.records
            self._found(batch, batch.producer_id)

    def _found(self, batch: WrittenBatch, producer_id: int | None) -> None:
        place = self.reached.source if batch.offset >= self.reached.target else 0
        room = max(0, self.most - len(self.found))
        self.found += [
            Difference("extra", place, record.offset, producer_id=producer_id) for record in batch.prints[:room]
        ]


def swapped(
    findings: Iterable[Difference], there: Mapping[int, RecordHash], twins: Mapping[RecordHash, int]
) -> dict[Difference, Difference | None]:
    """Changed records that have each other's content, though others' lie between them: as one finding.

    Args:
        findings: What differs.
        there: The target's records, by their offsets.
        twins: The source offsets of records.

    Returns:
        Of two such findings the first as ``swapped``, and None for the second.
    """
    changed = {finding.source_offset: finding for finding in findings if finding.kind == "changed"}
    found: dict[Difference, Difference | None] = {}
    for source, finding in changed.items():
        other = changed.get(twins.get(there.get(finding.target_offset, _NO_PRINT), -1))
        if other is None or other in found or finding in found or other is finding:
            continue
        if twins.get(there.get(other.target_offset, _NO_PRINT)) == source:
            found |= {finding: replace(finding, kind="swapped", fields=()), other: None}
    return found
