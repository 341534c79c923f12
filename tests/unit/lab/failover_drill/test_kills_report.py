"""The report of kills: every group processed every record once, or which group did not."""

from __future__ import annotations

from mirror_ray.failover.plan import FailoverStep
from mirror_ray.lab.failover_drill.drill_report import Kill, KillSettings, KillsOutcome, group_differences, kills_report

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
