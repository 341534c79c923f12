"""A registry is mirrored into another one: everything in order, both ways, through faults, with conflicts named."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from mirror_ray.config.settings import RegistrySettings
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.lab.devcluster.registry import ApicurioRegistry
from mirror_ray.records.schema_id_records import IdsWay
from mirror_ray.registry.answers import RegistryAnswerError
from mirror_ray.registry.client import RegistryClient, RegistryUnreachableError
from mirror_ray.registry.mirror import SchemaMirror
from mirror_ray.registry.registry import SchemaRegistry
from mirror_ray.registry.schema import Schema, SchemaReference, Subject, SubjectVersion
from tests.support.import_registry import ImportRegistry
from tests.support.registry_faults import Fault
from tests.support.registry_proxy import RegistryProxy
from tests.unit.registry.test_subjects import rules


def record(name: str, *fields: str, other: str | None = None) -> Schema:
    """An Avro schema; ``other``: a type that it has from elsewhere."""
    listed: list[Any] = [{"name": field, "type": "int", "default": 0} for field in fields]
    references: tuple[SchemaReference, ...] = ()
    if other is not None:
        listed.append({"name": "other", "type": other})
        references = (SchemaReference(other, SubjectVersion(Subject(".", other), 1)),)
    text = json.dumps({"type": "record", "name": name, "fields": listed})
    return Schema(kind="AVRO", text=text, references=references)


@asynccontextmanager
async def registry(url: str, alias: str = "A", **changes: Any) -> AsyncIterator[SchemaRegistry]:
    """A registry by its URL."""
    settings = RegistrySettings(urls=(url,), **{"request_timeout_ms": 2000, **changes})
    async with RegistryClient(alias, settings) as client:
        yield SchemaRegistry(client)


@asynccontextmanager
async def pair(source: str, target: str) -> AsyncIterator[tuple[SchemaRegistry, SchemaRegistry]]:
    """Two registries."""
    async with registry(source) as here, registry(target, "B") as there:
        yield here, there


def mirror(source: SchemaRegistry, target: SchemaRegistry, way: IdsWay = "translated", **given: Any) -> SchemaMirror:
    """What mirrors one into the other."""
    return SchemaMirror(source, target, rules(**given), way, UNRECORDED)


@pytest.fixture
def source() -> Iterator[ImportRegistry]:
    """A registry as Confluent's."""
    with ImportRegistry("source") as found:
        yield found


@pytest.fixture
def target() -> Iterator[ImportRegistry]:
    """Another one."""
    with ImportRegistry("target") as found:
        yield found


def subject(name: str) -> Subject:
    """One of the default context."""
    return Subject(".", name)


async def fill(here: SchemaRegistry) -> None:
    """Versions, references, a soft-deleted version, a level."""
    await here.register(subject("Money"), record("Money", "cents"))
    await here.register(subject("orders-value"), record("Order", "a", other="Money"))
    await here.register(subject("orders-value"), record("Order", "a", "b", other="Money"))
    await here.register(subject("orders-value"), record("Order", "a", "b", "c", other="Money"))
    await here.delete(SubjectVersion(subject("orders-value"), 2))
    await here.set_compatibility(subject("orders-value"), "FULL")


async def test_all_versions_with_references_deletions_and_levels(source: ImportRegistry) -> None:
    """To a registry that gives ids of its own; a second round has nothing to do."""
    with ApicurioRegistry("target") as apicurio:
        async with pair(source.url, apicurio.url) as (here, there):
            await fill(here)
            await there.register(subject("before"), record("Before", "x"))
            found = mirror(here, there)
            assert len(await found.mirror_all()) == 4
            assert not found.problems
            assert await found.mirror_all() == []
            remote = subject("A.orders-value")
            assert await there.contents(remote) == ({1, 3}, {2})
            assert await there.compatibility(remote) == "FULL"
            for at, schema in found.schemas.items():
                there_now = await there.by_id(found.mirrored[at].id, ".")
                assert there_now is not None
                assert there_now.text_content == schema.schema.text_content
            third = await there.schema(SubjectVersion(remote, 3))
            assert third is not None
            assert third.schema.references == (SchemaReference("Money", SubjectVersion(subject("Money"), 1)),)


async def test_the_same_ids_and_versions(source: ImportRegistry, target: ImportRegistry) -> None:
    """By mode IMPORT."""
    async with pair(source.url, target.url) as (here, there):
        await here.register(subject("gone"), record("Gone", "g"))
        await fill(here)
        found = mirror(here, there, "same", exclude="gone")
        await found.mirror_all()
        assert not found.problems
        for at, schema in found.schemas.items():
            copy = found.mirrored[at]
            assert (copy.id, copy.at.version) == (schema.id, at.version)
            assert await there.by_id(schema.id, ".") is not None
        assert await found.mirror_all() == []
        await here.register(subject("orders-value"), record("Order", "a", "b", "c", "d", other="Money"))
        assert [at.version for at in await found.mirror_all()] == [4]
        assert await there.mode(subject("A.orders-value")) == "IMPORT"


async def test_an_id_that_is_taken_is_named_with_both_texts(source: ImportRegistry, target: ImportRegistry) -> None:
    """And the other schemas go on."""
    async with pair(source.url, target.url) as (here, there):
        await here.register(subject("first"), record("First", "f"))
        await here.register(subject("second"), record("Second", "s"))
        await there.register(subject("own"), record("Own", "o"))
        found = mirror(here, there, "same")
        await found.mirror_all()
        (text,) = found.problems.values()
        for part in ("id 1", "First", "Own", "translated"):
            assert part in text
        assert [str(at.subject) for at in found.mirrored] == ["second"]


@pytest.mark.parametrize("way", ["same", "translated"])
async def test_a_subject_of_another_lineage_is_left_alone(
    source: ImportRegistry, target: ImportRegistry, way: IdsWay
) -> None:
    """Both texts are shown."""
    async with pair(source.url, target.url) as (here, there):
        await here.register(subject("x"), record("Mine", "m"))
        await there.register(subject("pad"), record("Pad", "p"))
        await there.register(subject("x"), record("Theirs", "t"))
        found = mirror(here, there, way)
        await found.mirror_all()
        (text,) = found.problems.values()
        for part in ("Mine", "Theirs", "schemas.subjects.map"):
            assert part in text
        assert (await there.contents(subject("x"))).live == {1}


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("way", ["same", "translated"])
async def test_a_schema_that_comes_back_after_it_was_deleted(
    source: ImportRegistry, target: ImportRegistry, way: IdsWay, at_once: bool
) -> None:
    """It is a new version on both sides, be it mirrored between or not; a second life of the mirror changes nothing."""
    orders = subject("orders-value")
    async with pair(source.url, target.url) as (here, there):
        for fields in (("a",), ("a", "b")):
            await here.register(orders, record("Order", *fields))
        found = mirror(here, there, way)
        await found.mirror_all()
        await here.delete(SubjectVersion(orders, 1))
        if not at_once:
            await found.mirror_all()
            assert (await there.contents(subject("A.orders-value"))).live == {2}
        await here.register(orders, record("Order", "a"))
        assert (await here.contents(orders)).live == {2, 3}
        # This registry forgets the first version then; others keep it.
        first = SubjectVersion(orders, 1)
        found.schemas[first] = replace(found.schemas[first], deleted=True)
        for each in (found, found, mirror(here, there, way)):
            await each.mirror_all()
            live = (await there.contents(subject("A.orders-value"))).live
            names = [await there.schema(SubjectVersion(subject("A.orders-value"), number)) for number in sorted(live)]
            assert {one.schema.content for one in names if one is not None} == {
                record("Order", "a", "b").content,
                record("Order", "a").content,
            }
            assert not each.problems


async def test_what_is_not_included_comes_when_it_is_needed(source: ImportRegistry, target: ImportRegistry) -> None:
    """And not because its id is the next one."""
    async with pair(source.url, target.url) as (here, there):
        given = [await here.register(subject(name), record(name, "a")) for name in ("orders-value", "payments", "tmp")]
        ids = [one.id for one in given]
        found = mirror(here, there, include="orders.*", exclude="tmp")
        await found.mirror_all()
        for schema_id in ids:
            assert await found.mirror_id(schema_id, ".", needed=False)
        assert [str(at.subject) for at in found.mirrored] == ["orders-value"]
        for schema_id in ids:
            assert await found.mirror_id(schema_id, ".")
        assert sorted(str(at.subject) for at in found.mirrored) == ["orders-value", "payments"]
        assert not await found.mirror_id(4711, ".")


async def test_both_ways_without_growth(source: ImportRegistry, target: ImportRegistry) -> None:
    """What came from the other side is known by its content, or by its topic's name."""
    async with pair(source.url, target.url) as (here, there):
        await fill(here)
        await here.register(subject("com.acme.Order"), record("Order", "a"))
        await there.register(subject("com.acme.Own"), record("Own", "a"))
        forth, back = mirror(here, there), mirror(there, here)
        for _ in range(3):
            await forth.mirror_all()
            await back.mirror_all()
        counted = []
        for one in (here, there):
            listed = await one.listed()
            assert listed is not None
            counted.append(sorted(str(schema.at) for schema in listed))
        shared = {"Money version 1", "com.acme.Order version 1", "com.acme.Own version 1"}
        assert set(counted[0]) & set(counted[1]) >= shared
        await here.register(subject("com.acme.Order"), record("Order", "a", "b"))
        for _ in range(2):
            await forth.mirror_all()
            await back.mirror_all()
        assert (await there.contents(subject("com.acme.Order"))).live == {1, 2}
        assert (await here.contents(subject("com.acme.Order"))).live == {1, 2}
        assert not forth.problems
        assert not back.problems


async def test_a_target_that_was_filled_before_is_taken_over(source: ImportRegistry) -> None:
    """Its ids are used; the history that the target's level would refuse is carried all the same."""
    with ApicurioRegistry("target") as apicurio:
        async with pair(source.url, apicurio.url) as (here, there):
            await here.set_compatibility(subject("odd"), "NONE")
            await here.register(subject("odd"), record("Odd", "a"))
            await here.register(subject("odd"), Schema(kind="AVRO", text='"string"'))
            first = (await there.register(subject("odd"), record("Odd", "a"))).id
            await there.set_compatibility(subject("odd"), "BACKWARD")
            found = mirror(here, there)
            await found.mirror_all()
            assert not found.problems
            assert found.mirrored[SubjectVersion(subject("odd"), 1)].id == first
            assert (await there.contents(subject("odd"))).live == {1, 2}
            assert await there.compatibility(subject("odd")) == "NONE"


FAULTS = {
    "nonsense": Fault(status=200, body="<html>welcome</html>"),
    "busy": Fault(status=503),
    "other nonsense": Fault(status=200, body="[1, 2]", path="versions|schemas"),
    "read only": Fault(status=403, body='{"error_code": 403, "message": "read only"}', methods=("POST", "PUT")),
    "no answer": Fault(delay_ms=5000),
    "broken off": Fault(drop=True),
    "carried out, no answer": Fault(drop=True, carried_out=True, methods=("POST",)),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", list(FAULTS))
@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_fault_is_named_and_nothing_is_lost(
    source: ImportRegistry, target: ImportRegistry, name: str, side: str
) -> None:
    """Once it is over, all is there once."""
    with RegistryProxy((source if side == "source" else target).url) as proxy:
        urls = (proxy.url, target.url) if side == "source" else (source.url, proxy.url)
        async with registry(source.url) as direct, registry(urls[0]) as here, registry(urls[1], "B") as there:
            await fill(direct)
            found = mirror(here, there)
            proxy.answers.set(FAULTS[name])
            named = ""
            try:
                await found.mirror_all()
            except (RegistryUnreachableError, RegistryAnswerError) as error:
                named = str(error)
            writes = name in {"read only", "carried out, no answer"}
            assert bool(named) or bool(found.problems) or (side == "source" and writes), "the fault was not named"
            if named:
                assert ("A" if side == "source" else "B") in named
            proxy.answers.set(None)
            await found.mirror_all()
            assert not found.problems
            assert len(found.mirrored) == 4
            async with registry(target.url) as whole:
                assert await whole.contents(subject("A.orders-value")) == ({1, 3}, {2})
                assert await whole.contents(subject("Money")) == ({1}, set())
