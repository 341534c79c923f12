"""What of two registries is drift, and what the plan says of them."""

from __future__ import annotations

from dataclasses import replace

from mirror_ray.registry.comparison import Conflict, Found, Missing
from mirror_ray.registry.schema import Subject
from mirror_ray.registry.survey import (
    IdsOutlook,
    Refused,
    SchemaSurvey,
    StrayId,
    SubjectLevels,
    SurveyedVersion,
    Verdict,
)
from mirror_ray.topics.drift import Drift, Remedies
from mirror_ray.topics.schema_drift import find_schema_drift
from mirror_ray.topics.schema_plan import plan_schemas
from tests.unit.registry.test_survey import version


def surveyed(name: str, verdict: Verdict, number: int = 1, *, deleted: bool = False) -> SurveyedVersion:
    """A version of ``name``, which is ``A.name`` on the target."""
    source = version(name, number, schema_id=7, deleted=deleted)
    return SurveyedVersion(source=source, target=Subject(".", f"A.{name}"), verdict=verdict)


THERE = Found(version("A.there", 3))
LEVELS = SubjectLevels(source=Subject(".", "a"), target=Subject(".", "A.a"), on_source="FULL", on_target="NONE")
SURVEY = SchemaSurvey(
    ids=IdsOutlook(way="translated", why="set"),
    versions=[
        surveyed("missing", Missing()),
        surveyed("missing", Missing(), 2),
        surveyed("other", Conflict("delete it")),
        surveyed("circle", Refused("in a circle")),
        surveyed("there", THERE),
        replace(surveyed("there", THERE, 2, deleted=True), deleted_on="source"),
        replace(surveyed("there", THERE, 3), deleted_on="target"),
    ],
    levels=[LEVELS, replace(LEVELS, on_target="FULL"), replace(LEVELS, on_source=None)],
    strays=[StrayId(source_id=7, target_id=2, now="none"), StrayId(source_id=8, target_id=3, now="another")],
)


def test_each_difference_says_what_to_do() -> None:
    """What is as it should be is none; levels alone have a remedy."""
    remedies = Remedies()
    findings = find_schema_drift(SURVEY, remedies)
    assert {(one.kind, one.remote_topic) for one in findings} == {("schema", "-")}
    assert [(one.what, one.expected, one.found) for one in findings] == [
        ("A.missing", "missing version 1, id 7", None),
        ("A.missing", "missing version 2, id 7", None),
        ("A.other", "other version 1, id 7", "something else"),
        ("A.circle", "circle version 1, id 7", None),
        ("A.there version 3", "soft-deleted", "there"),
        ("A.there version 3", "there", "soft-deleted"),
        ("compatibility of A.a", "FULL", "NONE"),
        ("id 2", "the schema of id 7 on the source", "no schema"),
        ("id 3", "the schema of id 8 on the source", "another schema"),
    ]
    for finding, part in zip(
        findings,
        (
            *("the running flow registers it",) * 2,
            *("delete it", "in a circle", "the running flow soft-deletes it", "register it there again"),
            *("the running flow sets it", "restore the registry's latest state", "restore"),
        ),
        strict=True,
    ):
        assert part in (finding.advice or "")
    assert [one.remedy for one in findings if one.remedy] == ["set FULL"]
    assert remedies.levels == [LEVELS]
    assert remedies
    left = Drift(findings=findings, remedies=remedies).without({"schema"})
    assert (left.findings, bool(left.remedies)) == ((), False)


def test_the_plan_counts_them() -> None:
    """And has a sentence for each that stays away."""
    plan = plan_schemas(SURVEY)
    assert (plan.ids, plan.ids_why, plan.subjects, plan.versions) == ("translated", "set", 4, 7)
    assert (plan.there, plan.to_register, plan.to_register_subjects) == (3, 2, 1)
    assert (plan.deleted, plan.deleted_on_one_side) == (1, 2)
    assert plan.refused[:2] == ("schema other version 1: delete it", "schema circle version 1: in a circle")
    assert [text[:28] for text in plan.refused[2:]] == ["id 7 on the source became id", "id 8 on the source became id"]
