"""What holds for subjects on the source holds on the target: levels and modes, of each and of all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from mirror_ray.lab.devcluster.registry import ApicurioRegistry
from mirror_ray.model.audit import AuditEntry
from mirror_ray.records.schema_id_records import IdsWay
from mirror_ray.registry import subject_settings
from mirror_ray.registry.import_end import ImportEnd, end_imports
from mirror_ray.registry.mirror import SchemaMirror
from mirror_ray.registry.recorded_changes import RecordedChanges
from mirror_ray.registry.registry import SchemaRegistry
from mirror_ray.registry.schema import Schema, Subject, SubjectVersion
from tests.broker.test_schema_mirror import pair, record, subject
from tests.support.import_registry import ImportRegistry
from tests.unit.coordinator.fakes import FakeAuditLog
from tests.unit.registry.test_subjects import rules


class Both(NamedTuple):
    """Two registries, and what is kept of changes to the second one."""

    here: SchemaRegistry
    there: SchemaRegistry
    changes: list[AuditEntry]

    def of(self, kind: str) -> list[tuple[str, str | None, str | None]]:
        """Subject, before and after of the changes of a kind."""
        return [(one.subject, one.before, one.after) for one in self.changes if one.kind == kind]

    def mirror(self, way: IdsWay = "translated", *, with_globals: bool = False, **given: object) -> SchemaMirror:
        """What mirrors the first one into the second."""
        chosen = rules(**given)  # type: ignore[arg-type]
        return SchemaMirror(
            self.here, self.there, chosen, way, FakeAuditLog(self.changes, ""), with_globals=with_globals
        )

    async def end_imports(
        self, *, gone: bool = False, known_ids: Collection[int] = (), alone: bool = False, dry: bool = False
    ) -> ImportEnd:
        """Have producers register in the second one; ``gone``: the first one is not asked."""
        changes = RecordedChanges(self.there, FakeAuditLog(self.changes, ""))
        source = None if gone else self.here
        return await end_imports(source, self.there, rules(), changes, known_ids=known_ids, alone=alone, dry=dry)


@asynccontextmanager
async def both(source: str, target: str) -> AsyncIterator[Both]:
    """Two registries by their URLs."""
    async with pair(source, target) as (here, there):
        yield Both(here, there, [])


@pytest.fixture
async def registries(import_registry: ImportRegistry) -> AsyncIterator[Both]:
    """Both know modes."""
    with ImportRegistry("target") as target:
        async with both(import_registry.url, target.url) as found:
            yield found


X, REMOTE = subject("x-value"), subject("A.x-value")


async def test_a_subject_is_closed_as_the_sources_is(registries: Both) -> None:
    """It is opened for what is new there, closed behind it, and opened when the source's is."""
    here, there, changes = registries
    await here.register(X, record("X", "a"))
    await here.set_mode(X, "READONLY")
    found = registries.mirror()
    await found.mirror_all()
    assert await there.mode(REMOTE) == "READONLY"
    await found.mirror_all()
    assert registries.of("set_mode") == [("schema A.x-value", None, "READONLY")]
    await here.set_mode(X, "READWRITE")
    await here.register(X, record("X", "a", "b"))
    await here.delete(SubjectVersion(X, 1))
    await here.set_compatibility(X, "FULL")
    await here.set_mode(X, "READONLY")
    # In another life, which does not know what the one before has closed.
    await registries.mirror().mirror_all()
    assert await there.contents(REMOTE) == ({2}, {1})
    assert await there.compatibility(REMOTE) == "FULL"
    assert await there.mode(REMOTE) == "READONLY"
    assert registries.of("delete_schema") == [("schema A.x-value version 1", None, "soft-deleted")]
    changes.clear()
    await registries.mirror().mirror_all()
    assert not changes
    await here.set_mode(X, "READWRITE")
    await here.set_compatibility(X, "FORWARD")
    await here.set_mode(X, "READONLY")
    again = registries.mirror()
    await again.mirror_all()
    assert not again.settings_problems
    assert (await there.compatibility(REMOTE), await there.mode(REMOTE)) == ("FORWARD", "READONLY")
    await here.clear_mode(X)
    await registries.mirror().mirror_all()
    assert await there.mode(REMOTE) is None


async def test_what_somebody_changes_on_the_target_is_put_back(
    registries: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the comparison of all, a piece in each round after it; a round in which nothing is due asks nothing."""
    monkeypatch.setattr(subject_settings, "_AGAIN_TOGETHER", 2)
    here, there, changes = registries
    names = [f"x{number}-value" for number in range(5)]
    for name in names:
        await here.register(subject(name), record("X", name))
        await here.set_compatibility(subject(name), "FULL")
    found = registries.mirror()
    await found.mirror_all()
    changes.clear()
    for name in names:
        await there.set_compatibility(subject(f"A.{name}"), "NONE")
        await there.set_mode(subject(f"A.{name}"), "READONLY")
    await found.mirror_all()
    assert found.settings.due == 3
    while found.settings.due:
        await found.settings.settle_some()
    for name in names:
        assert await there.compatibility(subject(f"A.{name}")) == "FULL"
        assert await there.mode(subject(f"A.{name}")) is None
    assert sorted(registries.of("set_compatibility")) == [(f"schema A.{name}", "NONE", "FULL") for name in names]
    asked = here.requests + there.requests
    await found.settings.settle_some()
    assert here.requests + there.requests == asked


async def test_subjects_in_mode_import_get_levels_and_no_modes(registries: Both) -> None:
    """Their source's modes come at a failover."""
    here, there, _ = registries
    await here.register(X, record("X", "a"))
    await here.set_compatibility(X, "FULL")
    await here.set_mode(X, "READONLY")
    await registries.mirror("same").mirror_all()
    assert await there.mode(REMOTE) == "IMPORT"
    assert await there.compatibility(REMOTE) == "FULL"


async def test_a_mode_that_the_target_does_not_keep_is_set_once(
    import_registry: ImportRegistry, apicurio: ApicurioRegistry, subject_prefix: str
) -> None:
    """Apicurio answers that it is done. A level that is lowered for old versions, and raised again, is kept."""
    ours = Subject(".", f"{subject_prefix}x")
    async with both(import_registry.url, apicurio.url) as registries:
        here, _, _ = registries
        await here.set_compatibility(ours, "FULL")
        await here.register(ours, record("Odd", "a"))
        await here.register(ours, Schema(kind="AVRO", text='"string"'))
        await here.set_mode(ours, "READONLY")
        await registries.there.register(ours, record("Odd", "a"))
        await registries.there.set_compatibility(ours, "BACKWARD")
        found = registries.mirror()
        for _ in range(3):
            await found.mirror_all()
        assert registries.of("set_mode") == [(f"schema {ours}", None, "READONLY")]
        assert [after for _, _, after in registries.of("set_compatibility")] == ["NONE", "FULL"]


async def test_what_holds_for_all_is_mirrored_where_that_is_asked_for(registries: Both) -> None:
    """The global level and mode, and the levels of contexts."""
    here, there, _ = registries
    inner = Subject(".c", "x")
    await here.register(X, record("X", "a"))
    await here.register(inner, record("X", "a"))
    await here.set_compatibility(None, "FULL")
    await here.set_compatibility(Subject(".c", ""), "NONE")
    await registries.mirror().mirror_all()
    assert await there.global_compatibility() != "FULL"
    found = registries.mirror("same", with_globals=True, contexts={".c": ".k"})
    await found.mirror_all()
    assert await there.global_compatibility() == "FULL"
    assert await there.own_compatibility(Subject(".k", "")) == "NONE"
    await here.set_mode(None, "READONLY")
    await found.mirror_all()
    assert await there.mode(None) == "READONLY"
    await here.set_mode(None, "READWRITE")
    await here.set_compatibility(None, "FORWARD")
    await here.register(X, record("X", "a", "b"))
    await here.set_mode(None, "READONLY")
    await found.mirror_all()
    assert not found.settings_problems
    assert not found.problems
    assert await there.mode(None) == "READONLY"
    assert await there.global_compatibility() == "FORWARD"
    assert ("schema registry", "FULL", "FORWARD") in registries.of("set_compatibility")


async def test_ids_that_are_the_same_in_both_directions(registries: Both) -> None:
    """Mode IMPORT is on the side that is mirrored to; what is registered on the other one comes by the flow back."""
    here, there, _ = registries
    order = subject("com.acme.Order")
    await here.register(order, record("Order", "a"))
    forth, back = registries.mirror("same"), Both(there, here, []).mirror("same")
    for _ in range(2):
        await forth.mirror_all()
        await back.mirror_all()
    assert (await here.mode(order), await there.mode(order)) == (None, "IMPORT")
    assert (await registries.end_imports()).ended == {order: None}
    second = await there.register(order, record("Order", "a", "b"))
    await back.mirror_all()
    came = await here.by_id(second.id, ".")
    assert came is not None
    assert came.text_content == record("Order", "a", "b").text_content
    assert await here.mode(order) == "IMPORT"
    assert (await Both(there, here, []).end_imports()).ended == {order: None}
    await here.register(order, record("Order", "a", "b", "c"))
    # In the life that has set the mode already.
    await forth.mirror_all()
    assert not forth.problems
    assert not back.problems
    assert (await there.contents(order)).live == {1, 2, 3}
    assert await there.mode(order) == "IMPORT"


async def test_what_ends_mode_import_may_be_done_again(registries: Both) -> None:
    """And says first what it would do; without the source other contexts are the flow's where no other one is."""
    here, there, changes = registries
    inner, closed = Subject(".c", "x"), subject("closed")
    for one in (X, closed, inner):
        await here.register(one, record("X", "a"))
    await here.set_mode(closed, "READONLY")
    await registries.mirror("same").mirror_all()
    changes.clear()
    would = await registries.end_imports(dry=True)
    assert would.ended == {REMOTE: None, closed: "READONLY", inner: None}
    assert not changes
    gone = await registries.end_imports(dry=True, gone=True, known_ids={1})
    assert (gone.ended, gone.left) == ({REMOTE: None, closed: None}, [inner])
    gone = await registries.end_imports(dry=True, gone=True, known_ids={1}, alone=True)
    assert gone.ended == {REMOTE: None, closed: None, inner: None}
    await there.clear_mode(REMOTE)
    ended = await registries.end_imports()
    assert ended.ended == {closed: "READONLY", inner: None}
    assert sorted(registries.of("set_mode")) == [
        ("schema :.c:x", "IMPORT", None),
        ("schema closed", "IMPORT", "READONLY"),
    ]
    assert (await registries.end_imports()).ended == {}
    assert [await there.mode(one) for one in (REMOTE, closed, inner)] == [None, "READONLY", None]
