"""What is decided of a field of which a record looks framed."""

from __future__ import annotations

import pytest

from mirror_ray.model.names import FlowName
from mirror_ray.model.schema_need import SchemaNeed
from mirror_ray.records.schema_id_records import FieldDecision
from mirror_ray.registry.needs import Ambiguous, decide_field
from mirror_ray.registry.schema import Subject


def need(schema: int | bytes = 7) -> SchemaNeed:
    """Of the values of a topic."""
    return SchemaNeed(FlowName("A", "B"), "orders", "value", schema)


@pytest.mark.parametrize("id_exists", [True, False])
@pytest.mark.parametrize("context", [".", ".other"])
def test_a_subject_of_that_name_decides(context: str, id_exists: bool) -> None:
    """In any context, and whatever ids there are."""
    subjects = [Subject(context, "orders-value")]
    assert decide_field(need(), subjects, id_exists=id_exists) == FieldDecision("orders", "value", framed=True)


def test_a_number_that_is_no_id_is_a_number() -> None:
    """Subjects of the key or of other topics say nothing."""
    subjects = [Subject(".", "orders-key"), Subject(".", "other-value")]
    assert decide_field(need(), subjects, id_exists=False) == FieldDecision("orders", "value", framed=False)


def test_a_guid_is_no_chance() -> None:
    """Though the source's registry has no such schema, or not yet."""
    assert decide_field(need(bytes(16)), [], id_exists=False) == FieldDecision("orders", "value", framed=True)


def test_an_operator_decides_what_may_be_both() -> None:
    """The text names the settings."""
    found = decide_field(need(), [], id_exists=True)
    assert isinstance(found, Ambiguous)
    assert "schemas.topics" in found.text
    assert "orders" in found.text
