"""Where a flow was left, topic by topic: what both clusters have, and what only the source has.

The *cut* of a partition is the offset pair behind the last record that both sides have. Behind it the target may have
records of producers that have moved there. What the source has behind it never reached the target: it has *diverged*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

from mirror_ray.model.names import NO_TOPIC_ID, TopicId, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.patterns import Pattern
from mirror_ray.model.rules import ReplicationRules
from mirror_ray.records.decode import DecodedRecord
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.topics.discovery_rules import TopicSide, first_record

#: What becomes of a topic that has diverged. ``append``: its records stay, and what the target has got since goes
#: behind them. ``recreate``: it is deleted, and copied anew from the target.
DivergedPolicy = Literal["append", "recreate"]
DIVERGED_POLICIES: tuple[DivergedPolicy, ...] = get_args(DivergedPolicy)
#: ``in_place``: nothing has diverged. ``undecided``: somebody has to choose.
ReversalPlan = Literal["in_place", "append", "recreate", "undecided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergedRecords:
    """The committed records that only the source has of a partition."""

    count: int = 0
    first: DecodedRecord | None = None
    last: DecodedRecord | None = None
    #: Smallest and largest timestamp, ms since the epoch; -1 without records.
    oldest_ms: int = -1
    newest_ms: int = -1

    def followed_by(self, records: Sequence[DecodedRecord]) -> DivergedRecords:
        """These and the next ones."""
        if not records:
            return self
        times = [record.timestamp for record in records]
        return DivergedRecords(
            count=self.count + len(records),
            first=self.first or records[0],
            last=records[-1],
            oldest_ms=min(times) if self.first is None else min(self.oldest_ms, *times),
            newest_ms=max(self.newest_ms, *times),
        )


class LogSpan(NamedTuple):
    """A part of a partition's log, the end not included."""

    partition: TopicPartition
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCut:
    """The cut of a partition that both sides have."""

    source: TopicPartition
    record: PartitionRecord
    #: None: it can't be told where the copy ends; ``why`` says why.
    pair: OffsetPair | None
    #: Where the source's log ends.
    source_end: int
    diverged: DivergedRecords = field(default_factory=DivergedRecords)
    why: str = ""

    @property
    def lost(self) -> int:
        """Offsets that the target has a copy of and that the source has lost since."""
        return 0 if self.pair is None else max(0, self.pair.source_offset - self.source_end)

    @property
    def in_place(self) -> bool:
        """Whether the flow back can go on here without a decision."""
        if self.pair is None or self.lost or self.diverged.count:
            return False
        # Offsets are preserved as long as both logs end at the same one.
        return not self.record.preserve_offsets or self.pair.target_offset == self.source_end

    @property
    def why_no_append(self) -> str | None:
        """Why records of the target can't be appended behind those that the source has; None: they can."""
        if self.pair is None:
            return self.why
        return f"the source has lost {self.lost} offsets that were copied" if self.lost else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCut:
    """The cut of a topic."""

    topic: str
    remote: str
    #: As the topics are now; without partitions: the source has no such topic any more.
    source_side: TopicSide
    remote_side: TopicSide
    partitions: tuple[PartitionCut, ...]
    #: Why nothing on the source belongs to what was copied; empty: it does.
    replaced: str = ""
    #: The source's topic holds nothing, and has never done so.
    empty: bool = False
    #: Partitions of the source that the target lacks, with records.
    only_on_source: tuple[TopicPartition, ...] = ()
    #: Where the source has records that the target may never have got.
    spans: tuple[LogSpan, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether the source has no such topic, or another one by now, that is empty: it has nothing to lose."""
        return not self.source_side.partitions or bool(self.replaced and self.empty)

    @property
    def diverged(self) -> bool:
        """Whether somebody has to choose."""
        if self.is_new:
            return False
        return bool(self.replaced) or not all(cut.in_place for cut in self.partitions)

    @property
    def counted(self) -> bool:
        """Whether it is known of each partition how many records have diverged."""
        return not self.replaced and all(cut.pair is not None for cut in self.partitions)

    @property
    def why_no_append(self) -> str | None:
        """Why the topic on the source can't be kept; None: it can."""
        return self.replaced or next(filter(None, (cut.why_no_append for cut in self.partitions)), None)

    @property
    def why_no_recreate(self) -> str | None:
        """Why the topic on the source can't be made anew; None: it can."""
        if not self.only_on_source:
            return None
        return f"{', '.join(map(str, self.only_on_source))} has no copy at all"

    def why_not(self, policy: DivergedPolicy) -> str | None:
        """Why a choice is impossible; None: it is possible."""
        return self.why_no_append if policy == "append" else self.why_no_recreate

    def plan(self, policy: DivergedPolicy | None) -> ReversalPlan:
        """What becomes of the topic; ``policy``: as was chosen, if anything was."""
        if self.is_new:
            return "recreate"
        if not self.diverged:
            return "in_place"
        if policy is None or self.why_not(policy) is not None:
            return "undecided"
        return policy

    def records_back(self) -> dict[int, PartitionRecord]:
        """The first records of the flow back, by partition: it goes on at the cut, behind all that the source has."""
        found: dict[int, PartitionRecord] = {}
        for cut in self.partitions:
            if cut.pair is None:
                raise AssertionError(cut)
            end = cut.source_end
            pair = OffsetPair(cut.pair.target_offset, end, cut.pair.next_sequence)
            record = first_record(self.remote_side, self.source_side, pair)
            found[cut.source.partition] = replace(
                record,
                settled=True,
                # What is there was written by others, and is none of the flow's.
                foreign_to=end,
                preserve_offsets=cut.record.preserve_offsets and pair.source_offset == pair.target_offset,
            )
        return found


@dataclass(frozen=True, slots=True)
class DivergedPolicies:
    """What was chosen, by patterns of topics; the first one that fits counts."""

    chosen: tuple[tuple[Pattern, DivergedPolicy], ...] = ()

    def of(self, topic: str) -> DivergedPolicy | None:
        """What was chosen for a topic; None: nothing."""
        return next((policy for pattern, policy in self.chosen if pattern.fits(topic)), None)


def reversed_names(rules: ReplicationRules, records: Mapping[TopicPartition, PartitionRecord]) -> dict[str, str]:
    """The topics of a flow whose remote topics producers on the target write to, by the remote topics' names.

    Those keep their names, or a map or a pattern names them: only a name that the policy gives tells a copy from an
    original, beside which producers on the target have a topic of their own. None where several topics are merged into
    one: whose records are whose can't be told, and the flow is not reversed.
    """
    names = {partition.topic: record.target_topic for partition, record in records.items()}
    if len(set(names.values())) < len(names) or any(record.shared for record in records.values()):
        return {}
    return {
        remote: topic for topic, remote in sorted(names.items()) if topic == remote or rules.named_by(topic) != "policy"
    }


def side_of(topic: str, topic_id: TopicId = NO_TOPIC_ID, partitions: int = 0) -> TopicSide:
    """A topic of a cluster; one that is missing has no partitions."""
    return TopicSide(topic=topic, topic_id=topic_id, partitions=partitions)
