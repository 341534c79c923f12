"""What operators are told of schemas, and which modes subjects get when the mirror has ended."""

from __future__ import annotations

import pytest

from mirror_ray.config.settings import FlowSettings
from mirror_ray.failover.schema_handover import import_figures, import_lines, survey_text
from mirror_ray.model.names import FlowName
from mirror_ray.registry.comparison import Comparison, Conflict, Found, Missing
from mirror_ray.registry.import_end import ImportEnd, mode_after_import
from mirror_ray.registry.registry import Mode
from mirror_ray.registry.schema import RegisteredSchema, Schema, Subject, SubjectVersion
from mirror_ray.registry.survey import IdsOutlook, SchemaSurvey, StrayId, SurveyedVersion

FLOW = FlowSettings(name=FlowName("A", "B"))
ORDERS, BILLS = Subject(".", "orders-value"), Subject(".", "bills-value")


def version(number: int, verdict: Comparison | None = None) -> SurveyedVersion:
    """One of orders; the target has it, unless it is said what became of it."""
    schema = RegisteredSchema(at=SubjectVersion(ORDERS, number), id=number, schema=Schema(kind="AVRO", text='"int"'))
    return SurveyedVersion(source=schema, target=ORDERS, verdict=verdict or Found(schema))


def test_what_the_other_registry_lacks_is_said() -> None:
    """What comes yet, what can't come, and ids that lead elsewhere."""
    ids = IdsOutlook(way="same", why="set")
    assert survey_text(SchemaSurvey(ids=ids, versions=[version(1), version(2)]))[0] == "2 of 2 versions"
    found = SchemaSurvey(
        ids=ids,
        versions=[version(1), version(2, Missing()), version(3, Conflict("it is taken"))],
        strays=[StrayId(source_id=7, target_id=8, now="none")],
    )
    text, figures = survey_text(found)
    for said in (
        "1 of 3 versions",
        "not there yet: orders-value version 2",
        "can't be there: ",
        "it is taken",
        "id 7 ",
    ):
        assert said in text
    assert figures == {
        "versions": 3,
        "there": 1,
        "missing": ["orders-value version 2"],
        "conflicts": {"orders-value version 3": "it is taken"},
        "stray_ids": [7],
    }


@pytest.mark.parametrize(
    ("source", "becomes"),
    [
        (None, None),
        ("READWRITE", "READWRITE"),
        ("READONLY", "READONLY"),
        ("READONLY_OVERRIDE", "READONLY_OVERRIDE"),
        ("IMPORT", None),
        ("FORWARD", None),
    ],
)
def test_a_subject_gets_what_its_source_has(source: Mode | None, becomes: Mode | None) -> None:
    """But for modes that only a mirror needs."""
    assert mode_after_import(source) == becomes


def test_what_became_of_mode_import_is_said() -> None:
    """What is left, and what would keep producers from registering all the same."""
    assert (import_lines(ImportEnd(global_mode="READONLY"), FLOW, dry=False), import_figures(ImportEnd())) == ([], {})
    found = ImportEnd(
        ended={ORDERS: None}, left=[BILLS], global_mode="READONLY", source_problem="A's registry does not answer"
    )
    lines = import_lines(found, FLOW, dry=False)
    assert lines == [
        "Schemas: 1 subjects on B (orders-value) are in mode IMPORT no longer.",
        "Their modes on A are not known, so that they have none: A's registry does not answer.",
        "In mode IMPORT on B, and left so, since A->B is not known to mirror them: bills-value.",
        "The global mode of B's registry is READONLY: new schemas may be refused there.",
    ]
    assert "would be" in import_lines(found, FLOW, dry=True)[0]
    assert import_figures(found) == {
        "import_ended": {"subjects": 1, "modes": {"orders-value": None}, "left": ["bills-value"]}
    }
