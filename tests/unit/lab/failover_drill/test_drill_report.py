"""What failover drills are judged by, under traffic and under kills."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirror_ray.failover.plan import FailoverStep
from mirror_ray.lab.failover_drill.drill_report import (
    DrillOutcome,
    DrillSettings,
    GroupOutcome,
    Kill,
    KillSettings,
    KillsOutcome,
    drill_report,
    group_differences,
    judge_group,
    kills_report,
    lost_with_source,
)
from mirror_ray.lab.load_record import RecordId


def ids(*numbers: int) -> list[RecordId]:
    """Records of one writer."""
    return [RecordId("w", number) for number in numbers]


WELL = GroupOutcome(group="g", on_source=3, on_target=2, again=0, lost_uncopied=0, lost_copied=0, first_s=4.0)
OUTCOME = DrillOutcome(
    settings=DrillSettings(groups=1, seed=7, planned=True),
    steps=[("detect", "done", 0.5)],
    failover_s=0.5,
    groups=[WELL],
    held=5,
    rpo_records=0,
    rpo_s=0.0,
    duration_s=60.0,
)


def test_each_record_is_processed_again_lost_with_the_source_or_passed_over() -> None:
    """By the ids alone."""
    found = judge_group("g", (ids(1, 2, 3), ids(3, 4)), ids(1, 2, 3, 4, 5, 6), ids(1, 2, 3, 4, 5), 1.5)
    assert (found.on_source, found.on_target, found.again) == (3, 2, 1)
    assert (found.lost_uncopied, found.lost_copied) == (1, 1)


def test_rpo_counts_what_was_acknowledged_before_the_kill() -> None:
    """And is as old as the first of them."""
    acknowledged = dict(zip(ids(1, 2, 3, 4), (10.0, 11.0, 12.0, 14.0), strict=True))
    assert lost_with_source(acknowledged, ids(1), 13.0) == (2, 2.0)
    assert lost_with_source(acknowledged, ids(1, 2, 3), 13.0) == (0, 0.0)


@pytest.mark.parametrize(
    ("planned", "changed", "wrong"),
    [
        (True, {}, None),
        (True, {"again": 1}, "g: 1 records twice, 0 not at all"),
        (False, {"again": 1, "lost_uncopied": 2}, None),
        (False, {"lost_copied": 1}, "g has skipped 1 records that are on B"),
        (False, {"first_s": None}, "g has processed nothing on B"),
    ],
)
def test_what_is_guaranteed(planned: bool, changed: dict[str, Any], wrong: str | None) -> None:
    """Planned: every record once. Killed: nothing that is on the target is passed over."""
    outcome = replace(OUTCOME, settings=replace(OUTCOME.settings, planned=planned), groups=[replace(WELL, **changed)])
    assert outcome.wrong == ([] if wrong is None else [wrong])
    text = drill_report(outcome)
    assert ("**HOLDS.**" in text) == (wrong is None)
    assert wrong is None or wrong in text


def test_a_blocked_step_and_a_planned_loss_are_wrong() -> None:
    """Whatever the groups did."""
    outcome = replace(OUTCOME, steps=[("verify", "blocked", 1.0)], rpo_records=3, rpo_s=0.25)
    assert outcome.wrong == ["step verify is blocked", "3 acknowledged records are not on B"]


WANTED = [b"1", b"2", b"3"]


def test_each_record_once() -> None:
    """In any order, for records of several partitions come in any."""
    assert group_differences("g", WANTED, [b"2", b"1", b"3"]) == []
    assert group_differences("g", WANTED, [b"1", b"1", b"4"]) == [
        "g: 1 records twice, 2 not at all, 1 that are not its own"
    ]


def test_the_report() -> None:
    """The verdict, its command, and a row for each kill."""
    kills = [
        Kill(kind="failover", victim="command", step=FailoverStep.COMMIT, in_step=True, tries=2, seconds=3.21),
        Kill(kind="failback", victim="broker B", step=FailoverStep.STOP, in_step=False, tries=1, seconds=2),
    ]
    settings = KillSettings(groups=2, seed=7)
    text = kills_report(KillsOutcome(settings=settings, kills=kills, wrong=[], records=90, duration_s=12))
    assert "**HOLDS.** `mirror-ray failover 'A->B' --simulate --kills --groups 2 --seed 7` repeats it." in text
    assert "- 2 kills, 1 of them within the step" in text
    assert "| failover | command | commit | yes | 2 | 3.2 |" in text
    assert "| failback | broker B | stop | just after | 1 | 2.0 |" in text
    wrong = kills_report(KillsOutcome(settings=settings, kills=kills, wrong=["g: lost"], records=90, duration_s=12))
    assert "**DOES NOT HOLD.**" in wrong
    assert "- g: lost" in wrong


def test_a_failback_in_topics_that_keep_their_names_has_one_step_more() -> None:
    """In which something is killed, too."""
    settings = KillSettings(groups=2, seed=7, identity=True)
    assert "--kills --identity --groups 2" in settings.command
    assert FailoverStep.REVERSE in settings.steps
    assert FailoverStep.REVERSE not in settings.steps_of("failover")
    assert FailoverStep.REVERSE not in KillSettings(groups=2, seed=7).steps
