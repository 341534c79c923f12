"""What a drill there and back has shown, judged by the records' ids, and its report in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, NamedTuple

from mirror_ray.failover.plan import Kind
from mirror_ray.lab.load_record import RecordId
from mirror_ray.lab.report_parts import document, markdown_table, problem_list

#: A checkpoint is at most so old when its cluster is killed: 2 s lie between two, one passes until it is published, one
#: more where the replicators were killed before, and a machine that is busy takes two more for all of that.
CHECKPOINT_WITHIN_S: Final = 6.0

_ABOUT_MOVES: Final = """\
*RPO* is what was acknowledged on the side that was left, before its last writer stopped or before it was killed, and is
not on both sides in the end; the seconds are the age of the first such record. *RTO* is from there until the last group
has processed its first record on the other side, *median* until half of them have."""
_ABOUT_COMMANDS: Final = """\
Each command is a process of its own; *s* is all that it took, the steps are in seconds, the first one with the start of
the process. Commands that are given while writers write on B, or before anybody has chosen what becomes of diverged
records, have to stop and say so."""
_ABOUT_GROUPS: Final = """\
*Again* was processed more than once. *Oldest* is how long before a kill the first such record was processed first.
*Lost with A* is what the group has processed nowhere, and what is in the exported records of A; *lost* is what both
sides hold, and the group has processed nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThereAndBackSettings:
    """What a drill there and back is asked for."""

    rounds: int
    groups: int
    seed: int
    #: Writers and groups are stopped on the source, which stays up; else its brokers are killed in every round.
    planned: bool
    preserve_offsets: bool

    @property
    def command(self) -> str:
        """The command that repeats it."""
        more = " --planned" if self.planned else ""
        more += " --preserve-offsets" if self.preserve_offsets else ""
        rounds = f"--there-and-back {self.rounds}{more}"
        return f"mirror-ray failover 'A->B' --simulate {rounds} --groups {self.groups} --seed {self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRun:
    """A command that was given, and how it ended."""

    round: int
    #: As given, without the flow and what all have in common.
    text: str
    #: Steps in one of which it has to stop; empty: it has to be done.
    stops_in: Collection[str]
    exit_code: int
    #: The step that was blocked; "": none was.
    blocked_in: str
    seconds: float
    #: Seconds of each step that it reported.
    step_s: Mapping[str, float]
    #: All that it said.
    messages: str = field(default="", repr=False)

    @property
    def wrong(self) -> str | None:
        """What it should not have done; None: it did as it should."""
        ended = (self.exit_code, self.blocked_in)
        if ended in ([(1, step) for step in self.stops_in] or [(0, "")]):
            return None
        wanted = f"1, blocked in {' or '.join(self.stops_in)}" if self.stops_in else "0"
        return f"round {self.round}: `{self.text}` ended with {self.ended}, not with {wanted}: {self._last}"

    @property
    def ended(self) -> str:
        """In words."""
        return f"{self.exit_code}, blocked in {self.blocked_in}" if self.blocked_in else str(self.exit_code)

    @property
    def _last(self) -> str:
        return next(reversed(self.messages.strip().splitlines()), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One way, in one round."""

    round: int
    kind: Kind
    #: The side that was left has been killed.
    killed: bool
    rpo_records: int
    rpo_s: float
    #: Seconds until each group's first record on the other side, by group; None: there was none.
    first_s: Mapping[str, float | None]

    @property
    def rto_s(self) -> float | None:
        """Until the last group works; None: one never did."""
        known = self._known
        return max(known, default=None) if len(known) == len(self.first_s) else None

    @property
    def median_s(self) -> float | None:
        """Until half of the groups work."""
        return median(self._known) if self._known else None

    @property
    def wrong(self) -> list[str]:
        """What does not hold although it is guaranteed."""
        where = f"{self.kind} of round {self.round}"
        silent = [group for group, first_s in self.first_s.items() if first_s is None]
        found = [f"{where}: {group} has processed nothing on the other side" for group in silent]
        if self.rpo_records and not self.killed:
            found.append(f"{where}: {self.rpo_records} acknowledged records are not on both sides")
        return found

    @property
    def _known(self) -> list[float]:
        return [first_s for first_s in self.first_s.values() if first_s is not None]


class PhaseRecords(NamedTuple):
    """What a group has processed on one side, until it was stopped or the side was killed."""

    #: With the time of each, by ``time.time()``.
    records: Sequence[tuple[RecordId, float]]
    #: When the side was killed; None: it was not.
    killed_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOnTheWay:
    """What became of the records for one group, over all rounds."""

    group: str
    processed: int
    again: int
    #: Of these, those that no kill explains: the group had been stopped, or they came later than in the next phase.
    unexplained: int
    #: How long before a kill the first of the others was processed first; 0.0: there is none.
    oldest_again_s: float
    lost_with_source: int
    lost: int

    @property
    def wrong(self) -> list[str]:
        """What does not hold although it is guaranteed."""
        found = []
        if self.lost:
            found.append(f"{self.group} has skipped {self.lost} records that are on both sides")
        if self.unexplained:
            found.append(f"{self.group} has processed {self.unexplained} records again that no kill explains")
        if self.oldest_again_s > CHECKPOINT_WITHIN_S:
            found.append(f"{self.group} has gone back by {self.oldest_again_s:.1f} s, further than checkpoints lie")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsOutcome:
    """What became of all records."""

    acknowledged: int
    aborted: int
    #: On each side in the end.
    held: int
    #: Of these, records that are there more than once.
    twice: int
    #: Of these, records of aborted transactions.
    risen: int
    exported: int
    #: Acknowledged records that are exported, and on both sides, too.
    both: int
    #: Acknowledged records that are neither on both sides nor exported.
    lost: Sequence[RecordId]
    #: Where the two sides differ in the end, by partition.
    differences: Sequence[str]

    @property
    def wrong(self) -> list[str]:
        """What does not hold although it is guaranteed."""
        found = list(self.differences)
        if self.lost:
            first = min(self.lost)
            named = f"{first.writer} {first.number}"
            found.append(f"{len(self.lost)} acknowledged records are on no side and not exported, the first is {named}")
        counted = {
            "records are there twice": self.twice,
            "records of aborted transactions are there": self.risen,
            "records are exported though both sides have them": self.both,
        }
        return found + [f"{count} {what}" for what, count in counted.items() if count]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThereAndBackOutcome:
    """A whole drill there and back."""

    settings: ThereAndBackSettings
    moves: Sequence[Move]
    commands: Sequence[CommandRun]
    groups: Sequence[GroupOnTheWay]
    records: RecordsOutcome
    duration_s: float

    @property
    def wrong(self) -> list[str]:
        """What does not hold although it is guaranteed; one sentence each."""
        return [
            *(wrong for command in self.commands if (wrong := command.wrong) is not None),
            *(wrong for move in self.moves for wrong in move.wrong),
            *self.records.wrong,
            *(wrong for group in self.groups for wrong in group.wrong),
        ]


def judge_records(
    acknowledged: Collection[RecordId],
    aborted: Collection[RecordId],
    held: Sequence[RecordId],
    exported: Collection[RecordId],
    differences: Sequence[str],
) -> RecordsOutcome:
    """What became of all records; ``held``: what both sides have in the end, each as often as it is there."""
    counts, known = Counter(held), set(acknowledged)
    return RecordsOutcome(
        acknowledged=len(known),
        aborted=len(aborted),
        held=len(held),
        twice=sum(count > 1 for count in counts.values()),
        risen=sum(record in counts for record in aborted),
        exported=len(exported),
        both=sum(record in counts for record in known.intersection(exported)),
        lost=sorted(known.difference(counts, exported)),
        differences=differences,
    )


def judge_group(
    group: str, phases: Sequence[PhaseRecords], held: Collection[RecordId], exported: Collection[RecordId]
) -> GroupOnTheWay:
    """What became of the records for one group, which has worked in these phases, in their order."""
    last: dict[RecordId, tuple[int, float]] = {}
    again = unexplained = 0
    oldest_s = 0.0
    for number, phase in enumerate(phases):
        for record, at_s in phase.records:
            before = last.get(record)
            last[record] = (number, at_s)
            if before is None:
                continue
            again += 1
            killed_s = phases[before[0]].killed_s
            if killed_s is None or number != before[0] + 1:
                unexplained += 1
            else:
                oldest_s = max(oldest_s, killed_s - before[1])
    return GroupOnTheWay(
        group=group,
        processed=sum(len(phase.records) for phase in phases),
        again=again,
        unexplained=unexplained,
        oldest_again_s=oldest_s,
        lost_with_source=len(set(exported).difference(held, last)),
        lost=len(set(held).difference(last)),
    )


def there_and_back_report(outcome: ThereAndBackOutcome) -> str:
    """The report in Markdown."""
    settings, records, wrong = outcome.settings, outcome.records, outcome.wrong
    how = "planned" if settings.planned else "source killed"
    how += ", offsets preserved" if settings.preserve_offsets else ""
    verdict = "DOES NOT HOLD" if wrong else "HOLDS"
    same = "at the same offset on both sides" if settings.preserve_offsets else "on both sides in the same order"
    again, lost = sum(group.again for group in outcome.groups), sum(group.lost for group in outcome.groups)
    facts = [
        f"- {records.acknowledged:,} acknowledged records, {records.aborted:,} of aborted transactions",
        f"- {records.held:,} records in the end, every one compared: each has to be there once, {same}",
        f"- {again:,} processed again in all groups, {lost:,} lost",
        f"- {outcome.duration_s:.0f} s in all",
    ]
    if not settings.planned:
        facts.insert(2, f"- {records.exported:,} records that only A had were exported before A was made anew")
    return document(
        [
            f"# There and back: {how}, {settings.rounds} rounds, {settings.groups} groups, seed {settings.seed}",
            f"**{verdict}.** `{settings.command}` repeats it.",
            problem_list(wrong),
            "\n".join(facts),
            "## Moves",
            _ABOUT_MOVES,
            markdown_table(
                ("round", "way", "RPO records", "RPO s", "RTO s", "RTO median s"), map(_move, outcome.moves)
            ),
            "## Commands",
            _ABOUT_COMMANDS,
            markdown_table(("round", "command", "exit code", "s", "steps"), map(_command, outcome.commands)),
            "## Groups",
            _ABOUT_GROUPS,
            markdown_table(
                ("group", "processed", "again", "oldest s", "lost with A", "lost"), map(_group, outcome.groups)
            ),
        ]
    )


def _move(move: Move) -> tuple[str, str, int, str, float | None, float | None]:
    return str(move.round), move.kind, move.rpo_records, f"{move.rpo_s:.2f}", move.rto_s, move.median_s


def _command(run: CommandRun) -> tuple[str, str, str, float, str]:
    steps = ", ".join(f"{step} {took_s:.1f}" for step, took_s in run.step_s.items())
    return str(run.round), run.text, run.ended, run.seconds, steps


def _group(group: GroupOnTheWay) -> tuple[str, int, int, float, int, int]:
    return group.group, group.processed, group.again, group.oldest_again_s, group.lost_with_source, group.lost
