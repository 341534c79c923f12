"""Whether the target has a schema, could get it, or has something else in its place."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mirror_ray.records.schema_id_records import IdsWay
from mirror_ray.registry.comparison import Conflict, Found, Lineage, Missing, compare, renamed
from mirror_ray.registry.schema import RegisteredSchema, Schema, SchemaReference, Subject, SubjectVersion

SUBJECT = Subject(".", "A.orders-value")


def schema(text: str, *references: SchemaReference, kind: str = "AVRO") -> Schema:
    """A schema of a kind."""
    return Schema(kind=kind, text=text, references=references)


def there(text: str, version: int, schema_id: int = 7, *, deleted: bool = False) -> RegisteredSchema:
    """A version of the target's subject."""
    return RegisteredSchema(at=SubjectVersion(SUBJECT, version), id=schema_id, schema=schema(text), deleted=deleted)


def compared(text: str, on_target: Sequence[RegisteredSchema], way: IdsWay, *lineage: str) -> object:
    """Version 2 of a source subject, which has the id 7, with the target's."""
    wanted = schema(text)
    subject = Subject(".", "orders-value")
    source = RegisteredSchema(at=SubjectVersion(subject, 2), id=7, schema=wanted)
    before = [
        RegisteredSchema(at=SubjectVersion(subject, 1), id=6, schema=schema(one), deleted=True) for one in lineage
    ]
    return compare(source, wanted, SUBJECT, on_target, way=way, lineage=Lineage.of([*before, source]))


def test_the_same_text_is_found_whatever_its_space_and_order() -> None:
    """The oldest version of it."""
    on_target = [there('{"b": 1, "a": 2}', 5, 9), there('{"a":2,"b":1}', 4, 8)]
    assert compared('{"a": 2, "b": 1}', on_target, "translated") == Found(on_target[1])


def test_a_deleted_version_is_not_what_came_back() -> None:
    """Where the source never deleted it, somebody has done so on the target, and it stays so."""
    deleted, live = there('"int"', 1, deleted=True), there('"int"', 2)
    assert compared('"int"', [deleted], "translated") == Found(deleted)
    assert compared('"int"', [deleted], "translated", '"int"') == Missing()
    assert compared('"int"', [deleted, live], "translated", '"int"') == Found(live)
    assert compared('"int"', [deleted, live], "translated") == Found(live)


@pytest.mark.parametrize("way", ["same", "translated"])
def test_an_empty_subject_may_get_it(way: IdsWay) -> None:
    """In both ways."""
    assert compared('"int"', [], way) == Missing()


def test_a_subject_with_a_version_in_common_may_get_more() -> None:
    """With none in common it is another lineage, and both texts are said."""
    assert compared('"int"', [there('"long"', 1)], "translated", '"long"') == Missing()
    found = compared('"int"', [there('"bytes"', 1)], "translated", '"long"')
    assert isinstance(found, Conflict)
    assert 'source: AVRO "int" | target: AVRO "bytes"' in found.text
    assert "schemas.subjects.map" in found.text


def test_the_same_needs_the_same_version_text_and_id() -> None:
    """What is there in its place is never overwritten."""
    assert compared('"int"', [there('"int"', 2)], "same") == Found(there('"int"', 2))
    assert compared('"int"', [there('"int"', 1)], "same") == Missing()
    other_text = compared('"int"', [there('"long"', 2)], "same")
    assert isinstance(other_text, Conflict)
    assert 'source: AVRO "int" | target: AVRO "long"' in other_text.text
    other_id = compared('"int"', [there('"int"', 2, 8)], "same")
    assert isinstance(other_id, Conflict)
    assert "has the id 8 on the target, 7 on the source" in other_id.text


def test_long_texts_are_cut() -> None:
    """A problem is to be read."""
    found = compared(f'"{"x" * 5000}"', [there(f'"{"y" * 5000}"', 1)], "translated")
    assert isinstance(found, Conflict)
    assert len(found.text) < 1500


def test_references_are_renamed() -> None:
    """Two schemas whose references differ are not the same."""
    here, target = (SubjectVersion(Subject(".", name), 1) for name in ("Money", "A.Money"))
    wanted = renamed(schema("{}", SchemaReference("Money", here)), {here: target})
    assert wanted == schema("{}", SchemaReference("Money", target))
    assert wanted.content != schema("{}").content
    assert wanted.text_content == schema("{}").text_content


def test_a_protobuf_schema_is_the_same_without_empty_lines() -> None:
    """Servers write them anew."""
    first, second = (
        schema(text, kind="PROTOBUF")
        for text in ('syntax = "proto3";\n\n  message A {}\n', 'syntax = "proto3";\nmessage A {}')
    )
    assert first.content == second.content
    assert first.content != schema('syntax = "proto3";\nmessage A {}').content
