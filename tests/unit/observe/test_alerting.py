"""Which problems a system has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.config.settings import AlertSettings
from mirror_ray.model.assignment import PartitionState
from mirror_ray.observe.alerting import MOST_PROBLEMS, AlertFacts, ReplicatorExit, duration, judge
from mirror_ray.observe.events import GapStatus
from mirror_ray.observe.groups import FlowGroups
from mirror_ray.observe.problems import PROBLEM_KINDS
from mirror_ray.observe.status import FlowStatus, PartitionStatus
from tests.support.factories import flow_schemas, flow_status, gap_status, partition_status

_NOW_MS = 1_000_000_000
_LIMITS = AlertSettings()
_FLOW = flow_status(groups=FlowGroups(groups=1, untranslated=0, unsynced=0, round_s=0.1, problem=None, age_s=1.0))


def _partition(number: int, state: PartitionState = "copying", reason: str | None = None) -> PartitionStatus:
    return partition_status(number, state=state, reason=reason)


def _gap(age_s: float) -> GapStatus:
    return gap_status(time_ms=_NOW_MS - int(age_s * 1000))


def _facts(flow: FlowStatus = _FLOW, **changed: Any) -> AlertFacts:
    facts = AlertFacts(
        now_ms=_NOW_MS,
        started_ms=_NOW_MS - 3_600_000,
        flows=(flow,),
        partitions={"A->B": [_partition(number) for number in range(3)]},
        heartbeats=frozenset({"A->B"}),
    )
    return replace(facts, **changed)


def _kinds(facts: AlertFacts) -> list[str]:
    return [problem.kind for problem in judge(facts, _LIMITS)]


def test_all_is_well() -> None:
    """Then nothing is said."""
    assert judge(_facts(), _LIMITS) == ()


def test_each_kind_has_what_it_is_seen_by() -> None:
    """All but the coordinator's absence, which it can't report of itself."""
    schemas = flow_schemas(problems=("A.orders-value on the target has other schemas",))
    late = replace(_FLOW, lag_records=9, lag_seconds=301.0, heartbeat_age_s=31.0, schemas=schemas)
    stale = replace(late, groups=FlowGroups(groups=1, untranslated=0, unsynced=0, round_s=1, problem=None, age_s=61.0))
    facts = _facts(
        stale,
        partitions={"A->B": [_partition(0, "stopped", "TOPIC_AUTHORIZATION_FAILED")]},
        gaps=[_gap(10)],
        deaths=[
            ReplicatorExit(_NOW_MS - 5_000, "r:1", "SIGKILL"),
            *(ReplicatorExit(_NOW_MS - age, "r:2", "OOM") for age in (9_000, 8_000, 7_000)),
        ],
        missing={"r:3": "no room"},
        drift={"A->B": ["configs can't be kept in step: denied"]},
        down={"A->B": "cluster B can't be reached"},
        growing=frozenset({"A->B"}),
        audit={"A->B": "the audit log can't be written"},
    )
    assert sorted(_kinds(facts)) == sorted(set(PROBLEM_KINDS) - {"coordinator_absent"})


def test_lag_of_a_closed_window_is_no_fault() -> None:
    """Not while it is closed, and not until it was caught up with since; what is wrong besides is."""
    late = replace(_FLOW, lag_records=9, lag_seconds=301.0, heartbeat_age_s=31.0)
    assert _kinds(_facts(replace(late, state="paused", why="outside limits.windows"))) == []
    assert _kinds(_facts(late, catching_up=frozenset({"A->B"}))) == ["heartbeat_stale"]
    assert sorted(_kinds(_facts(late, catching_up=frozenset({"B->A"})))) == ["heartbeat_stale", "lag_high"]


def test_critical_ones_come_first() -> None:
    """Whoever reads one line reads the worst."""
    facts = _facts(
        replace(_FLOW, lag_seconds=301.0), partitions={"A->B": [_partition(0, "refused", "records of others")]}
    )
    assert [problem.severity for problem in judge(facts, _LIMITS)] == ["critical", "warning"]


def test_partitions_that_stand_still_for_one_reason_are_one_problem() -> None:
    """With the topic and the first numbers; a topic that is refused is named as a whole."""
    stopped = [_partition(number, "stopped", "denied") for number in range(50)]
    (problem,) = judge(_facts(partitions={"A->B": stopped}), _LIMITS)
    assert (problem.subject, problem.text) == ("orders-0,1,2 and 47 more", "stopped: denied")
    refused = [_partition(number, "refused", "filled by others") for number in range(3)]
    (problem,) = judge(_facts(partitions={"A->B": refused}), _LIMITS)
    assert (problem.subject, problem.text) == ("orders", "refused: filled by others")


def test_the_limits_are_the_settings() -> None:
    """Just within is well, just beyond is not."""
    for seconds, kinds in ((300.0, []), (300.1, ["lag_high"])):
        assert _kinds(_facts(replace(_FLOW, lag_seconds=seconds))) == kinds
    for age_s, kinds in ((30.0, []), (30.1, ["heartbeat_stale"])):
        assert _kinds(_facts(replace(_FLOW, heartbeat_age_s=age_s))) == kinds
    for age_s, kinds in ((3600, ["gap_recorded"]), (3601, [])):
        assert _kinds(_facts(gaps=[_gap(age_s)])) == kinds


def test_no_heartbeat_yet_is_none_missing_at_the_start() -> None:
    """But later it is; and where none are emitted it never is."""
    silent = replace(_FLOW, heartbeat_age_s=None)
    assert _kinds(_facts(silent)) == ["heartbeat_stale"]
    assert _kinds(_facts(silent, started_ms=_NOW_MS - 5_000)) == []
    assert _kinds(_facts(silent, heartbeats=frozenset())) == []


def test_a_paused_flow_is_not_late() -> None:
    """Somebody wanted that."""
    assert _kinds(_facts(replace(_FLOW, state="paused", lag_seconds=9999.0, heartbeat_age_s=None))) == []


def test_groups_that_wait_say_why_at_once() -> None:
    """A reason that is known is reported before the limit."""
    waiting = FlowGroups(groups=0, untranslated=0, unsynced=0, round_s=None, problem="denied", age_s=2.0)
    (problem,) = judge(_facts(replace(_FLOW, groups=waiting)), _LIMITS)
    assert (problem.kind, problem.text) == ("checkpoint_stale", "consumer groups wait: denied")


def test_schemas_that_are_not_mirrored_say_which_or_why_none() -> None:
    """Each with the next step of its own; where all are mirrored nothing is said."""
    assert _kinds(_facts(replace(_FLOW, schemas=flow_schemas()))) == []
    failing = flow_schemas(problem="registry B does not answer", problems=("A.orders-value has other schemas",))
    found = judge(_facts(replace(_FLOW, schemas=failing)), _LIMITS)
    assert {problem.kind for problem in found} == {"schemas_failing"}
    assert [problem.text for problem in found] == [
        "schemas are not mirrored: registry B does not answer",
        "A.orders-value has other schemas",
    ]
    assert ["mirror-ray schemas 'A->B' --problems" in problem.remedy for problem in found] == [False, True]


def test_a_death_is_shown_for_a_while_and_several_are_a_loop() -> None:
    """Three within ten minutes by default."""
    for age_s, kinds in ((299, ["replicator_died"]), (301, [])):
        assert _kinds(_facts(deaths=[ReplicatorExit(_NOW_MS - age_s * 1000, "r:1", "SIGKILL")])) == kinds
    thrice = [ReplicatorExit(_NOW_MS - age_s * 1000, "r:1", "OOM") for age_s in (500, 400, 350)]
    assert _kinds(_facts(deaths=thrice)) == ["crash_loop"]
    assert _kinds(_facts(deaths=thrice[1:])) == []


@given(st.lists(st.text(max_size=1000), max_size=300, unique=True))
def test_there_is_an_end_to_them(reasons: list[str]) -> None:
    """A series each: neither their number nor their length grows without bound; each is one line."""
    stopped = [_partition(number, "stopped", reason) for number, reason in enumerate(reasons)]
    problems = judge(_facts(partitions={"A->B": stopped}), _LIMITS)
    assert len(problems) <= MOST_PROBLEMS
    assert all(len(problem.text) <= 400 and "\n" not in problem.text for problem in problems)


@given(st.floats(300.5, 1e6), st.floats(300.5, 1e6))
def test_texts_do_not_move_with_the_figures(first_s: float, second_s: float) -> None:
    """They are labels: another text is another series, and another alert."""
    one, other = (judge(_facts(replace(_FLOW, lag_seconds=seconds)), _LIMITS) for seconds in (first_s, second_s))
    assert one == other


def test_durations_read_well() -> None:
    """In the unit that people would say."""
    assert [duration(seconds) for seconds in (0.5, 30, 90, 300, 7200)] == ["0.5 s", "30 s", "90 s", "5 min", "2 h"]
