"""A plan as its state machine, and what the audit topic keeps of it: taken up from any step, and none done twice."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.failover.audit_topic import FailoverHistory, offset_records
from mirror_ray.failover.plan import STEPS, FailoverOptions, FailoverPlan, FailoverStep, Outcome, StepResult
from mirror_ray.failover.run import still_due
from mirror_ray.model.names import TopicPartition
from tests.support.factories import translated_offset

#: What each try of the next step comes to: a result that is written, or a break before that.
TRIES = st.lists(st.sampled_from(["done", "skipped", "blocked", "lost"]), max_size=60)


def new_plan(name: str = "failover-1", began_ms: int = 1) -> FailoverPlan:
    """A plan that was just begun."""
    return FailoverPlan(id=name, kind="failover", flow="A->B", began_ms=began_ms, options=FailoverOptions(force=True))


def result(step: FailoverStep, outcome: Outcome, at_ms: int = 5) -> StepResult:
    """What came of a step."""
    return StepResult(step=step, outcome=outcome, summary="so", figures={"lag": 1}, began_ms=at_ms - 1, ended_ms=at_ms)


def written(plan: FailoverPlan, results: Iterable[StepResult]) -> list[tuple[bytes, bytes]]:
    """The records of the audit topic, before it is compacted."""
    steps = [({"plan": plan.id, "step": result.step}, asdict(result)) for result in results]
    return encoded([({"plan": plan.id}, plan.head()), *steps])


def encoded(records: Iterable[tuple[object, object]]) -> list[tuple[bytes, bytes]]:
    """As they are in the topic."""
    return [(json.dumps(key).encode(), json.dumps(value).encode()) for key, value in records]


def read_plan(records: Iterable[tuple[bytes, bytes]]) -> FailoverPlan:
    """The only one of these records."""
    (plan,) = read(records).plans()
    return plan


def read(records: Iterable[tuple[bytes, bytes]]) -> FailoverHistory:
    """The history of these records."""
    history = FailoverHistory()
    for key, value in records:
        history.apply(key, value)
    return history


@given(TRIES)
def test_a_plan_that_breaks_off_anywhere_is_taken_up_there(tries: list[str]) -> None:
    """Steps are tried in their order, one that is over never again, whatever was lost, blocked or compacted between."""
    topic: list[StepResult] = []
    over: list[FailoverStep] = []
    for outcome in tries:
        plan = read_plan(written(new_plan(), topic))
        step = plan.next_step
        if step is None:
            break
        assert step == STEPS[len(over)]
        if outcome == "lost":
            continue
        topic.append(result(step, outcome))  # type: ignore[arg-type]
        plan = plan.after(topic[-1])
        if outcome != "blocked":
            over.append(step)
    assert over == list(STEPS[: len(over)])
    plan = read_plan(written(new_plan(), topic))
    assert plan == read_plan(dict(written(new_plan(), topic)).items())
    assert plan.finished == (len(over) == len(STEPS))


@given(st.lists(st.sampled_from(["done", "blocked", "lost", *STEPS]), max_size=60))
def test_a_plan_that_goes_back_does_all_again_from_there(tries: list[str]) -> None:
    """It is finished only when each step was over after all that went back before it; compaction changes nothing."""
    topic: list[StepResult] = []
    #: What is over, and has not been undone since.
    over: list[FailoverStep] = []
    for outcome in tries:
        plan = read_plan(written(new_plan(), topic))
        if (step := plan.next_step) is None:
            break
        assert step == STEPS[len(over)]
        if outcome in {"done", "blocked"}:
            made = replace(result(step, outcome), repeats=plan.repeats)  # type: ignore[arg-type]
            over += [step] if outcome == "done" else []
        elif outcome != "lost" and STEPS.index(FailoverStep(outcome)) < len(over):
            made = replace(result(FailoverStep(outcome), "blocked"), repeats=plan.repeats + 1)
            del over[STEPS.index(FailoverStep(outcome)) :]
        else:
            continue
        topic.append(made)
        assert plan.after(made).next_step == (STEPS[len(over)] if len(over) < len(STEPS) else None)
    plan = read_plan(written(new_plan(), topic))
    assert plan == read_plan(dict(written(new_plan(), topic)).items())
    assert [step for step in STEPS if plan.is_over(step)] == over
    assert plan.finished == (len(over) == len(STEPS))


def test_what_an_earlier_version_wrote_counts() -> None:
    """It knew of no going back."""
    said = asdict(result(FailoverStep.DETECT, "done"))
    del said["repeats"]
    plan = read_plan([*written(new_plan(), []), *encoded([({"plan": "failover-1", "step": "detect"}, said)])])
    assert plan.next_step == FailoverStep.CHECK


def test_what_a_step_came_to_last_is_known_though_the_plan_went_back() -> None:
    """Which groups `commit` has left decides what the next try does with them."""
    done = [result(step, "done") for step in STEPS[: STEPS.index(FailoverStep.VERIFY)]]
    back = replace(result(FailoverStep.PRODUCERS, "blocked"), repeats=1)
    history = read(written(new_plan(), [*done, back]))
    (plan,) = history.plans()
    assert list(plan.results) == [FailoverStep.DETECT, FailoverStep.CHECK, FailoverStep.PRODUCERS]
    assert (plan.state, plan.next_step) == ("blocked in producers", FailoverStep.PRODUCERS)
    assert history.last_try(plan.id, FailoverStep.COMMIT) == done[-1]
    assert history.last_try("another", FailoverStep.COMMIT) is None


def test_who_came_after_the_last_commit_was_moved_by_none() -> None:
    """Until the next try of `commit`; what the topic says of it outlives kills, compaction and groups that leave."""
    place = translated_offset(TopicPartition("t", 0), 1, TopicPartition("u", 0), 1)

    def placed(group: str, since: int, count: int = 1) -> list[tuple[bytes, bytes]]:
        return encoded(offset_records("failover-1", group, [place] * count, since))

    records = [*placed("first", 0), *placed("left", 0), *placed("gone", 2), *placed("new", 1), *placed("long", 2, 2001)]
    history = read([*records, *placed("gone", 0, 0)])
    since = history.since("failover-1")
    assert since == {"first": 0, "left": 0, "new": 1, "long": 2}
    assert len(history.offsets("failover-1")["long"]) == 2001
    tried = replace(result(FailoverStep.COMMIT, "blocked"), figures={"active": ["left"]})
    assert still_due(None, since) is None
    assert still_due(result(FailoverStep.COMMIT, "blocked"), since) is None
    assert still_due(tried, since) == {"left", "new", "long"}
    assert still_due(replace(tried, repeats=1), since) == {"left", "long"}
    assert still_due(replace(tried, repeats=2), since) == {"left"}


@given(st.sampled_from(STEPS), st.sampled_from(STEPS))
def test_only_the_next_step_has_a_result(reached: FailoverStep, step: FailoverStep) -> None:
    """Neither a step that is over, nor one that would leave another out."""
    plan = new_plan()
    for done in STEPS[: STEPS.index(reached)]:
        plan = plan.after(result(done, "done"))
    if step == reached:
        assert plan.after(result(step, "blocked")).next_step == step
    else:
        with pytest.raises(ValueError, match="is not the next step"):
            plan.after(result(step, "done"))


def test_its_state_in_words() -> None:
    """Where it broke off, what blocks it, that it is over."""
    plan = new_plan()
    assert plan.state == "broke off before the end of detect"
    blocked = plan.after(result(FailoverStep.DETECT, "blocked", 9))
    assert (blocked.state, blocked.last_ms) == ("blocked in detect", 9)
    assert replace(plan, abandoned=True).state == "abandoned"
    for step in STEPS:
        plan = plan.after(result(step, "skipped"))
    assert plan.state == "finished"


def test_a_source_that_was_gone_stays_gone() -> None:
    """All else is as the order says that takes the plan up."""
    begun = FailoverOptions(source_is_gone=True, force=True)
    assert begun.joined(FailoverOptions(skip_active=True)) == FailoverOptions(source_is_gone=True, skip_active=True)


def test_the_book_knows_plans_by_time_and_places_by_group() -> None:
    """Records of others, and of later versions, are passed over."""
    orders, remote = TopicPartition("orders", 1), TopicPartition("A.orders", 1)
    known = translated_offset(orders, 7, remote, 5, exact=False, reason="cleaned", metadata="m")
    unknown = translated_offset(orders, None, None, None, exact=False, reason="cleaned", metadata="m")
    records = [*written(new_plan("b", 2), []), *written(new_plan("a", 1), [])]
    records += encoded([({"plan": "a", "group": "g"}, [known.to_json(), unknown.to_json()])])
    strange = [(b"x", b"y"), (b'{"plan": "c"}', b"{}"), (b'{"plan": "a", "step": "dance"}', b"{}"), (b"[]", b"1")]
    history = read(records + strange)
    assert [plan.id for plan in history.plans()] == ["a", "b"]
    assert history.offsets("a") == {"g": [known, unknown]}
    assert history.offsets("b") == {}


@pytest.mark.parametrize("count", [1, 2000, 2001, 25_000])
def test_any_number_of_places_fits_into_the_topic(count: int) -> None:
    """Of one group, with names as long as they may be: no record, even uncompressed, is above the brokers' default."""
    topic = "t" * 200
    places = [
        translated_offset(
            TopicPartition(topic, number), 10**12 + number, TopicPartition(f"A.{topic}", number), 10**12 + number
        )
        for number in range(count)
    ]
    records, fewer = (encoded(offset_records("p", "g", some)) for some in (places, places[:1]))
    assert max(len(value) for _, value in records) < 1 << 20
    # Compaction leaves the newest record of each key, at its offset.
    again = dict([*fewer, *records])
    assert read([(key, again[key]) for key, _ in records]).offsets("p") == {"g": places}
    assert read([*records, *fewer]).offsets("p") == {"g": places[:1]}
    assert read([*records, (fewer[0][0], b"[]")]).offsets("p") == {}
