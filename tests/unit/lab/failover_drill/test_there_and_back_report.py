"""What a drill there and back is judged by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirror_ray.lab.failover_drill.there_and_back_report import (
    CHECKPOINT_WITHIN_S,
    CommandRun,
    GroupOnTheWay,
    Move,
    PhaseRecords,
    RecordsOutcome,
    ThereAndBackOutcome,
    ThereAndBackSettings,
    judge_group,
    judge_records,
    there_and_back_report,
)
from mirror_ray.lab.load_record import RecordId


def ids(*numbers: int) -> list[RecordId]:
    """Records of one writer."""
    return [RecordId("w", number) for number in numbers]


def phase(at_s: float, *numbers: int, killed_s: float | None = None) -> PhaseRecords:
    """Records that a group has all processed at one time."""
    return PhaseRecords([(record, at_s) for record in ids(*numbers)], killed_s)


RUN = CommandRun(
    round=1,
    text="failback",
    stops_in=(),
    exit_code=0,
    blocked_in="",
    seconds=4.0,
    step_s={"detect": 1.5, "reverse": 2.0},
    messages="failback-1  detect: done\nfailback-1  stop: blocked: it goes on",
)
MOVE = Move(round=1, kind="failover", killed=False, rpo_records=0, rpo_s=0.0, first_s={"g": 4.0, "h": 5.0, "i": 9.0})
GROUP = GroupOnTheWay(group="g", processed=9, again=0, unexplained=0, oldest_again_s=0.0, lost_with_source=0, lost=0)
RECORDS = RecordsOutcome(
    acknowledged=9, aborted=2, held=9, twice=0, risen=0, exported=0, both=0, lost=[], differences=[]
)
OUTCOME = ThereAndBackOutcome(
    settings=ThereAndBackSettings(rounds=1, groups=3, seed=7, planned=True, preserve_offsets=True),
    moves=[MOVE],
    commands=[RUN],
    groups=[GROUP],
    records=RECORDS,
    duration_s=42.0,
)


@pytest.mark.parametrize(
    ("stops_in", "exit_code", "blocked_in", "wrong"),
    [
        ((), 0, "", False),
        ((), 1, "stop", True),
        ((), 4, "stop", True),
        ((), 3, "", True),
        (("reverse", "producers"), 1, "producers", False),
        (("reverse", "producers"), 1, "catch-up", True),
        (("producers",), 0, "", True),
        (("producers",), 4, "producers", True),
    ],
)
def test_a_command_is_done_or_stops_where_it_has_to(
    stops_in: tuple[str, ...], exit_code: int, blocked_in: str, wrong: bool
) -> None:
    """With exit code 1, and its last message is in the report."""
    run = replace(RUN, stops_in=stops_in, exit_code=exit_code, blocked_in=blocked_in)
    assert (run.wrong is not None) == wrong
    assert run.wrong is None or "it goes on" in run.wrong


def test_a_move_is_over_when_the_last_group_works() -> None:
    """One that never does is named."""
    assert (MOVE.rto_s, MOVE.median_s, MOVE.wrong) == (9.0, 5.0, [])
    silent = replace(MOVE, first_s={"g": 4.0, "h": None})
    assert (silent.rto_s, silent.median_s) == (None, 4.0)
    assert silent.wrong == ["failover of round 1: h has processed nothing on the other side"]


def test_only_a_kill_loses_records() -> None:
    """Acknowledged ones, on the side that is left."""
    assert replace(MOVE, rpo_records=2, killed=True).wrong == []
    assert replace(MOVE, rpo_records=2).wrong == ["failover of round 1: 2 acknowledged records are not on both sides"]


def test_each_record_is_processed_once() -> None:
    """Over all phases."""
    found = judge_group("g", [phase(1, 1, 2), phase(2, 3), phase(3, 4, 5)], ids(1, 2, 3, 4, 5), ())
    assert found == replace(GROUP, processed=5)
    assert found.wrong == []


def test_records_again_behind_a_kill_are_as_old_as_the_checkpoint() -> None:
    """What came again in the phase right behind it is explained, up to a checkpoint's age."""
    found = judge_group("g", [phase(10, 1, 2, killed_s=12.0), phase(20, 2, 3)], ids(1, 2, 3), ())
    assert (found.again, found.unexplained, found.oldest_again_s, found.wrong) == (1, 0, 2.0, [])
    killed_s = 10 + CHECKPOINT_WITHIN_S + 1
    older = judge_group("g", [phase(10, 1, killed_s=killed_s), phase(50, 1)], ids(1), ())
    assert older.wrong == [f"g has gone back by {CHECKPOINT_WITHIN_S + 1:.1f} s, further than checkpoints lie"]


@pytest.mark.parametrize(
    "phases",
    [
        [phase(1, 1), phase(2, 1)],
        [phase(1, 1, 1, killed_s=2.0)],
        [phase(1, 1, killed_s=2.0), phase(3, 2), phase(4, 1)],
        [phase(1, 1, killed_s=2.0), phase(3, 1), phase(4, 1)],
    ],
)
def test_records_again_that_no_kill_explains(phases: list[PhaseRecords]) -> None:
    """Behind a clean stop, on the same side, later than in the next phase, and after that once more."""
    found = judge_group("g", phases, ids(1, 2)[: 1 + (len(phases) == 3)], ())
    assert found.unexplained == 1
    assert "g has processed 1 records again that no kill explains" in found.wrong


def test_records_that_a_group_has_nowhere_processed() -> None:
    """Those that both sides hold are lost; exported ones are lost with the source."""
    found = judge_group("g", [phase(1, 1, 4)], ids(1, 2), ids(3, 4))
    assert (found.lost, found.lost_with_source) == (1, 1)
    assert found.wrong == ["g has skipped 1 records that are on both sides"]


def test_acknowledged_records_are_there_once_or_exported() -> None:
    """And nothing else is there twice, or though it was aborted."""
    found = judge_records(ids(1, 2, 3, 4), ids(8, 9), [*ids(1, 2, 2), *ids(9)], ids(3, 2, 7), ["orders-0: missing"])
    assert (found.acknowledged, found.aborted, found.held, found.exported) == (4, 2, 4, 3)
    assert (found.twice, found.risen, found.both, found.lost) == (1, 1, 1, ids(4))
    assert found.wrong == [
        "orders-0: missing",
        "1 acknowledged records are on no side and not exported, the first is w 4",
        "1 records are there twice",
        "1 records of aborted transactions are there",
        "1 records are exported though both sides have them",
    ]
    assert judge_records(ids(1, 2), ids(9), ids(1, 2), (), []).wrong == []


def test_the_report() -> None:
    """The verdict, the command that repeats it, and a row for each move, command and group."""
    text = there_and_back_report(OUTCOME)
    command = (
        "mirror-ray failover 'A->B' --simulate --there-and-back 1 --planned --preserve-offsets --groups 3 --seed 7"
    )
    assert f"**HOLDS.** `{command}` repeats it." in text
    assert "| 1 | failover | 0 | 0.00 | 9.0 | 5.0 |" in text
    assert "| 1 | failback | 0 | 4.0 | detect 1.5, reverse 2.0 |" in text
    assert "| g | 9 | 0 | 0.0 | 0 | 0 |" in text


@pytest.mark.parametrize(
    "changed",
    [
        {"commands": [replace(RUN, exit_code=1, blocked_in="stop")]},
        {"moves": [replace(MOVE, rpo_records=1)]},
        {"groups": [replace(GROUP, lost=1)]},
        {"records": replace(RECORDS, lost=ids(1))},
    ],
)
def test_whatever_does_not_hold_is_in_the_report(changed: dict[str, Any]) -> None:
    """With its sentence."""
    outcome = replace(OUTCOME, **changed)
    text = there_and_back_report(outcome)
    assert "**DOES NOT HOLD.**" in text
    assert len(outcome.wrong) == 1
    assert f"- {outcome.wrong[0]}" in text
