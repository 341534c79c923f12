"""What comes before what."""

from __future__ import annotations

from graphlib import TopologicalSorter

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.registry.order import registration_order
from mirror_ray.registry.schema import RegisteredSchema, Schema, SchemaReference, Subject, SubjectVersion


def at(name: str, version: int = 1) -> SubjectVersion:
    """A version of a subject."""
    return SubjectVersion(Subject(".", name), version)


def registered(where: SubjectVersion, *references: SubjectVersion) -> RegisteredSchema:
    """A schema that refers to others."""
    named = tuple(SchemaReference(str(to), to) for to in references)
    return RegisteredSchema(at=where, id=1, schema=Schema(kind="AVRO", text="{}", references=named))


def test_a_reference_comes_first_and_so_does_an_earlier_version() -> None:
    """Whatever the names' order is."""
    schemas = [registered(at("a", 1), at("z", 1)), registered(at("a", 2)), registered(at("z", 1), at("m", 1))]
    found = registration_order([*schemas, registered(at("m", 1))])
    assert not found.refused
    assert list(TopologicalSorter(found.before).static_order()) == [at("m"), at("z"), at("a"), at("a", 2)]


def test_a_circle_is_named_and_the_others_go_on() -> None:
    """So does what refers to it have to wait."""
    circle = [registered(at("a"), at("b")), registered(at("b"), at("c")), registered(at("c"), at("a"))]
    found = registration_order([*circle, registered(at("d"), at("a")), registered(at("e"))])
    assert set(found.before) == {at("e")}
    assert set(found.refused) == {at("a"), at("b"), at("c"), at("d")}
    assert "in a circle" in found.refused[at("a")]
    for name in "abc":
        assert f"{name} version 1" in found.refused[at("a")]
    assert "refers to a version 1" in found.refused[at("d")]


def test_a_schema_that_refers_to_itself_is_a_circle() -> None:
    """Of one."""
    found = registration_order([registered(at("a"), at("a"))])
    assert found.refused == {at("a"): "its references go in a circle: a version 1 -> a version 1"}


def test_what_is_missing_is_named() -> None:
    """Unless the target has it already."""
    schemas = [registered(at("a"), at("gone", 3)), registered(at("b"), at("a"))]
    found = registration_order(schemas)
    assert found.before == {}
    assert "gone version 3" in found.refused[at("a")]
    assert "a version 1" in found.refused[at("b")]
    assert set(registration_order(schemas, {at("gone", 3)}).before) == {at("a"), at("b")}


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("abcde"), st.integers(1, 3)),
        st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 3)), max_size=3),
        max_size=12,
    )
)
def test_everything_is_either_ordered_or_refused(graph: dict[tuple[str, int], list[tuple[str, int]]]) -> None:
    """And whatever is ordered finds all that it refers to before it."""
    schemas = [registered(at(*key), *(at(*to) for to in references)) for key, references in graph.items()]
    found = registration_order(schemas)
    assert set(found.before) | set(found.refused) == {schema.at for schema in schemas}
    assert not set(found.before) & set(found.refused)
    seen = list[SubjectVersion]()
    by_version = {schema.at: schema for schema in schemas}
    for where in TopologicalSorter(found.before).static_order():
        assert all(reference.to in seen for reference in by_version[where].schema.references)
        assert not any(other.subject == where.subject and other.version > where.version for other in seen)
        seen.append(where)
