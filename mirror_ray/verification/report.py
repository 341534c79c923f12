"""What verification says of a partition, a topic and a flow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from mirror_ray.model.names import TopicPartition
from mirror_ray.verification.difference import Difference
from mirror_ray.verification.topic_schemas import TopicSchemas

#: ``explained``: skipped ranges explain everything that differs. ``stopped``, ``paused``: nothing else differs, and the
#: partition is not copied at the moment.
Outcome = Literal["equal", "explained", "differs", "not_checked", "stopped", "paused"]
_WORST: tuple[Outcome, ...] = ("differs", "not_checked", "stopped", "paused", "explained", "equal")

#: Differences of a partition that are listed one by one.
_LISTED = 20


class Halt(NamedTuple):
    """A partition that is not copied at the moment, and why."""

    state: Literal["stopped", "paused"]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UncomparedAccount:
    """Figures of one partition on what is not among the compared records."""

    #: Source offsets behind the end of the copy.
    not_copied: int = 0
    #: Our records on the target behind what was acknowledged when the command began.
    in_flight: int = 0
    #: Source offsets before the start of the copy, and target offsets from before copying began.
    before_copy: int = 0
    before_copy_target: int = 0
    #: Target offsets of records that the source has removed since, and source offsets that the target has removed.
    removed_on_source: int = 0
    removed_on_target: int = 0
    #: Records that only the target, or only the source, still has, of a compacted partition.
    cleaned_on_source: int = 0
    cleaned_on_target: int = 0
    #: Records of producers that are not ours: where the flow writes alone, and where others may write.
    foreign: int = 0
    not_ours: int = 0
    #: Records of producers that may belong to a flow whose state could not be read.
    unattributed: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """One sentence for each figure that is not 0 and that no other note covers."""
        sentences = (
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
        return tuple(f"{number:,} {what}" for number, what in sentences if number)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRecords:
    """What was compared of a partition, and what was found."""

    ranges: int = 0
    ranges_checked: int = 0
    #: Records that were read from each side; of a compacted partition, all that were read.
    records: int = 0
    target_records: int = 0
    #: Keys whose last records were compared, of a compacted partition.
    keys: int = 0
    #: Keys that were not decided, because a newer record lies behind the end of what was compared.
    superseded: int = 0
    #: Records that are on one side alone, cleaned on the source and on the target, of a compacted partition.
    cleaned_on_source: int = 0
    cleaned_on_target: int = 0
    differences: Sequence[Difference] = ()
    #: Whether so much differed that the rest was not compared.
    gave_up: bool = False
    notes: tuple[str, ...] = ()
    #: Why it could not be compared.
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVerdict:
    """One partition. The offsets are those of what was compared, the ends not included; -1: nothing was."""

    topic: str
    partition: int
    target_topic: str
    compacted: bool = False
    source_from: int = -1
    source_to: int = -1
    target_from: int = -1
    target_to: int = -1
    #: What is not on the target because of a skipped range, and was not compared.
    left_out: str | None = None
    checked: CheckedRecords = field(default_factory=CheckedRecords)
    account: UncomparedAccount = field(default_factory=UncomparedAccount)
    #: Why it is not copied at the moment; None: it is, or that is unknown.
    halt: Halt | None = None

    @property
    def outcome(self) -> Outcome:
        """The result for this partition."""
        if any(difference.gap is None for difference in self.checked.differences):
            return "differs"
        if self.checked.reason is not None or self.checked.gave_up:
            return "not_checked"
        if self.halt is not None:
            return self.halt.state
        return "explained" if self.checked.differences or self.left_out else "equal"

    @property
    def first(self) -> Difference | None:
        """The first difference; an unexplained one if there is any."""
        differences = self.checked.differences
        return next((difference for difference in differences if difference.gap is None), next(iter(differences), None))

    @property
    def text(self) -> str:
        """The first difference, or why it was not checked, and why it is not copied; empty if it is equal."""
        halt = f"{self.halt.state}: {self.halt.reason}" if self.halt is not None else None
        if self.first is not None and self.outcome != "not_checked":
            text = f"{self.topic}-{self.partition} ({self.target_topic}-{self.partition}): {self.first}"
            return f"{text}; {halt}" if halt else text
        why = "; ".join(text for text in (self.checked.reason or self.left_out, halt) if text)
        return f"{self.topic}-{self.partition}: {why}" if why else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on what was compared, and on what was not."""
        return (*self.checked.notes, *self.account.notes)

    def plain(self) -> dict[str, Any]:
        """For JSON and YAML."""
        checked = self.checked
        counts = Counter(difference.kind for difference in checked.differences if difference.gap is None)
        return {
            "topic": self.topic,
            "partition": self.partition,
            "target_topic": self.target_topic,
            "outcome": self.outcome,
            "reason": checked.reason,
            "compacted": self.compacted,
            "source_from": self.source_from,
            "source_to": self.source_to,
            "target_from": self.target_from,
            "target_to": self.target_to,
            "ranges": checked.ranges,
            "ranges_checked": checked.ranges_checked,
            "records": checked.records,
            "target_records": checked.target_records,
            "keys": checked.keys,
            "superseded": checked.superseded,
            "differences": dict(sorted(counts.items())),
            "left_out": self.left_out,
            "explained": sum(difference.gap is not None for difference in checked.differences),
            "more_differences": checked.gave_up,
            "first_difference": _plain(self.first) if self.first else None,
            "listed": [_plain(difference) for difference in checked.differences[:_LISTED]],
            "notes": list(self.notes),
            "halted": self.halt.state if self.halt is not None else None,
            "halted_reason": self.halt.reason if self.halt is not None else None,
            **asdict(self.account),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeaders:
    """One source partition, by batch headers; ``differences`` are records on the target that are not the flow's."""

    source: TopicPartition
    differences: Sequence[Difference]
    account: UncomparedAccount
    halt: Halt | None
    #: Why it is unknown whose records the remote partition holds; None: it is known.
    reason: str | None = None
    #: Whether ``account`` holds any figures.
    counted: bool = True

    @property
    def drift(self) -> tuple[str, ...]:
        """What counts as drift, a sentence each."""
        found = [difference for difference in self.differences if difference.gap is None]
        number = self.source.partition
        said = []
        if found:
            many = max(len(found), self.account.foreign)
            surplus = all(difference.kind in ("extra", "doubled") for difference in found)
            what = "too many on the target" if surplus else "are not what the source has next"
            said.append(f"partition {number}: {many:,} records {what}; the first: {found[0]}")
        if self.halt is not None:
            said.append(f"partition {number} is {self.halt.state}: {self.halt.reason}")
        return tuple(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """The result for a flow: every partition that was asked for, in order."""

    flow: str
    sample: float
    partitions: Sequence[PartitionVerdict]
    #: By topic, where they were compared.
    schemas: Sequence[TopicSchemas] | None = None

    @property
    def equal(self) -> bool:
        """Whether everything that was copied is equal."""
        return self.outcome == "equal"

    @property
    def outcome(self) -> Outcome:
        """The worst one of its partitions, and of their schemas."""
        return worst([*self.partitions, *(self.schemas or ())])

    def plain(self) -> dict[str, Any]:
        """For JSON and YAML."""
        return {
            "flow": self.flow,
            "sample": self.sample,
            "outcome": self.outcome,
            "records": sum(partition.checked.records for partition in self.partitions),
            "not_copied": sum(partition.account.not_copied for partition in self.partitions),
            "partitions": [partition.plain() for partition in self.partitions],
            "schemas": None if self.schemas is None else [topic.plain() for topic in self.schemas],
        }


def worst(verdicts: Iterable[PartitionVerdict | TopicSchemas]) -> Outcome:
    """The worst outcome of these; without any, nothing was checked."""
    found = {verdict.outcome for verdict in verdicts}
    return next((outcome for outcome in _WORST if outcome in found), "not_checked")


def _plain(difference: Difference) -> dict[str, Any]:
    return asdict(difference) | {"fields": list(difference.fields), "text": str(difference)}
