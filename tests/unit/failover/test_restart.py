"""A plan that begins anew: whether it may lift the pause of those before it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror_ray.failover.audit_topic import FailoverHistory
from mirror_ray.failover.plan import STEPS, FailoverPlan, FailoverStep, Kind, StepResult
from mirror_ray.failover.run import is_paused_before
from tests.unit.failover.test_plan import new_plan, read, result, written

NEW = new_plan("failover-9", 9)


def done(*, until: FailoverStep | None = None) -> list[StepResult]:
    """All steps before this one, or all."""
    return [result(step, "done") for step in STEPS[: STEPS.index(until) if until else None]]


def plan(number: int, kind: Kind = "failover") -> FailoverPlan:
    """One of those before."""
    return replace(new_plan(f"{kind}-{number}", number), kind=kind)


def history(*plans: tuple[FailoverPlan, list[StepResult]]) -> FailoverHistory:
    """What the topic says of them, and of the new one."""
    records = [record for plan, results in plans for record in written(plan, results)]
    return read([*records, *written(NEW, done(until=FailoverStep.STOP))])


def back(to: FailoverStep) -> StepResult:
    """A plan is sent back."""
    return replace(result(to, "blocked"), repeats=1)


@pytest.mark.parametrize(
    ("results", "paused"),
    [
        (done(), True),
        (done(until=FailoverStep.COMMIT), True),
        (done(until=FailoverStep.CATCH_UP), False),
        ([*done(until=FailoverStep.CATCH_UP), result(FailoverStep.CATCH_UP, "blocked")], False),
        # Killed between the pause and the result that tells of it.
        (done(until=FailoverStep.STOP), True),
        ([*done(until=FailoverStep.STOP), result(FailoverStep.STOP, "blocked")], True),
        # Sent back by the first look behind the pause, or by a later one; and blocked there again.
        ([*done(until=FailoverStep.STOP), back(FailoverStep.PRODUCERS)], True),
        ([*done(until=FailoverStep.COMMIT), back(FailoverStep.PRODUCERS)], True),
        ([*done(until=FailoverStep.COMMIT), replace(result(FailoverStep.CATCH_UP, "blocked"), repeats=1)], True),
    ],
)
def test_the_plan_before_may_have_paused_the_flow(results: list[StepResult], paused: bool) -> None:
    """Behind its catch-up, whatever has been dropped since; another one between them that did nothing hides nothing."""
    assert is_paused_before(history((plan(1), results)), NEW) == paused
    assert is_paused_before(history((plan(1), results), (plan(2), done(until=FailoverStep.PRODUCERS))), NEW) == paused


def test_a_failback_lifts_the_pause() -> None:
    """Once it is finished; until then it keeps the flow paused itself."""
    moved, moves_back = (plan(1), done()), plan(2, "failback")
    assert not is_paused_before(history(moved, (moves_back, done())), NEW)
    assert is_paused_before(history(moved, (moves_back, done(until=FailoverStep.REDIRECT))), NEW)
    assert is_paused_before(history(moved, (moves_back, done(until=FailoverStep.CHECK))), NEW)
    assert not is_paused_before(history(), NEW)
