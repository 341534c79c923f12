"""What was killed in which step of a failover or failback, what came of it, and the report in Markdown: pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from mirror_ray.failover.plan import STEPS, FailoverStep, Kind

KillVictim = Literal["command", "coordinator", "broker A", "broker B"]
VICTIMS: Final[tuple[KillVictim, ...]] = ("command", "coordinator", "broker A", "broker B")


@dataclass(frozen=True, slots=True, kw_only=True)
class KillSettings:
    """What is to be killed: each victim in each step, once there and once back."""

    groups: int
    seed: int
    victims: Sequence[KillVictim] = VICTIMS
    steps: Sequence[FailoverStep] = STEPS

    @property
    def command(self) -> str:
        """The command that repeats it."""
        return f"mirror-ray failover 'A->B' --simulate --kills --groups {self.groups} --seed {self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One plan that was killed in a step, and taken up until it was finished."""

    kind: Kind
    victim: KillVictim
    step: FailoverStep
    #: Whether the step was at work when it was killed; else it had just ended, or the command.
    in_step: bool
    #: How often the command was given.
    tries: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KillsOutcome:
    """All of it."""

    settings: KillSettings
    kills: Sequence[Kill]
    #: What does not hold although it is guaranteed; one sentence each.
    wrong: Sequence[str]
    records: int
    duration_s: float
    #: Of a command that nobody killed, by step.
    step_s: Mapping[FailoverStep, float] = field(default_factory=dict)


def differences(group: str, wanted: Sequence[bytes], processed: Sequence[bytes]) -> list[str]:
    """What a group has processed twice, or not at all; one sentence, or none."""
    counts = Counter(processed)
    twice = [value for value, count in counts.items() if count > 1]
    missing, strange = [value for value in wanted if value not in counts], counts.keys() - set(wanted)
    if not (twice or missing or strange):
        return []
    return [f"{group}: {len(twice)} records twice, {len(missing)} not at all, {len(strange)} that are not its own"]


def report(outcome: KillsOutcome) -> str:
    """The whole report."""
    return "\n".join([*_head(outcome), *_table(outcome.kills), ""])


def _head(outcome: KillsOutcome) -> Iterator[str]:
    told = outcome.settings
    yield f"# Failover and failback killed in every step, {told.groups} groups, seed {told.seed}"
    yield ""
    yield f"**{'HOLDS' if not outcome.wrong else 'DOES NOT HOLD'}.** `{told.command}` repeats it."
    yield ""
    yield from (f"- {sentence}" for sentence in outcome.wrong)
    yield from [""] if outcome.wrong else []
    yield f"- {len(outcome.kills)} kills, {sum(kill.in_step for kill in outcome.kills)} of them within the step"
    yield f"- {outcome.records:,} records, each of which every group has processed once, on one side or the other"
    yield f"- {outcome.duration_s:.0f} s in all"


def _table(kills: Sequence[Kill]) -> Iterator[str]:
    yield from ("", "| plan | killed | in | within it | commands until done | s |", "|---|---|---|---|---|---|")
    for kill in kills:
        within = "yes" if kill.in_step else "just after"
        yield f"| {kill.kind} | {kill.victim} | {kill.step} | {within} | {kill.tries} | {kill.seconds:.1f} |"
