"""What a rehearsed failover has shown, and its report in Markdown: pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from mirror_ray.lab.chaos.records import Identity

_SHOWN = 20

_ABOUT_GROUPS = """\
*On A* and *on B* is what a group has processed there, by the records' ids. *Again* was processed on both sides. *Lost*
is what A held and the group has processed nowhere: *not copied* went with A, *copied* was on B and was passed over,
which must never be. *First on B* is from the kill (or the begin of the failover) to the group's first record there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillSettings:
    """What a rehearsal is told."""

    groups: int
    seed: int
    #: The source lives on, and groups are stopped cleanly.
    planned: bool

    @property
    def command(self) -> str:
        """The command that repeats it."""
        more = " --planned" if self.planned else ""
        return f"mirror-ray failover 'A->B' --simulate{more} --groups {self.groups} --seed {self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOutcome:
    """One group."""

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
    """A whole rehearsal."""

    settings: DrillSettings
    #: Step, outcome, seconds.
    steps: Sequence[tuple[str, str, float]]
    #: From the kill, or the order, to the end of the last step.
    failover_s: float
    groups: Sequence[GroupOutcome]
    #: Committed records that the source held in the end, of those written before the kill.
    held: int
    #: Acknowledged records that the target lacks, and how long before the kill the first of them was acknowledged.
    rpo_records: int
    rpo_s: float
    duration_s: float

    @property
    def wrong(self) -> list[str]:
        """What does not hold although it is guaranteed; one sentence each."""
        found = [f"step {step} is {outcome}" for step, outcome, _ in self.steps if outcome == "blocked"]
        for each in self.groups:
            if each.lost_copied:
                found.append(f"{each.group} has passed over {each.lost_copied} records that are on B")
            if self.settings.planned and (each.again or each.lost_uncopied):
                found.append(f"{each.group}: {each.again} records twice, {each.lost_uncopied} not at all")
            if not self.settings.planned and each.first_s is None:
                found.append(f"{each.group} has processed nothing on B")
        if self.settings.planned and self.rpo_records:
            found.append(f"{self.rpo_records} acknowledged records are not on B")
        return found


def judge_group(
    group: str,
    processed: tuple[Sequence[Identity], Sequence[Identity]],
    held: Collection[Identity],
    copied: Collection[Identity],
    first_s: float | None,
) -> GroupOutcome:
    """What became of each record for one group.

    Args:
        group: Its name.
        processed: On the source, and on the target from the copies, in order.
        held: By the source, of what counts.
        copied: That the target has.
        first_s: See ``GroupOutcome``.
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
    acknowledged: Mapping[Identity, float], copied: Collection[Identity], killed_s: float
) -> tuple[int, float]:
    """RPO: acknowledged records (by when they were) that were not copied, and seconds from the first to the kill."""
    lost = [at_s for who, at_s in acknowledged.items() if at_s <= killed_s and who not in copied]
    return len(lost), killed_s - min(lost, default=killed_s)


def report(outcome: DrillOutcome) -> str:
    """The whole report."""
    return "\n".join([*_head(outcome), *_steps(outcome), *_groups(outcome.groups), ""])


def _head(outcome: DrillOutcome) -> Iterator[str]:
    told = outcome.settings
    how = "planned" if told.planned else "source killed"
    yield f"# Failover rehearsed: {how}, {told.groups} groups, seed {told.seed}"
    yield ""
    yield f"**{'HOLDS' if not outcome.wrong else 'DOES NOT HOLD'}.** `{told.command}` repeats it."
    yield ""
    yield from (f"- {each}" for each in outcome.wrong[:_SHOWN])
    yield from [""] if outcome.wrong else []
    firsts = [each.first_s for each in outcome.groups if each.first_s is not None]
    lacking = f"{outcome.rpo_records:,} acknowledged records of {outcome.held:,} are not on B"
    yield (
        f"- RPO: {lacking}, the first from {outcome.rpo_s:.2f} s before the kill"
        if outcome.rpo_records
        else (f"- RPO: {lacking}")
    )
    if firsts and not told.planned:
        yield f"- RTO: {max(firsts):.1f} s until the last group's first record on B, median {median(firsts):.1f} s"
    yield f"- the failover itself: {outcome.failover_s:.1f} s"
    yield f"- processed again: {sum(each.again for each in outcome.groups):,} in all groups"
    lost = sum(each.lost_uncopied for each in outcome.groups), sum(each.lost_copied for each in outcome.groups)
    yield f"- lost: {lost[0]:,} that were not copied, {lost[1]:,} that were"
    yield f"- {outcome.duration_s:.0f} s in all"


def _steps(outcome: DrillOutcome) -> Iterator[str]:
    yield from ("", "## Steps", "", "| step | outcome | s |", "|---|---|---|")
    yield from (f"| {step} | {how} | {took_s:.2f} |" for step, how, took_s in outcome.steps)


def _groups(groups: Sequence[GroupOutcome]) -> Iterator[str]:
    yield from ("", "## Groups", "", _ABOUT_GROUPS, "")
    yield "| group | on A | on B | again | lost, not copied | lost, copied | first on B s |"
    yield "|---|---|---|---|---|---|---|"
    for each in groups:
        first = "-" if each.first_s is None else f"{each.first_s:.1f}"
        yield (
            f"| {each.group} | {each.on_source:,} | {each.on_target:,} | {each.again:,} | {each.lost_uncopied:,}"
            f" | {each.lost_copied:,} | {first} |"
        )
