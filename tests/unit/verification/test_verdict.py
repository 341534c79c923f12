"""A partition that does not go on is not equal, and what differs comes first."""

from __future__ import annotations

import pytest

from mirror_ray.verification.account import Account, Halt
from mirror_ray.verification.finding import Finding
from mirror_ray.verification.verdict import Checked, Outcome, PartitionVerdict, Report

EXTRA = Finding("extra", 3, 3, producer_id=99)


def verdict(checked: Checked, halt: Halt | None = None, account: Account | None = None) -> PartitionVerdict:
    """Of one partition."""
    return PartitionVerdict(
        topic="t", partition=0, target_topic="A.t", checked=checked, halt=halt, account=account or Account()
    )


@pytest.mark.parametrize(
    ("checked", "outcome"),
    [
        (Checked(), "paused"),
        (Checked(findings=[Finding("extra", 3, 3, gap="known")]), "paused"),
        (Checked(findings=[EXTRA]), "differs"),
        (Checked(reason="why"), "not_checked"),
    ],
)
def test_paused(checked: Checked, outcome: Outcome) -> None:
    """Its reason is told with whatever else is."""
    found = verdict(checked, Halt("paused", "an operator paused it"))
    assert found.outcome == outcome
    assert found.text.endswith("paused: an operator paused it")
    assert (found.plain()["halted"], found.plain()["halted_reason"]) == ("paused", "an operator paused it")
    assert not Report(flow="A->B", sample=1, partitions=[found]).equal


def test_the_worst_one() -> None:
    """Stopped is worse than paused, and both are worse than what gaps account for."""
    stopped, paused = (verdict(Checked(), Halt(state, "why")) for state in ("stopped", "paused"))
    explained = verdict(Checked(findings=[Finding("extra", 3, 3, gap="known")]))
    assert Report(flow="A->B", sample=1, partitions=[explained, paused, stopped]).outcome == "stopped"
    assert Report(flow="A->B", sample=1, partitions=[explained, paused]).outcome == "paused"


def test_numbers_are_told() -> None:
    """In the report, and those that are not 0 as notes."""
    found = verdict(Checked(notes=("one",)), account=Account(not_copied=1234, foreign=2))
    assert found.notes == (
        "one",
        "1,234 source offsets are not copied yet",
        "2 records on the target are by producers that are not this flow's",
    )
    assert (found.plain()["not_copied"], found.plain()["foreign"], found.plain()["in_flight"]) == (1234, 2, 0)
    assert Report(flow="A->B", sample=1, partitions=[found, found]).plain()["not_copied"] == 2468


def test_who_wrote_it() -> None:
    """Where that is not the flow."""
    text = verdict(Checked(findings=[EXTRA])).text
    assert text.endswith("is not on the source, at source offset 3; producer 99 wrote it, which is none of the flow's")
