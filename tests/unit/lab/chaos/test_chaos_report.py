"""The report of a run."""

from __future__ import annotations

from dataclasses import replace

from mirror_ray.lab.chaos.chaos_report import ChaosOutcome, ChaosSettings, InjectedFault, TopicOutcome, chaos_report
from mirror_ray.lab.chaos.schedule import plan

TOPIC = TopicOutcome(
    flow="A->B",
    topic="orders",
    kind="plain",
    partitions=4,
    written=1000,
    aborted=10,
    doubtful=0,
    twice_on_source=3,
    ended_otherwise=2,
    source_records=1003,
    target_records=1003,
    differences=(),
    source_problems=(),
)
OUTCOME = ChaosOutcome(
    settings=ChaosSettings(seed=7, faults=3, forget_every_s=600.0),
    faults=tuple(InjectedFault(fault=fault, at_s=1.0, standstill_s=12.3, recovery_s=4.5) for fault in plan(7, 3)),
    topics=(TOPIC,),
    stuck=(),
    duration_s=90.0,
    machine="One machine",
)


def test_a_report_tells_the_verdict_and_how_to_repeat_it() -> None:
    """And every fault, and every topic."""
    text = chaos_report(OUTCOME)
    assert OUTCOME.equal
    assert "**EQUAL: 4 partitions, 1,003 records on the sources; nothing lost, nothing doubled, order kept.**" in text
    assert "mirror-ray chaos --faults 3 --seed 7" in text
    assert "| A->B | orders | plain | 4 | 1,000 | 10 | 0 | 3 | 2 | 1,003 | 1,003 | as it should be |" in text
    assert text.count("| 12.3 | 4.5 |") == 3
    assert "What is wrong" not in text


def test_the_command_is_told_whole() -> None:
    """What is not as it is by default, too."""
    assert ChaosSettings(seed=7, faults=3, forget_every_s=0.5).command.endswith(
        "--faults 3 --seed 7 --forget-every 0.5"
    )


PRESERVED = replace(OUTCOME, settings=replace(OUTCOME.settings, preserve_offsets=True), group_offsets=38)


def test_a_run_with_preserved_offsets_says_so() -> None:
    """In its title, its verdict and the command that repeats it."""
    text = chaos_report(PRESERVED)
    assert text.startswith("# Chaos run: 3 faults, seed 7, offsets preserved\n")
    assert "; each record and 38 offsets of groups where they are on the source; nothing lost" in text
    assert "`mirror-ray chaos --faults 3 --seed 7 --preserve-offsets`" in text
    assert "`offsets = preserve`" in text
    assert "preserve" not in chaos_report(OUTCOME)


def test_a_group_that_is_elsewhere_is_a_difference() -> None:
    """Though all records are where they should be."""
    wrong = replace(PRESERVED, group_differences=("group readers is at {0: 7} in orders, and on B at {0: 6}",))
    assert not wrong.equal
    assert wrong.verdict == (
        "DIFFERENT: 1 of 4 partitions, 1,003 records on the sources, and 38 offsets of groups are not what they "
        "should be"
    )
    assert "- group readers is at {0: 7} in orders, and on B at {0: 6}" in chaos_report(wrong)


def test_a_difference_is_told() -> None:
    """The first of them by name."""
    wrong = replace(OUTCOME, topics=(replace(TOPIC, differences=("A->B A.orders-0: record 7: twice",)),))
    assert not wrong.equal
    assert wrong.verdict.startswith("DIFFERENT: 1 of 4 partitions")
    assert "- A->B A.orders-0: record 7: twice" in chaos_report(wrong)
    assert "**wrong**" in chaos_report(wrong)


def test_what_did_not_recover_is_no_success() -> None:
    """Though nothing was compared."""
    stuck = replace(OUTCOME, topics=(), stuck=("A->B orders-0: nothing arrives",))
    assert not stuck.equal
    assert stuck.verdict.startswith("STUCK after 3 of 3 faults")
    assert "- A->B orders-0: nothing arrives" in chaos_report(stuck)


def test_a_source_that_lost_records_gives_no_verdict() -> None:
    """The copy can't be blamed for it, nor praised."""
    broken = replace(OUTCOME, topics=(replace(TOPIC, source_problems=("source A orders-0: 1 missing",)),))
    assert broken.verdict.startswith("NO VERDICT")
    assert "- source A orders-0: 1 missing" in chaos_report(broken)
