"""Whether the schemas of compared records are the same on both sides, by registries that are made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from mirror_ray.config.settings import FlowSettings, SchemaSettings
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.records.schema_id_records import FieldDecision, GuidTranslation, IdTranslation
from mirror_ray.registry.client import RegistryUnreachableError
from mirror_ray.registry.registry import SchemaRegistry
from mirror_ray.registry.schema import RegisteredSchema, Schema, SchemaReference, Subject, SubjectVersion
from mirror_ray.state.records import SkippedRange
from mirror_ray.transforms.met_schemas import MetSchemas
from mirror_ray.transforms.schema_ids import SchemaIdMap
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.ranges import PositionPair
from mirror_ray.verification.schema_check import SchemaCheck
from mirror_ray.verification.topic_schemas import TopicSchemas

GUID, OTHER_GUID = bytes(range(16)), bytes(range(16, 32))


@dataclass
class FakeSchemaRegistry:
    """What a registry answers."""

    schemas: Mapping[int, Schema] = field(default_factory=dict)
    named: Mapping[str, Schema] = field(default_factory=dict)
    deleted: Mapping[str, Schema] = field(default_factory=dict)
    guids: Mapping[bytes, int] = field(default_factory=dict)
    fails: bool = False
    asked: list[int] = field(default_factory=list)
    followed: list[str] = field(default_factory=list)

    async def subjects(self) -> list[Subject]:
        """All of them."""
        self._answer()
        return [Subject(".", name) for name in self.named]

    async def by_id(self, schema_id: int, context: str) -> Schema | None:
        """In the default context."""
        self._answer()
        self.asked.append(schema_id)
        return self.schemas.get(schema_id) if context == "." else None

    async def ids_of_guid(self, guid: bytes) -> list[tuple[str, int]]:
        """One at most."""
        return [(".", self.guids[guid])] if guid in self.guids else []

    async def schema(self, at: SubjectVersion, *, deleted: bool = False) -> RegisteredSchema | None:
        """Of version 1."""
        self.followed.append(at.subject.name)
        found = (self.deleted if deleted else self.named).get(at.subject.name)
        return None if found is None else RegisteredSchema(at=at, id=1, schema=found)

    def _answer(self) -> None:
        if self.fails:
            raise RegistryUnreachableError("the schema registry of A does not answer")


def schema(text: str, *references: tuple[str, str]) -> Schema:
    """An Avro schema, with names and subjects that it refers to."""
    found = (SchemaReference(name, SubjectVersion(Subject(".", subject), 1)) for name, subject in references)
    return Schema(kind="AVRO", text=text, references=tuple(found))


def check(source: FakeSchemaRegistry, target: FakeSchemaRegistry, *known: Any, **schemas: Any) -> SchemaCheck:
    """Of a flow with these settings."""
    flow = FlowSettings(name=FlowName("A", "B"), enabled=True, schemas=SchemaSettings(**schemas))
    return SchemaCheck(flow, SchemaIdMap(known), cast(SchemaRegistry, source), cast(SchemaRegistry, target))


def job(topic: str = "t") -> CompareJob:
    """A partition, of which some records were skipped."""
    skipped = SkippedRange(kind="record_refused", policy="skip", text="", time_ms=0, source_from=5, source_to=6)
    return CompareJob(
        source=TopicPartition(topic, 0),
        target=TopicPartition(f"A.{topic}", 0),
        begin=PositionPair(2, 0),
        end=PositionPair(9, 6),
        skipped_ranges=(skipped,),
    )


async def compared(
    source: FakeSchemaRegistry, target: FakeSchemaRegistry, *schemas: int | bytes, known: Sequence[Any] = ()
) -> TopicSchemas:
    """What is said of a topic with these."""
    (found,) = await check(source, target, *known).topics([job()], {"t": MetSchemas(frozenset(schemas))})
    return found


async def test_what_an_id_became_is_the_same_schema_there() -> None:
    """White space and the order of JSON do not count; another text does, and so does nothing."""
    source = FakeSchemaRegistry({1: schema('{"a": 1, "b": 2}'), 2: schema("2"), 3: schema("3"), 4: schema("4")})
    target = FakeSchemaRegistry({11: schema('{"b":2,"a":1}'), 12: schema("other"), 4: schema("4")})
    known = (IdTranslation(1, 11), IdTranslation(2, 12), IdTranslation(3, 13))
    found = await compared(source, target, 1, 2, 3, 4, 5, known=known)
    assert (found.met, found.outcome, found.reasons, found.unknown) == (5, "differs", (), [5])
    assert [str(one) for one in (*found.missing, *found.different)] == [
        "schema id 3, which became id 13: the target's registry has no such schema",
        "schema id 2, which became id 12: it is another schema on the target: source: AVRO 2 | target: AVRO other",
    ]
    assert list(found.sentences)[2:] == ["the source's registry does not have id 5: there is nothing to compare"]
    assert (await compared(source, target, 4, 5)).outcome == "equal"


async def test_guids_are_looked_up_as_ids_are() -> None:
    """A GUID is another one where references have other names."""
    source = FakeSchemaRegistry({1: schema("1")}, guids={GUID: 1})
    target = FakeSchemaRegistry({9: schema("1")}, guids={OTHER_GUID: 9})
    assert (await compared(source, target, GUID, known=[GuidTranslation(GUID, OTHER_GUID)])).outcome == "equal"
    found = await compared(source, target, GUID)
    assert found.plain()["missing"][0]["source"] == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert (await compared(target, source, GUID)).unknown == [GUID]


@pytest.mark.parametrize("deleted", [False, True])
async def test_references_lead_to_the_same(deleted: bool) -> None:
    """Whatever the subjects are named, and whether they were soft-deleted; each is asked for once."""
    source = FakeSchemaRegistry(
        {1: schema("1", ("Part", "part"), ("More", "more"))},
        {"part": schema("part", ("More", "more")), "more": schema("more")},
    )

    def target(found: Schema) -> FakeSchemaRegistry:
        return FakeSchemaRegistry({1: found}, {} if deleted else names, names if deleted else {})

    names = {"A.part": schema("part", ("More", "A.more")), "A.more": schema("more")}
    same = schema("1", ("More", "A.more"), ("Part", "A.part"))
    assert (await compared(source, target(same), 1)).outcome == "equal"
    assert source.followed == ["part", "more"]
    names["A.more"] = schema("changed")
    found = await compared(source, target(same), 1)
    assert "(what they refer to differs)" in str(found.different[0])
    names["A.more"] = schema("more")
    assert (await compared(source, target(schema("1", ("More", "A.more"), ("Parts", "A.part"))), 1)).different


async def test_a_circle_of_references_ends() -> None:
    """No registry should have one."""
    ring = {"a": schema("a", ("B", "b")), "b": schema("b", ("A", "a"))}
    registry = FakeSchemaRegistry({1: ring["a"]}, ring)
    assert (await compared(registry, registry, 1)).outcome == "equal"


async def test_fields_are_decided_and_never_guessed() -> None:
    """By patterns, by what the flow has decided, by subjects; else what looks like ids is looked at apart."""
    source = FakeSchemaRegistry(named={"named-value": schema("1"), "plain-value": schema("1")})
    decided = (FieldDecision("decided", "key", True), FieldDecision("plain", "value", False))
    checking = check(source, FakeSchemaRegistry(), *decided, topics=("all",), topics_exclude=("none",))
    topics = ("all", "none", "decided", "named", "plain", "heartbeats")
    found = {job.source.topic: job.schemas for job in await checking.wanted([job(topic) for topic in topics])}
    assert {topic: (wanted.key, wanted.value) for topic, wanted in found.items() if wanted is not None} == {
        "all": ("framed", "framed"),
        "none": ("plain", "plain"),
        "decided": ("framed", "undecided"),
        "named": ("undecided", "framed"),
        "plain": ("undecided", "plain"),
        "heartbeats": ("plain", "plain"),
    }
    wanted = found["all"]
    assert wanted is not None
    assert [offset for offset in range(12) if wanted.takes(offset)] == [2, 3, 4, 6, 7, 8]


async def test_what_may_be_an_id_is_for_the_operator_to_say() -> None:
    """Where the source has that id; else it is a number."""
    source = FakeSchemaRegistry({7: schema("1")})
    met = MetSchemas(frozenset(), frozenset({("value", 7), ("value", 8), ("key", 9)}))
    (found,) = await check(source, source).topics([job()], {"t": met})
    assert found.outcome == "not_checked"
    assert [reason.partition(",")[0] for reason in found.reasons] == ["a value of t begins as one with schema id 7"]
    met = MetSchemas(frozenset(), frozenset({("value", 8)}))
    (found,) = await check(source, source).topics([job()], {"t": met})
    assert (found.outcome, list(found.sentences)) == ("equal", [])


@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_registry_that_does_not_answer_leaves_what_has_ids_unchecked(side: str) -> None:
    """A topic without any is equal all the same."""
    source = FakeSchemaRegistry({1: schema("1")}, fails=side == "source")
    target = FakeSchemaRegistry({1: schema("1")}, fails=side == "target")
    checking = check(source, target)
    jobs = await checking.wanted([job("t"), job("u"), job("v")])
    met = {"t": MetSchemas(frozenset({1})), "u": MetSchemas(frozenset(), frozenset({("key", 3)}))}
    found = await checking.topics(jobs, met)
    expected = ["not_checked", "not_checked" if side == "source" else "equal", "equal"]
    assert [one.outcome for one in found] == expected
    assert found[0].reasons == ("the schema registry of A does not answer",)


async def test_too_many_are_told() -> None:
    """They were not looked up."""
    met = MetSchemas(overflowed=True)
    (found,) = await check(FakeSchemaRegistry(), FakeSchemaRegistry()).topics([job()], {"t": met})
    assert (found.outcome, "more than 1,000,000" in found.reasons[0]) == ("not_checked", True)


async def test_each_schema_is_asked_for_once() -> None:
    """However many topics have it."""
    registry = FakeSchemaRegistry({number: schema(str(number)) for number in range(1, 200)})
    met = {topic: MetSchemas(frozenset(range(1, 200))) for topic in ("t", "u")}
    target = FakeSchemaRegistry(registry.schemas)
    found = await check(registry, target).topics([job("t"), job("u")], met)
    assert [one.outcome for one in found] == ["equal", "equal"]
    assert sorted(registry.asked) == sorted(target.asked) == list(range(1, 200))
