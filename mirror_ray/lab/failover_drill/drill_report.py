"""What failover drills have shown, under traffic and under kills, and their reports in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass
from statistics import median
from typing import Final, Literal

from mirror_ray.failover.plan import STEPS, FailoverStep, Kind
from mirror_ray.lab.load_record import RecordId
from mirror_ray.lab.report_parts import document, markdown_table, problem_list

_ABOUT_GROUPS = """\
*On A* and *on B* is what a group has processed there, by the records' ids. *Again* was processed on both sides. *Lost*
is what A held and the group has processed nowhere: *not copied* was lost with A, *copied* was on B and was skipped,
which must never be. *First on B* is from the kill (or the begin of the failover) to the group's first record there."""

KillVictim = Literal["command", "coordinator", "broker A", "broker B"]
VICTIMS: Final[tuple[KillVictim, ...]] = ("command", "coordinator", "broker A", "broker B")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillSettings:
    """What a drill is asked for."""

    groups: int
    seed: int
    #: The source stays up, and groups are stopped cleanly.
    planned: bool

    @property
    def command(self) -> str:
        """The command that repeats it."""
        more = " --planned" if self.planned else ""
        return f"mirror-ray failover 'A->B' --simulate{more} --groups {self.groups} --seed {self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOutcome:
    """What became of the records for one group."""

    group: str
    on_source: int
    on_target: int
    again: int
    lost_uncopied: int
    lost_copied: int
    #: Seconds to its first record on the target; None: there was none.
    first_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillOutcome:
    """A whole drill."""

    settings: DrillSettings
    #: Step, outcome, seconds.
    steps: Sequence[tuple[str, str, float]]
    #: From the kill, or the order, to the end of the last step.
    failover_s: float
    groups: Sequence[GroupOutcome]
    #: Committed records on the source in the end, of those written before the kill.
    held: int
    #: Acknowledged records that the target lacks, and how long before the kill the first of them was acknowledged.
    rpo_records: int
    rpo_s: float
    duration_s: float

    @property
    def wrong(self) -> list[str]:
        """What does not hold although it is guaranteed; one sentence each."""
        found = [f"step {step} is {outcome}" for step, outcome, _ in self.steps if outcome == "blocked"]
        for group in self.groups:
            if group.lost_copied:
                found.append(f"{group.group} has skipped {group.lost_copied} records that are on B")
            if self.settings.planned and (group.again or group.lost_uncopied):
                found.append(f"{group.group}: {group.again} records twice, {group.lost_uncopied} not at all")
            if not self.settings.planned and group.first_s is None:
                found.append(f"{group.group} has processed nothing on B")
        if self.settings.planned and self.rpo_records:
            found.append(f"{self.rpo_records} acknowledged records are not on B")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class KillSettings:
    """What is killed: each victim in each step, once in the failover and once in the failback."""

    groups: int
    seed: int
    #: Topics keep their names, so that the failback reverses the flow.
    identity: bool = False

    @property
    def command(self) -> str:
        """The command that repeats it."""
        kills = "--kills --identity" if self.identity else "--kills"
        return f"mirror-ray failover 'A->B' --simulate {kills} --groups {self.groups} --seed {self.seed}"

    @property
    def steps(self) -> Sequence[FailoverStep]:
        """Every step in which something is killed."""
        return self.steps_of("failback")

    def steps_of(self, kind: Kind) -> Sequence[FailoverStep]:
        """The steps of a plan, in their order."""
        return tuple(FailoverStep) if self.identity and kind == "failback" else STEPS


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A kill in one step of a plan, after which the plan was resumed until it was finished."""

    kind: Kind
    victim: KillVictim
    step: FailoverStep
    #: Whether the step was being carried out; otherwise it had just ended, or the command had.
    in_step: bool
    #: How often the command was given.
    tries: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KillsOutcome:
    """All rounds of kills."""

    settings: KillSettings
    kills: Sequence[Kill]
    #: What does not hold although it is guaranteed; one sentence each.
    wrong: Sequence[str]
    records: int
    duration_s: float


def judge_group(
    group: str,
    processed: tuple[Sequence[RecordId], Sequence[RecordId]],
    held: Collection[RecordId],
    copied: Collection[RecordId],
    first_s: float | None,
) -> GroupOutcome:
    """What became of each record for one group.

    ``processed``: on the source, and on the target from the copies, in order. ``held`` are the records of the source
    that count, ``copied`` those of the target.
    """
    counts = Counter(processed[0]) + Counter(processed[1])
    missing = set(held) - counts.keys()
    return GroupOutcome(
        group=group,
        on_source=len(processed[0]),
        on_target=len(processed[1]),
        again=sum(count - 1 for count in counts.values()),
        lost_uncopied=len(missing - set(copied)),
        lost_copied=len(missing & set(copied)),
        first_s=first_s,
    )


def lost_with_source(
    acknowledged: Mapping[RecordId, float], copied: Collection[RecordId], killed_s: float
) -> tuple[int, float]:
    """The RPO: how many records were acknowledged before the kill and not copied, and the age of the first at the kill.

    ``acknowledged``: when each record was.
    """
    lost = [at_s for record, at_s in acknowledged.items() if at_s <= killed_s and record not in copied]
    return len(lost), killed_s - min(lost, default=killed_s)


def group_differences(group: str, wanted: Sequence[bytes], processed: Sequence[bytes]) -> list[str]:
    """What a group has processed twice, or not at all; one sentence, or none."""
    counts = Counter(processed)
    twice = [value for value, count in counts.items() if count > 1]
    missing, foreign = [value for value in wanted if value not in counts], counts.keys() - set(wanted)
    if not (twice or missing or foreign):
        return []
    return [f"{group}: {len(twice)} records twice, {len(missing)} not at all, {len(foreign)} that are not its own"]


def drill_report(outcome: DrillOutcome) -> str:
    """The report of a drill in Markdown."""
    settings, groups = outcome.settings, outcome.groups
    how = "planned" if settings.planned else "source killed"
    firsts = [group.first_s for group in groups if group.first_s is not None]
    rpo = f"- RPO: {outcome.rpo_records:,} acknowledged records of {outcome.held:,} are not on B"
    lost = [sum(group.lost_uncopied for group in groups), sum(group.lost_copied for group in groups)]
    facts = [
        f"{rpo}, the first from {outcome.rpo_s:.2f} s before the kill" if outcome.rpo_records else rpo,
        f"- the failover itself: {outcome.failover_s:.1f} s",
        f"- processed again: {sum(group.again for group in groups):,} in all groups",
        f"- lost: {lost[0]:,} that were not copied, {lost[1]:,} that were",
        f"- {outcome.duration_s:.0f} s in all",
    ]
    if firsts and not settings.planned:
        rto = f"- RTO: {max(firsts):.1f} s until the last group's first record on B, median {median(firsts):.1f} s"
        facts.insert(1, rto)
    return document(
        [
            f"# Failover rehearsed: {how}, {settings.groups} groups, seed {settings.seed}",
            _verdict(outcome.wrong, settings.command),
            problem_list(outcome.wrong),
            "\n".join(facts),
            "## Steps",
            markdown_table(
                ("step", "outcome", "s"), ((step, how, f"{took_s:.2f}") for step, how, took_s in outcome.steps)
            ),
            "## Groups",
            _ABOUT_GROUPS,
            markdown_table(
                ("group", "on A", "on B", "again", "lost, not copied", "lost, copied", "first on B s"),
                # The columns are the fields, in their order.
                map(astuple, groups),
            ),
        ]
    )


def kills_report(outcome: KillsOutcome) -> str:
    """The report of all rounds of kills in Markdown."""
    settings, kills = outcome.settings, outcome.kills
    facts = [
        f"- {len(kills)} kills, {sum(kill.in_step for kill in kills)} of them within the step",
        f"- {outcome.records:,} records, each of which every group has processed once, on one side or the other",
        f"- {outcome.duration_s:.0f} s in all",
    ]
    rows = [
        (kill.kind, kill.victim, kill.step, "yes" if kill.in_step else "just after", kill.tries, float(kill.seconds))
        for kill in kills
    ]
    return document(
        [
            f"# Failover and failback killed in every step, {settings.groups} groups, seed {settings.seed}",
            _verdict(outcome.wrong, settings.command),
            problem_list(outcome.wrong),
            "\n".join(facts),
            markdown_table(("plan", "killed", "in", "within it", "commands until done", "s"), rows),
        ]
    )


def _verdict(wrong: Sequence[str], command: str) -> str:
    return f"**{'DOES NOT HOLD' if wrong else 'HOLDS'}.** `{command}` repeats it."
