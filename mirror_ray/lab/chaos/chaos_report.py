"""What a chaos run has found, and its report in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from mirror_ray.lab.chaos.schedule import Fault
from mirror_ray.lab.report_parts import document, markdown_table, problem_list

_ABOUT_TOPICS = """\
Half of the records are 8 to 30 days old. *Committed*, *aborted* and *unknown* is what the writers know. *Twice* on the
source are records that a writer sent again when an answer was lost and the source had forgotten it; *ended otherwise*
are those whose transaction the source, with its only broker fenced, has not ended as it told the writer. The copy
repeats the source as a consumer of committed records reads it. A compacted source holds less than was written; where
only the source is compacted every record of the copy is checked, where both are the last record of each key."""

_ABOUT_OFFSETS = """\
The flows have `offsets = preserve`. Each record of the copy is at the source's offset, and both logs end alike; of a
compacted topic the last value of each key is at the same offset, and what one side alone holds, the other side's
cleaner has taken. Three groups commit in each topic on its source meanwhile, at its end or anywhere before it, also at
markers and aborted records: on the target they have the same offsets. The remote topic that begins beyond 2^31 is
brought there during the first half of the faults."""

_REPEATED = "the same faults in the same order and for as long. What they\nmeet is never the same."

_ABOUT_FAULTS = """\
*Stood* is the longest that any partition had nothing new on its target, the fault itself included; *well after* is from
its end, or once a killed broker serves, until all ran again. A fault with a + came right after the one before it, or
during it; the figures are those of all of them together."""

#: Kafka's ``producer.id.expiration.check.interval.ms``.
FORGET_EVERY_S = 600.0
#: Where the log begins that begins last, where offsets are preserved: beyond 2^31.
FARTHEST_OFFSET = 3_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosSettings:
    """What a run is asked for."""

    #: Of the schedule, and of the writers.
    seed: int
    #: How many.
    faults: int
    #: How often the brokers look for producers to forget, those of old records.
    forget_every_s: float
    #: Whether records are to have the same offsets on the target as on the source.
    preserve_offsets: bool = False
    #: Where the log begins then that begins last.
    farthest_offset: int = FARTHEST_OFFSET

    @property
    def command(self) -> str:
        """The command that repeats it."""
        more = "" if self.forget_every_s == FORGET_EVERY_S else f" --forget-every {self.forget_every_s:g}"
        more += " --preserve-offsets" if self.preserve_offsets else ""
        more += "" if self.farthest_offset == FARTHEST_OFFSET else f" --farthest-offset {self.farthest_offset}"
        return f"mirror-ray chaos --faults {self.faults} --seed {self.seed}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedFault:
    """A fault that was carried out; the last two figures are those of all faults that overlapped with it."""

    fault: Fault
    #: Since the system first ran well.
    at_s: float
    #: The longest that any partition had nothing new on its target, from the first of the faults until all ran well.
    standstill_s: float
    #: From the end of the last fault, and once the brokers serve, until all ran well: replicators complete, every
    #: partition copied again.
    recovery_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOutcome:
    """What became of one topic, all of its partitions taken together."""

    flow: str
    topic: str
    kind: str
    partitions: int
    #: As the writers know it.
    written: int
    aborted: int
    doubtful: int
    #: Records that the source holds twice: a writer's retry was not recognized as one.
    twice_on_source: int
    #: Records of transactions that the source has ended otherwise than it told the writer; no fault of the copy.
    ended_otherwise: int
    source_records: int
    target_records: int
    #: One sentence for each partition whose copy is not what it should be.
    differences: tuple[str, ...]
    #: One sentence for each source partition that is not what its writers know: the run itself is at fault.
    source_problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosOutcome:
    """What a whole run has found."""

    settings: ChaosSettings
    faults: tuple[InjectedFault, ...]
    topics: tuple[TopicOutcome, ...]
    #: What did not recover in time, or was not copied in the end; one sentence each.
    stuck: tuple[str, ...]
    #: How many committed offsets of groups are the same on both sides, where offsets are preserved.
    group_offsets: int = 0
    #: Groups whose offsets are not; one sentence each.
    group_differences: tuple[str, ...] = ()
    duration_s: float
    #: Where and with what it ran.
    machine: str

    @property
    def equal(self) -> bool:
        """Whether every fault was survived, and every copy and every group is what it should be."""
        return not self.stuck and bool(self.topics) and not self.differences

    @property
    def differences(self) -> tuple[str, ...]:
        """What is not as it should be, one sentence each."""
        return (*(difference for topic in self.topics for difference in topic.differences), *self.group_differences)

    @property
    def source_problems(self) -> tuple[str, ...]:
        """Faults of the run itself."""
        return tuple(problem for topic in self.topics for problem in topic.source_problems)

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        partitions = sum(topic.partitions for topic in self.topics)
        records = sum(topic.source_records for topic in self.topics)
        compared = f"{partitions} partitions, {records:,} records on the sources"
        if self.source_problems:
            return "NO VERDICT: a source is not what its writers know, so the run itself is at fault"
        if self.stuck:
            return f"STUCK after {len(self.faults)} of {self.settings.faults} faults: not everything was copied"
        if self.group_differences:
            compared += f", and {self.group_offsets:,} offsets of groups"
        if not self.equal:
            return f"DIFFERENT: {len(self.differences)} of {compared} are not what they should be"
        same = f"; each record and {self.group_offsets:,} offsets of groups where they are on the source"
        kept = same if self.settings.preserve_offsets else ""
        return f"EQUAL: {compared}{kept}; nothing lost, nothing doubled, order kept"


def chaos_report(outcome: ChaosOutcome) -> str:
    """The report in Markdown."""
    settings = outcome.settings
    problems = [*outcome.stuck, *outcome.source_problems, *outcome.differences]
    counts = Counter((done.fault.action, done.fault.victim) for done in outcome.faults)
    return document(
        [
            f"# Chaos run: {len(outcome.faults)} faults, seed {settings.seed}"
            + (", offsets preserved" if settings.preserve_offsets else ""),
            f"**{outcome.verdict}.**",
            f"`{settings.command}` repeats it: {_REPEATED}",
            f"{outcome.machine}. {outcome.duration_s / 60:.1f} minutes in all.",
            *(["## What is wrong", problem_list(problems)] if problems else []),
            "## Topics",
            _ABOUT_TOPICS,
            _ABOUT_OFFSETS if settings.preserve_offsets else "",
            _topic_table(outcome.topics),
            "## Faults",
            "\n".join(f"- {action} {victim}: {number}" for (action, victim), number in sorted(counts.items())),
            _ABOUT_FAULTS,
            _fault_table(outcome.faults),
        ]
    )


def _topic_table(topics: Sequence[TopicOutcome]) -> str:
    heads = (
        *("flow", "topic", "kind", "partitions", "committed", "aborted", "unknown", "twice", "ended otherwise"),
        *("records on source", "on target", "copy"),
    )
    # The columns are the fields, in their order, but for the last two.
    rows = ((*astuple(topic)[:-2], "**wrong**" if topic.differences else "as it should be") for topic in topics)
    return markdown_table(heads, rows)


def _fault_table(faults: Sequence[InjectedFault]) -> str:
    rows = []
    for done in faults:
        fault = done.fault
        number, held = f"{'+ ' if fault.overlaps else ''}{fault.number}", fault.hold_s or ""
        what = (number, f"{done.at_s:.0f}", fault.action, fault.victim, held)
        rows.append((*what, done.standstill_s, done.recovery_s))
    return markdown_table(("number", "at s", "what", "whom", "for s", "stood s", "well after s"), rows)
