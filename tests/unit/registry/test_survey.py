"""Two registries compared: what is there, what is missing, what can't be registered."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.records.schema_id_records import IdsWay
from mirror_ray.registry.comparison import Conflict, Found, Missing
from mirror_ray.registry.registry import by_subject
from mirror_ray.registry.schema import RegisteredSchema, Schema, SchemaReference, Subject, SubjectVersion
from mirror_ray.registry.survey import (
    ContextId,
    Refused,
    RegistryFacts,
    StrayId,
    SurveyedVersion,
    doubtful_ids,
    ids_outlook,
    ids_to_ask,
    stray_ids,
    survey_versions,
    to_look_up,
)
from tests.unit.registry.test_order import at
from tests.unit.registry.test_subjects import rules


def version(
    name: str,
    number: int = 1,
    *fields: str,
    schema_id: int = 1,
    refers: Iterable[SubjectVersion] = (),
    deleted: bool = False,
) -> RegisteredSchema:
    """A version of a subject; its schema is of ``fields``, else of the subject's own name."""
    schema = Schema(
        kind="AVRO",
        text=json.dumps(list(fields) or [name]),
        references=tuple(SchemaReference(str(to.subject), to) for to in refers),
    )
    return RegisteredSchema(at=at(name, number), id=schema_id, schema=schema, deleted=deleted)


def survey(
    source: Iterable[RegisteredSchema], target: Iterable[RegisteredSchema], way: IdsWay = "translated", **facts: Any
) -> dict[str, SurveyedVersion]:
    """What became of source versions, by their texts."""
    found = survey_versions(facts_of(source, target, way, **facts))
    return {str(one.source.at): one for one in found}


def facts_of(
    source: Iterable[RegisteredSchema], target: Iterable[RegisteredSchema], way: IdsWay = "translated", **facts: Any
) -> RegistryFacts:
    """Of two registries."""
    schemas = {one.at: one for one in source}
    subjects = {at.subject: rules().target(at.subject) for at in schemas}
    return RegistryFacts(way=way, source=schemas, subjects=subjects, target=by_subject(target), **facts)


def test_each_version_is_there_or_missing() -> None:
    """By its content, under the subject's name on the target and whatever id."""
    source = [version("t-value", 1, "a", schema_id=7), version("t-value", 2, "b", schema_id=8)]
    found = survey(source, [version("A.t-value", 4, "a", schema_id=1)])
    verdict = found["t-value version 1"].verdict
    assert isinstance(verdict, Found)
    assert verdict.target.at == at("A.t-value", 4)
    assert found["t-value version 2"].verdict == Missing()
    assert {str(one.target) for one in found.values()} == {"A.t-value"}


def test_what_is_there_under_another_text_is_to_be_looked_up() -> None:
    """Where the target's subject has something, and what it refers to is found; then what refers to it."""
    source = [version("m", 1), version("m", 2, "b"), version("x", 1, "x", refers=[at("m", 2)]), version("y")]
    odd = version("m", 4, "b, but odd")
    target = [version("m", 3, "m"), odd, version("x", 1, "x", refers=[odd.at])]
    facts, asked = facts_of(source, target), list[SubjectVersion]()
    for answer in (None, odd):
        surveyed = survey_versions(facts)
        asked += to_look_up(facts, surveyed)
        facts = replace(facts, looked_up={at("m", 2): answer})
        assert to_look_up(facts, survey_versions(facts)) == {}
    assert asked == [at("m", 2)]
    verdicts = {str(one.source.at): one.verdict for one in survey_versions(facts)}
    assert verdicts["m version 2"] == Found(odd)
    assert verdicts["x version 1"] == Found(target[2])
    assert verdicts["y version 1"] == Missing()
    assert to_look_up(replace(facts, way="same", looked_up={}), surveyed) == {}


def test_what_is_looked_up_refers_to_what_the_target_has() -> None:
    """By the version that it has there."""
    there = version("m", 3)
    source = [version("m"), version("x", refers=[at("m")])]
    facts = facts_of(source, [there, version("x", 1, "x", refers=[at("other")])])
    (asked,) = to_look_up(facts, survey_versions(facts)).items()
    assert (asked[0], asked[1].references) == (at("x"), (SchemaReference("m", there.at),))


@pytest.mark.parametrize("way", ["same", "translated"])
def test_another_lineage_is_a_conflict_and_what_refers_to_it_is_refused(way: IdsWay) -> None:
    """With the reason."""
    source = [version("m", 1, "mine"), version("x", refers=[at("m")]), version("y", refers=[at("x")]), version("z")]
    found = survey(source, [version("m", 1, "theirs")], way)
    conflict = found["m version 1"].verdict
    assert isinstance(conflict, Conflict)
    for name in ("x", "y"):
        refused = found[f"{name} version 1"].verdict
        assert isinstance(refused, Refused)
        assert conflict.text in refused.text
    assert found["z version 1"].verdict == Missing()


def test_a_reference_to_what_is_missing_is_one_to_its_version_or_to_nothing() -> None:
    """Whatever the target has under that version meanwhile."""
    source = [version("m", 1, "a"), version("m", 2, "b"), version("x", refers=[at("m")])]
    other = [version("m", 1, "b"), version("x", refers=[at("m")])]
    verdicts = {name: type(one.verdict) for name, one in survey(source, other).items()}
    assert verdicts == {"m version 1": Missing, "m version 2": Found, "x version 1": Missing}
    assert survey(source, other[1:], "same")["x version 1"].verdict == Found(other[1])


def test_circles_and_references_to_nothing_are_refused() -> None:
    """And the others go on."""
    source = [version("a", refers=[at("b")]), version("b", refers=[at("a")]), version("c", refers=[at("gone", 2)])]
    found = survey([*source, version("d")], [version("d")])
    texts = {name: one.verdict.text for name, one in found.items() if isinstance(one.verdict, Refused)}
    assert "in a circle" in texts["a version 1"]
    assert "gone version 2" in texts["c version 1"]
    assert isinstance(found["d version 1"].verdict, Found)


def test_the_same_ids_may_be_others() -> None:
    """Those of the target's context are asked for once, and only where the version is missing."""
    source = [version("a", schema_id=3), version("b", schema_id=4), version("c", 2, schema_id=5)]
    target = [version("b", schema_id=9), version("c", 2, schema_id=5)]
    facts = facts_of(source, target, "same")
    asked = ids_to_ask(facts, survey_versions(facts))
    assert asked == {ContextId(".", 3)}
    facts = replace(facts, target_ids={ContextId(".", 3): version("own").schema})
    found = survey_versions(facts)
    assert ids_to_ask(facts, found) == set()
    assert [type(one.verdict) for one in found] == [Conflict, Conflict, Found]
    for one, part in zip(found, ("id 3", "id 9"), strict=False):
        assert isinstance(one.verdict, Conflict)
        assert part in one.verdict.text
    own = replace(facts, target_ids={ContextId(".", 3): source[0].schema})
    found = survey_versions(own)
    assert found[0].verdict == Missing()
    assert ids_to_ask(own, found) == set()
    assert ids_to_ask(facts_of(source, ()), found) == set()


@pytest.mark.parametrize("way", ["same", "translated"])
def test_soft_deleted_on_one_side(way: IdsWay) -> None:
    """What is so on both is as it should be."""
    source = [version("a", deleted=True), version("b"), version("c", deleted=True), version("d", deleted=True)]
    found = survey(source, [version("a"), version("b", deleted=True), version("c", deleted=True)], way)
    assert [one.deleted_on for one in found.values()] == ["source", "target", None, None]


def test_what_was_registered_again_is_not_deleted() -> None:
    """Under a later version, on either side, where versions are the target's own."""
    source = [version("a", 1, deleted=True), version("a", 2)]
    assert [one.deleted_on for one in survey(source, [version("a", 5)]).values()] == [None, None]
    target = [version("a", 5, deleted=True), version("a", 6)]
    assert [one.deleted_on for one in survey([version("a")], target).values()] == [None]
    both = [version("a", 1), version("a", 2)]
    assert [one.deleted_on for one in survey(source, both, "same").values()] == ["source", None]


def test_ids_that_are_not_their_schemas_any_more() -> None:
    """Of those that the survey did not find to be; what the source does not know any more can't be compared."""
    surveyed = list(
        survey([version("a", schema_id=7), version("b", schema_id=8)], [version("a", schema_id=1)]).values()
    )
    translations = {7: 1, 8: 2, 9: 3, 10: None, 11: 4}
    doubtful = doubtful_ids(translations, surveyed, "translated")
    assert doubtful == {8: 2, 9: 3, 11: 4}
    source = {8: [version("b").schema], 9: [version("c").schema, version("d").schema]}
    there = {8: version("other").schema, 9: version("d").schema, 11: version("e").schema}
    strays = stray_ids(doubtful, source, there)
    assert strays == [StrayId(source_id=8, target_id=2, now="another")]
    assert "id 8 on the source became id 2, which is another schema there now" in str(strays[0])
    assert stray_ids({8: 2}, source, {8: None}) == [StrayId(source_id=8, target_id=2, now="none")]
    assert doubtful_ids({7: 7, 8: 2}, (), "same") == {8: 2}


def test_ids_of_other_contexts_prove_nothing() -> None:
    """The topic has those of the default one alone."""
    elsewhere = replace(version("a", schema_id=7), at=SubjectVersion(Subject(".c", "a"), 1))
    copy = replace(elsewhere, id=1)
    assert doubtful_ids({7: 1}, survey([elsewhere], [copy]).values(), "translated") == {7: 1}


def test_how_ids_will_be_copied() -> None:
    """Settings come first, then what was decided, then what the target has; an empty one's modes are not tried."""
    subject = Subject(".", "x")
    assert (ids_outlook("same", "translated", []).way, ids_outlook(None, "same", [subject]).way) == ("same", "same")
    assert "translated before" in ids_outlook("same", "translated", []).why
    assert ids_outlook("same", "same", []).why == "set"
    assert ids_outlook(None, None, [subject]).way == "translated"
    outlook = ids_outlook(None, None, [])
    assert outlook.way is None
    assert "mode IMPORT" in outlook.why


_KEYS = st.tuples(st.sampled_from("abcd"), st.integers(1, 3))


@given(
    st.dictionaries(_KEYS, st.tuples(st.lists(_KEYS, max_size=2), st.sampled_from("uvw")), max_size=8),
    st.sampled_from(["same", "translated"]),
)
def test_what_was_registered_as_missing_is_found(
    graph: dict[tuple[str, int], tuple[list[tuple[str, int]], str]], way: IdsWay
) -> None:
    """Into an empty target: everything is missing or refused at first, and found or refused once it was given that."""
    source = [
        version(*key, text, str(key[1]), schema_id=number, refers=[at(*to) for to in references])
        for number, (key, (references, text)) in enumerate(sorted(graph.items()), 1)
    ]
    facts = facts_of(source, (), way)
    before = survey_versions(facts)
    assert [one.source.at for one in before] == sorted(one.at for one in source)
    assert all(isinstance(one.verdict, Missing | Refused) for one in before)
    target = [one.source for one in before if isinstance(one.verdict, Missing)]
    after = survey_versions(replace(facts, target=by_subject(target)))
    assert [isinstance(one.verdict, Found) for one in after] == [isinstance(one.verdict, Missing) for one in before]
