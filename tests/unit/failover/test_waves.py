"""Which groups and topics a plan moves, by what plans before it have moved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from mirror_ray.failover.plan import FailoverOptions, FailoverPlan, FailoverStep, Kind, StepResult
from mirror_ray.failover.wave_survey import writers_of, written_since
from mirror_ray.failover.waves import away, moved_by, scope_of, shown, topics_to_resume
from mirror_ray.groups.translated_offset import TranslatedOffset
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.names import TopicPartition
from tests.support.factories import acl, translated_offset


@dataclass
class History:
    """Plans that are made one after the other."""

    made: list[FailoverPlan] = field(default_factory=list)
    moved: dict[str, dict[str, list[TranslatedOffset]]] = field(default_factory=dict)

    def plans(self) -> list[FailoverPlan]:
        return self.made

    def offsets(self, plan: str) -> dict[str, list[TranslatedOffset]]:
        return self.moved.get(plan, {})

    def add(self, kind: Kind, *groups: str, paused: tuple[str, ...] = (), over: bool = True, **options: Any) -> str:
        """Returns the plan's id."""
        plan = FailoverPlan(
            id=f"{kind}-{len(self.made)}",
            kind=kind,
            flow="A->B",
            began_ms=len(self.made),
            options=FailoverOptions(**options),
        )
        for step in plan.steps if over else plan.steps[:-1]:
            figures = {"paused": list(paused)} if step == FailoverStep.STOP and paused else {}
            plan = plan.after(
                StepResult(step=step, outcome="done", summary="", figures=figures, began_ms=0, ended_ms=1)
            )
        self.made.append(plan)
        place = translated_offset(TopicPartition("t", 0), 1, TopicPartition("A.t", 0), 1)
        self.moved[plan.id] = {group: [place] for group in groups}
        return plan.id


def test_waves_are_away_until_they_come_back() -> None:
    """Each alone, or all together; a plan that is not finished has moved nothing yet."""
    history = History()
    first = history.add("failover", "a", paused=("t",), groups=("a",), topics=("t",))
    second = history.add("failover", "b", groups=("b",))
    history.add("failover", "c", groups=("c",), over=False)
    assert [plan.id for plan in away(history)] == [first, second]
    assert set(moved_by(history, FailoverOptions(), "A->B")) == {"a", "b"}
    assert set(moved_by(history, FailoverOptions(wave=second), "A->B")) == {"b"}
    history.add("failback", "a", wave=first)
    assert [plan.id for plan in away(history)] == [second]
    with pytest.raises(ConfigError, match=f"no wave {first} .*away are: {second}"):
        moved_by(history, FailoverOptions(wave=first), "A->B")
    history.add("failback")
    assert away(history) == []


def test_a_wave_moves_what_it_names() -> None:
    """Groups and topics by patterns; one without groups moves producers alone."""
    scope = scope_of(History(), "failover", FailoverOptions(groups=("bill.*",), topics=("orders",)))
    assert [scope.moves(group) for group in ("billing", "mail")] == [True, False]
    assert [scope.leaves(topic) for topic in ("orders", "orders-2")] == [True, False]
    scope = scope_of(History(), "failover", FailoverOptions(topics=("orders",)))
    assert (scope.moves("billing"), scope.leaves("orders")) == (False, True)
    scope = scope_of(History(), "failover", FailoverOptions(groups=("billing",)))
    assert (scope.moves("billing"), scope.leaves("orders")) == (True, False)


def test_a_failover_of_the_rest_leaves_what_is_away() -> None:
    """And a wave comes back with what it took, whatever its patterns fit by now."""
    history = History()
    first = history.add("failover", "a", paused=("t",), groups=("a.*",), topics=("t.*",))
    rest = scope_of(history, "failover", FailoverOptions())
    assert [rest.moves(group) for group in ("a", "a2", "b")] == [False, True, True]
    assert [rest.leaves(topic) for topic in ("t", "t2")] == [False, True]
    back = scope_of(history, "failback", FailoverOptions(wave=first))
    assert [back.moves(group) for group in ("a", "a2")] == [True, False]
    assert [back.leaves(topic) for topic in ("t", "t2")] == [True, False]
    assert topics_to_resume(history, back) == ["t"]
    history.add("failover", "b", paused=("u",), groups=("b",), topics=("u",))
    whole = scope_of(history, "failback", FailoverOptions())
    assert (whole.is_wave, whole.moves("x"), whole.leaves("x")) == (False, True, True)
    assert topics_to_resume(history, whole) == ["t", "u"]


def test_waves_in_a_table() -> None:
    """Nothing for a plan of everything."""
    assert shown(FailoverOptions()) == ""
    assert shown(FailoverOptions(groups=("a", "b"), topics=("t",))) == "groups a, b; topics t"
    assert shown(FailoverOptions(wave="failover-1")) == "back failover-1"


def test_who_may_write() -> None:
    """By ACLs of a topic, of a prefix, or of all; not by those that deny, or that let read."""
    acls = [
        acl("orders", "WRITE", principal="User:a"),
        acl("ord", "ALL", principal="User:b", pattern="PREFIXED"),
        acl("*", "WRITE", principal="User:c"),
        acl("orders", "READ", principal="User:d"),
        acl("orders", "WRITE", principal="User:e", permission="DENY"),
        acl("other", "WRITE", principal="User:f"),
    ]
    assert writers_of(["orders"], acls) == ["User:a", "User:b", "User:c"]


def test_what_was_written_behind_a_copy() -> None:
    """By topic; a partition of which nothing is known counts as untouched."""
    one, two, other = (TopicPartition(*at) for at in (("t", 0), ("t", 1), ("u", 0)))
    assert written_since({one: 12, two: 5, other: 9}, {one: 10, two: 5}) == {"t": 2}
