"""Puts schemas into the target's registry, each before what refers to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from typing import Final

from mirror_ray.kafka.audit_log import AuditLog, recorded_async
from mirror_ray.model.cluster_change import ClusterChange
from mirror_ray.model.errors import MirrorError
from mirror_ray.records.schema_id_records import IdsWay
from mirror_ray.registry.client import RegistryRefusedError
from mirror_ray.registry.comparison import Conflict, Found, Lineage, compare, id_taken, renamed
from mirror_ray.registry.order import Before
from mirror_ray.registry.recorded_changes import RecordedChanges
from mirror_ray.registry.registry import SchemaRegistry
from mirror_ray.registry.schema import RegisteredSchema, Schema, Subject, SubjectVersion
from mirror_ray.registry.subjects import SubjectRules
from mirror_ray.registry.together import pieces

#: Of the API: the schema is not compatible with earlier versions.
_INCOMPATIBLE: Final = 409
#: The level at which a subject takes each of its source's versions.
_ANY: Final = "NONE"
#: The version of a schema that was registered, and whose version nothing needs.
NOT_ASKED: Final = 0


class SchemaConflictError(MirrorError):
    """The target has something else where a schema belongs."""


class SchemaRegistration:
    """The target's side of a mirror. What it did is in ``mirrored``, what it could not do in ``problems``."""

    def __init__(self, target: SchemaRegistry, rules: SubjectRules, way: IdsWay, audit_log: AuditLog) -> None:
        """``way``: how ids are copied; in ``same`` the target knows the mode IMPORT."""
        self._target, self._rules, self._way, self._audit_log = target, rules, way, audit_log
        self._changes = RecordedChanges(target, audit_log)
        #: What source versions are on the target.
        self.mirrored: dict[SubjectVersion, RegisteredSchema] = {}
        #: Why source versions are not there.
        self.problems: dict[SubjectVersion, str] = {}
        #: Subjects of the target whose level was lowered for earlier versions: it is to be set again.
        self.loosened: set[Subject] = set()
        self._importing: set[Subject] = set()
        #: The versions of the target's subjects that were looked at.
        self._known: dict[Subject, list[RegisteredSchema]] = {}
        #: Those that had some then: the registry may find a schema there whose text differs.
        self._filled: set[Subject] = set()
        #: What the source's subjects have had that are being registered.
        self._lineages: Mapping[Subject, Lineage] = {}
        #: Versions of the source that others refer to.
        self._referenced: set[SubjectVersion] = set()

    def know(self, contents: Mapping[Subject, Sequence[RegisteredSchema]]) -> None:
        """Note what subjects of the target have; what they have no longer is not mirrored any more."""
        self._known |= {subject: list(schemas) for subject, schemas in contents.items()}
        for at, target in list(self.mirrored.items()):
            if target.at.subject in contents:
                there = [one for one in contents[target.at.subject] if one.id == target.id]
                if not there:
                    del self.mirrored[at]
                elif target.at.version == NOT_ASKED:
                    # A schema that came back has the same id as before it was soft-deleted.
                    self.mirrored[at] = max(there, key=lambda one: (not one.deleted, one.at))
        self._filled |= {subject for subject, schemas in contents.items() if schemas}

    def known(self, subject: Subject) -> Sequence[RegisteredSchema]:
        """What a subject of the target had when it was looked at, and was given since."""
        return self._known.get(subject, ())

    def was_filled(self, subject: Subject) -> bool:
        """Whether a subject of the target had something when it was looked at."""
        return subject in self._filled

    def unknown(self, schemas: Iterable[RegisteredSchema]) -> set[Subject]:
        """The target's subjects of these schemas that were not looked at yet."""
        return {self._rules.target(schema.at.subject) for schema in schemas} - self._known.keys()

    async def register(
        self,
        schemas: Mapping[SubjectVersion, RegisteredSchema],
        before: Before,
        opened: Callable[[Collection[Subject]], Awaitable[None]],
    ) -> list[SubjectVersion]:
        """Register what of ``schemas`` is in ``before``, in that order; returns what the target has now.

        ``opened``: has subjects of the target take something.

        Raises:
            MirrorError: The registry can't be reached; what it got is in ``mirrored``.
        """
        sorter, done = TopologicalSorter(before), list[SubjectVersion]()
        sorter.prepare()
        self._referenced |= {one.to for at in before for one in schemas[at].schema.references}
        self._lineages = _lineages(schemas, {at.subject for at in before})
        while sorter.is_active():
            for together in pieces(sorter.get_ready()):
                wanted = self._wanted(together, schemas)
                if wanted:
                    await opened({self._rules.target(at.subject) for at in wanted})
                    await self._register(wanted, schemas)
                done += [at for at in together if at in self.mirrored]
                sorter.done(*together)
        return done

    def _wanted(
        self, together: Collection[SubjectVersion], schemas: Mapping[SubjectVersion, RegisteredSchema]
    ) -> dict[SubjectVersion, Schema]:
        """Which of these the target neither has nor can't have, as it should have them."""
        wanted: dict[SubjectVersion, Schema] = {}
        for at in together:
            source = schemas[at]
            missing = [one.to for one in source.schema.references if one.to not in self.mirrored]
            if missing:
                self.problems[at] = (
                    f"it refers to {missing[0]}, which is not on the target: {self.problems[missing[0]]}"
                )
                continue
            schema, subject = self._renamed(source.schema), self._rules.target(at.subject)
            there = self._known.get(subject, [])
            match compare(source, schema, subject, there, way=self._way, lineage=self._lineages[at.subject]):
                case Found(target):
                    self._settle(at, target)
                case Conflict(text):
                    self.problems[at] = text
                case _:
                    wanted[at] = schema
        return wanted

    async def _register(
        self, wanted: Mapping[SubjectVersion, Schema], schemas: Mapping[SubjectVersion, RegisteredSchema]
    ) -> None:
        changes = {at: self._change(schemas[at]) for at in wanted}
        outcomes = await recorded_async(self._audit_log, changes, lambda: self._act(wanted, schemas))
        self.problems |= {at: str(error) for at, error in outcomes.items() if error is not None}

    async def _act(
        self, wanted: Mapping[SubjectVersion, Schema], schemas: Mapping[SubjectVersion, RegisteredSchema]
    ) -> dict[SubjectVersion, MirrorError | None]:
        async def put(at: SubjectVersion) -> MirrorError | None:
            try:
                await self._put(schemas[at], wanted[at])
            except (RegistryRefusedError, SchemaConflictError) as error:
                return error
            return None

        return dict(zip(wanted, await asyncio.gather(*map(put, wanted)), strict=True))

    async def _put(self, source: RegisteredSchema, schema: Schema) -> None:
        subject = self._rules.target(source.at.subject)
        if self._way == "same":
            target = await self._import(source, schema, SubjectVersion(subject, source.at.version))
        else:
            target = await self._translate(
                schema,
                subject,
                ask_version=source.at in self._referenced or source.deleted,
                deleted=not self._lineages[source.at.subject].is_back(source),
            )
        if source.deleted and not target.deleted:
            await self._changes.delete(target.at, f"{source.at} was soft-deleted on the source")
            target = replace(target, deleted=True)
        self._known.setdefault(subject, []).append(target)
        self._settle(source.at, target)

    async def _translate(
        self, schema: Schema, subject: Subject, *, ask_version: bool, deleted: bool
    ) -> RegisteredSchema:
        """``deleted``: a soft-deleted version of the target will do."""
        # By its own comparison the registry may have what differs by text.
        found = await self._target.lookup(subject, schema, deleted=deleted) if subject in self._filled else None
        if found is None:
            try:
                given = await self._target.register(subject, schema)
            except RegistryRefusedError as error:
                if error.status != _INCOMPATIBLE:
                    raise
                self.loosened.add(subject)
                why = "the source has earlier versions that the level refuses; it is set again when they are there"
                await self._changes.set_level(subject, _ANY, before=None, why=why)
                given = await self._target.register(subject, schema)
            if given.version is not None or not ask_version:
                at = SubjectVersion(subject, given.version or NOT_ASKED)
                return RegisteredSchema(at=at, id=given.id, schema=schema, guid=given.guid)
            found = await self._target.lookup(subject, schema)
        if found is None:
            raise SchemaConflictError(f"{subject}: the target's registry took a schema, and does not find it again")
        return replace(found, at=SubjectVersion(subject, found.at.version))

    async def _import(self, source: RegisteredSchema, schema: Schema, at: SubjectVersion) -> RegisteredSchema:
        try:
            await self._import_in_mode(source, schema, at)
        except RegistryRefusedError:
            other = await self._target.by_id(source.id, at.subject.context)
            if other is None or other.content == schema.content:
                raise
            raise SchemaConflictError(id_taken(source, schema, other).text) from None
        return RegisteredSchema(at=at, id=source.id, schema=schema, guid=source.guid)

    async def _import_in_mode(self, source: RegisteredSchema, schema: Schema, at: SubjectVersion) -> None:
        await self._set_import_mode(at.subject)
        try:
            await self._target.import_version(at, source.id, schema)
        except RegistryRefusedError:
            if await self._target.mode(at.subject) == "IMPORT":
                raise
            # It was ended meanwhile, as by a failback to this side.
            self._importing.discard(at.subject)
            await self._set_import_mode(at.subject)
            await self._target.import_version(at, source.id, schema)

    async def _set_import_mode(self, subject: Subject) -> None:
        if subject not in self._importing:
            why, force = "ids and versions are the source's", bool(self._known.get(subject))
            await self._changes.set_mode(subject, "IMPORT", before=None, why=why, force=force)
            self._importing.add(subject)

    def _settle(self, at: SubjectVersion, target: RegisteredSchema) -> None:
        self.mirrored[at] = target
        self.problems.pop(at, None)

    def _renamed(self, schema: Schema) -> Schema:
        return renamed(schema, {one.to: self.mirrored[one.to].at for one in schema.references})

    def _change(self, source: RegisteredSchema) -> ClusterChange:
        given = f"id {source.id}, version {source.at.version}" if self._way == "same" else "an id of the target's own"
        return ClusterChange(
            kind="register_schema",
            cluster=self._target.alias,
            subject=f"schema {self._rules.target(source.at.subject)}",
            after=given,
            why=f"{source.at} has id {source.id} on the source",
        )


def _lineages(
    schemas: Mapping[SubjectVersion, RegisteredSchema], subjects: Collection[Subject]
) -> dict[Subject, Lineage]:
    """What these subjects have had."""
    found: dict[Subject, list[RegisteredSchema]] = {subject: [] for subject in subjects}
    for at, schema in schemas.items():
        if at.subject in found:
            found[at.subject].append(schema)
    return {subject: Lineage.of(history) for subject, history in found.items()}
