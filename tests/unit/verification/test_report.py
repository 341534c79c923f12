"""A partition that does not go on is not equal, and what differs comes first."""

from __future__ import annotations

import pytest

from mirror_ray.verification.difference import Difference
from mirror_ray.verification.report import (
    CheckedRecords,
    Halt,
    Outcome,
    PartitionVerdict,
    UncomparedAccount,
    VerifyReport,
)
from mirror_ray.verification.topic_schemas import DifferentSchema, TopicSchemas

EXTRA = Difference("extra", 3, 3, producer_id=99)


def verdict(
    checked: CheckedRecords, halt: Halt | None = None, account: UncomparedAccount | None = None
) -> PartitionVerdict:
    """Of one partition."""
    return PartitionVerdict(
        topic="t", partition=0, target_topic="A.t", checked=checked, halt=halt, account=account or UncomparedAccount()
    )


@pytest.mark.parametrize(
    ("checked", "outcome"),
    [
        (CheckedRecords(), "paused"),
        (CheckedRecords(differences=[Difference("extra", 3, 3, gap="known")]), "paused"),
        (CheckedRecords(differences=[EXTRA]), "differs"),
        (CheckedRecords(reason="why"), "not_checked"),
    ],
)
def test_paused(checked: CheckedRecords, outcome: Outcome) -> None:
    """Its reason is told with whatever else is."""
    found = verdict(checked, Halt("paused", "an operator paused it"))
    assert found.outcome == outcome
    assert found.text.endswith("paused: an operator paused it")
    assert (found.plain()["halted"], found.plain()["halted_reason"]) == ("paused", "an operator paused it")
    assert not VerifyReport(flow="A->B", sample=1, partitions=[found]).equal


def test_the_worst_one() -> None:
    """Stopped is worse than paused, and both are worse than what gaps account for."""
    stopped, paused = (verdict(CheckedRecords(), Halt(state, "why")) for state in ("stopped", "paused"))
    explained = verdict(CheckedRecords(differences=[Difference("extra", 3, 3, gap="known")]))
    assert VerifyReport(flow="A->B", sample=1, partitions=[explained, paused, stopped]).outcome == "stopped"
    assert VerifyReport(flow="A->B", sample=1, partitions=[explained, paused]).outcome == "paused"


def test_schemas_count_as_records_do() -> None:
    """Where they were compared; else the report says so."""
    equal = verdict(CheckedRecords())
    for schemas, outcome in (
        (TopicSchemas(topic="t", target_topic="A.t", met=2, unknown=[3]), "equal"),
        (TopicSchemas(topic="t", target_topic="A.t", met=1, reasons=("why",)), "not_checked"),
        (TopicSchemas(topic="t", target_topic="A.t", met=1, missing=[DifferentSchema(1, 1)]), "differs"),
    ):
        report = VerifyReport(flow="A->B", sample=1, partitions=[equal], schemas=[schemas])
        assert (report.outcome, report.plain()["schemas"][0]["outcome"]) == (outcome, outcome)
    assert VerifyReport(flow="A->B", sample=1, partitions=[equal]).plain()["schemas"] is None


def test_many_schemas_are_told_by_their_number() -> None:
    """The first of them one by one; in JSON all."""
    missing = [DifferentSchema(number, number) for number in range(30)]
    found = TopicSchemas(topic="t", target_topic="A.t", met=60, missing=missing, unknown=list(range(30, 60)))
    sentences = list(found.sentences)
    assert (len(sentences), len(found.plain()["missing"])) == (22, 30)
    assert sentences[20] == "10 more schemas are missing or different on the target"
    assert "id 49 and 10 more" in sentences[21]


def test_numbers_are_told() -> None:
    """In the report, and those that are not 0 as notes."""
    found = verdict(CheckedRecords(notes=("one",)), account=UncomparedAccount(not_copied=1234, foreign=2))
    assert found.notes == (
        "one",
        "1,234 source offsets are not copied yet",
        "2 records on the target are by producers that are not this flow's",
    )
    assert (found.plain()["not_copied"], found.plain()["foreign"], found.plain()["in_flight"]) == (1234, 2, 0)
    assert VerifyReport(flow="A->B", sample=1, partitions=[found, found]).plain()["not_copied"] == 2468


def test_who_wrote_it() -> None:
    """Where that is not the flow."""
    text = verdict(CheckedRecords(differences=[EXTRA])).text
    assert text.endswith("is not on the source, at source offset 3; producer 99 wrote it, which is none of the flow's")
