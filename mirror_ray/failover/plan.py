"""A failover or failback as a plan of nine steps, which can break off anywhere and be resumed.

A failback in topics that keep their names has a tenth: the flow is reversed, so that the flow back goes on in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Literal

Kind = Literal["failover", "failback"]
#: ``blocked``: somebody must do something first; the step is tried again by the same command.
Outcome = Literal["done", "skipped", "blocked"]


class FailoverStep(StrEnum):
    """The steps, in their order."""

    DETECT = "detect"
    CHECK = "check"
    REVERSE = "reverse"
    PRODUCERS = "producers"
    CATCH_UP = "catch-up"
    STOP = "stop"
    OFFSETS = "offsets"
    COMMIT = "commit"
    VERIFY = "verify"
    REDIRECT = "redirect"


_EVERY: Final = tuple(FailoverStep)
#: Those of every plan.
STEPS: Final = tuple(step for step in _EVERY if step != FailoverStep.REVERSE)
#: The fields of a plan that are in its head, in their order. Earlier versions did not write the last one.
_HEAD: Final = ("id", "kind", "flow", "began_ms", "by", "options", "abandoned", "reverses")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverOptions:
    """How a plan is to be run."""

    #: The side that the groups leave does not answer, or is not to be asked.
    source_is_gone: bool = False
    #: Offsets that somebody else has committed are replaced, too.
    force: bool = False
    #: Groups that have members are left where they are.
    skip_active: bool = False
    #: What becomes of topics of which the source has records that the target never got: ``append``, ``recreate``, each
    #: for all topics, or for those that fit a pattern before a ``=``.
    diverged: tuple[str, ...] = ()
    #: Where such records are copied to first: ``topic``, or a directory; empty: nowhere.
    export_diverged: str = ""
    #: Of a wave, patterns of the groups that move, and of the topics whose producers do; neither: all of them.
    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    #: Of a failback, the plan whose groups alone come back; empty: all that are away.
    wave: str = ""
    #: Patterns of topics that only the target has, to be copied to the source, too.
    new_topics: tuple[str, ...] = ()

    def joined(self, now: FailoverOptions) -> FailoverOptions:
        """The options of a plan that is resumed: a source that was gone stays gone, the rest is as given now.

        What was chosen for topics holds until something else is.
        """
        return replace(
            now,
            source_is_gone=self.source_is_gone or now.source_is_gone,
            diverged=now.diverged or self.diverged,
            export_diverged=now.export_diverged or self.export_diverged,
            new_topics=now.new_topics or self.new_topics,
            groups=self.groups,
            topics=self.topics,
            wave=self.wave,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The result of one step."""

    step: FailoverStep
    outcome: Outcome
    #: One or more sentences for people.
    summary: str
    #: Plain values, for JSON.
    figures: Mapping[str, Any] = field(default_factory=dict)
    began_ms: int
    ended_ms: int
    #: How often the plan had gone back to an earlier step before.
    repeats: int = 0

    @property
    def over(self) -> bool:
        """Whether the next step may begin."""
        return self.outcome != "blocked"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverPlan:
    """One plan; immutable, each result makes the next one."""

    id: str
    kind: Kind
    flow: str
    began_ms: int
    #: Who began it, ``user@host``.
    by: str = ""
    options: FailoverOptions
    #: Somebody began anew.
    abandoned: bool = False
    #: The flow is reversed for it.
    reverses: bool = False
    results: Mapping[FailoverStep, StepResult] = field(default_factory=dict)

    @property
    def steps(self) -> tuple[FailoverStep, ...]:
        """Its steps, in their order."""
        return _EVERY if self.reverses else STEPS

    @property
    def next_step(self) -> FailoverStep | None:
        """The first step that is not over; None: the plan is finished."""
        return next((step for step in self.steps if not self.is_over(step)), None)

    @property
    def finished(self) -> bool:
        """Whether every step is over."""
        return self.next_step is None

    @property
    def repeats(self) -> int:
        """How often it has gone back to an earlier step."""
        return max((result.repeats for result in self.results.values()), default=0)

    def is_over(self, step: FailoverStep) -> bool:
        """Whether a step is over, and need not be done again."""
        return step in self.results and self.results[step].over

    @property
    def last_ms(self) -> int:
        """When its last result was written."""
        return max((result.ended_ms for result in self.results.values()), default=self.began_ms)

    @property
    def state(self) -> str:
        """In a few words."""
        if self.finished:
            return "finished"
        if self.abandoned:
            return "abandoned"
        step = self.next_step
        blocked = step in self.results
        return f"blocked in {step}" if blocked else f"broke off before the end of {step}"

    def after(self, result: StepResult) -> FailoverPlan:
        """The plan with the result of its next step, or of an earlier one that it goes back to.

        From there on all is done again.

        Raises:
            ValueError: It is the result of another step.
        """
        step = self.next_step
        goes_back = (
            step is not None and _EVERY.index(result.step) < _EVERY.index(step) and result.repeats > self.repeats
        )
        if result.step != step and not goes_back:
            raise ValueError(f"{self.id}: {result.step} is not the next step, {step} is")
        return replace(self, results=counted({**self.results, result.step: result}))

    def head(self) -> dict[str, Any]:
        """All but the results, as plain values."""
        return {name: getattr(self, name) for name in _HEAD} | {"options": asdict(self.options)}


def counted(newest: Mapping[FailoverStep, StepResult]) -> dict[FailoverStep, StepResult]:
    """The results that count, by the newest of each step: without those that are to be done again."""
    found: dict[FailoverStep, StepResult] = {}
    repeats = 0
    for step in _EVERY:
        result = newest.get(step)
        if result is not None and result.repeats >= repeats:
            found[step], repeats = result, result.repeats
    return found


def plan_of(head: Mapping[str, Any]) -> FailoverPlan:
    """A plan from its ``head``, without results.

    Raises:
        KeyError, TypeError: It is something else.
    """
    options: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in head["options"].items()
    }
    known = {"reverses": False, **head}
    return FailoverPlan(**{name: known[name] for name in _HEAD} | {"options": FailoverOptions(**options)})


def result_of(value: Mapping[str, Any]) -> StepResult:
    """A result from ``asdict``.

    Raises:
        KeyError, TypeError, ValueError: It is something else.
    """
    return StepResult(**{**value, "step": FailoverStep(value["step"])})
