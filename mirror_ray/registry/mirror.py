"""Mirrors the subjects of one registry into another, round by round."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.records.schema_id_records import IdsWay
from mirror_ray.registry.client import RegistryRefusedError
from mirror_ray.registry.global_settings import GlobalSettings
from mirror_ray.registry.order import registration_order
from mirror_ray.registry.recorded_changes import RecordedChanges
from mirror_ray.registry.registration import NOT_ASKED, SchemaRegistration
from mirror_ray.registry.registry import SchemaRegistry, SubjectContents, by_subject
from mirror_ray.registry.schema import RegisteredSchema, Subject, SubjectVersion
from mirror_ray.registry.subject_settings import SubjectSettings
from mirror_ray.registry.subjects import SubjectRules
from mirror_ray.registry.together import each, pieces


class SchemaMirror:
    """One flow's registries. One round at a time."""

    def __init__(
        self,
        source: SchemaRegistry,
        target: SchemaRegistry,
        rules: SubjectRules,
        way: IdsWay,
        audit_log: AuditLog,
        *,
        with_globals: bool = False,
    ) -> None:
        """``way``: how ids are copied. ``audit_log`` keeps what is changed on the target.

        ``with_globals``: what holds for subjects without settings of their own is mirrored, too.
        """
        self._source, self._target, self._rules = source, target, rules
        self._changes = RecordedChanges(target, audit_log)
        self._registration = SchemaRegistration(target, rules, way, audit_log)
        #: Levels and modes.
        self.settings = SubjectSettings(source, target, rules, self._registration, self._changes, way=way)
        #: What holds for the others; None: that is the target's own.
        self.globals: GlobalSettings | None = None
        if with_globals:
            self.globals = GlobalSettings(source, target, rules.contexts, self._changes, way=way)
        #: Every version that the source has, or had.
        self.schemas: dict[SubjectVersion, RegisteredSchema] = {}
        #: Versions that were soft-deleted on the source alone, and why.
        self.undeleted: dict[SubjectVersion, str] = {}

    @property
    def mirrored(self) -> dict[SubjectVersion, RegisteredSchema]:
        """What source versions are on the target."""
        return self._registration.mirrored

    @property
    def problems(self) -> dict[SubjectVersion, str]:
        """Why source versions are not on the target."""
        return self._registration.problems

    @property
    def settings_problems(self) -> list[str]:
        """Why levels and modes are not those of the source."""
        of_all = self.globals.problems.values() if self.globals is not None else ()
        return [*of_all, *self.settings.problems.values()]

    async def mirror_all(self) -> list[SubjectVersion]:
        """Look at everything on both sides, and mirror what is missing; returns what the target has since.

        Raises:
            MirrorError: A registry can't be reached, or does not answer as one; the next round goes on from here.
        """
        listed = await self._source.listed()
        if listed is None:
            found = [subject for subject in await self._source.subjects() if self._rules.mirrors(subject)]
            return await self.mirror_subjects(found, again=True)
        chosen = {schema.at: schema for schema in listed if self._rules.mirrors(schema.at.subject)}
        self.schemas |= chosen
        everything = await self._target.listed()
        if everything is None:
            await self._know({self._rules.target(at.subject) for at in chosen})
        else:
            there = by_subject(everything)
            targets = {self._rules.target(at.subject) for at in chosen}
            self._registration.know({subject: there.get(subject, []) for subject in targets})
        return await self._mirror({at.subject for at in chosen}, again=True)

    async def mirror_subjects(self, subjects: Collection[Subject], *, again: bool = False) -> list[SubjectVersion]:
        """The same for some subjects; ``again``: look at the target's, too, where they were looked at before."""
        for schema in await self._read(subjects):
            self.schemas[schema.at] = schema
        if again:
            await self._know({self._rules.target(subject) for subject in subjects})
        return await self._mirror(set(subjects), again=again)

    async def mirror_id(self, schema_id: int, context: str, *, needed: bool = True) -> bool:
        """Mirror what has an id on the source; returns whether the source has it.

        ``needed``: a record has it, so that its subject needs not be included, but is not to be excluded.
        """
        schema = await self._source.by_id(schema_id, context)
        if schema is None:
            return False
        may = self._rules.may_mirror if needed else self._rules.mirrors
        uses = [use for use in await self._source.uses_of(schema_id, context) if may(use.subject)]
        await self.mirror_subjects({use.subject for use in uses})
        if uses and schema_id not in {self.schemas[use].id for use in uses if use in self.schemas}:
            # Of a subject that was soft-deleted as a whole some servers tell the ids alone.
            self.schemas[uses[0]] = RegisteredSchema(at=uses[0], id=schema_id, schema=schema, deleted=True)
            await self._mirror({uses[0].subject})
        return True

    async def new_subjects(self) -> list[Subject]:
        """Subjects of the source that were not seen yet."""
        known = {at.subject for at in self.schemas}
        return [one for one in await self._source.subjects() if one not in known and self._rules.mirrors(one)]

    async def _read(self, subjects: Collection[Subject]) -> list[RegisteredSchema]:
        """The versions of source subjects; what is known of them already is not asked for again."""
        found: list[RegisteredSchema] = []
        for together in pieces(list(subjects)):
            contents = await asyncio.gather(*map(self._source.contents, together))
            asked = []
            for subject, content in zip(together, contents, strict=True):
                for number in content.live | content.deleted:
                    at, deleted = SubjectVersion(subject, number), number in content.deleted
                    known = self.schemas.get(at)
                    if known is None:
                        asked.append(self._source.schema(at, deleted=deleted))
                    elif known.deleted != deleted:
                        found.append(replace(known, deleted=deleted))
            found += [schema for schema in await asyncio.gather(*asked) if schema is not None]
        return found

    async def _know(self, targets: Collection[Subject]) -> None:
        """Look at subjects of the target."""
        self._registration.know(await each(sorted(targets), self._look))

    async def _look(self, subject: Subject) -> list[RegisteredSchema]:
        """What a subject of the target has; what is known of it is not asked for again."""
        contents = await self._target.contents(subject)
        found, fresh = list[RegisteredSchema](), SubjectContents(set(contents.live), set(contents.deleted))
        for schema in self._registration.known(subject):
            number = schema.at.version
            if number in contents.live or number in contents.deleted:
                found.append(replace(schema, deleted=number in contents.deleted))
                fresh.live.discard(number)
                fresh.deleted.discard(number)
        return found + await self._target.versions(subject, fresh)

    async def _mirror(self, subjects: Collection[Subject], *, again: bool = False) -> list[SubjectVersion]:
        await self._add_referenced()
        missing = {at: schema for at, schema in self.schemas.items() if at not in self.mirrored}
        order = registration_order(missing.values(), self.mirrored.keys())
        self.problems.update(order.refused)
        unknown = self._registration.unknown(missing[at] for at in order.before)
        if unknown:
            await self._know(unknown)
        try:
            done = await self._registration.register(self.schemas, order.before, self.settings.open)
            await self._delete(self._deleted_since(again=again))
        finally:
            there = {at.subject for at in self.mirrored} & {*subjects, *(at.subject for at in order.before)}
            at_once = {subject for subject in there if self.settings.is_urgent(subject)} if again else there
            await self.settings.settle(at_once)
        if again:
            if self.globals is not None:
                await self.globals.settle({at.subject.context for at in self.mirrored})
            self.settings.settle_later(there - at_once)
            await self.settings.settle_some()
        return done

    async def _add_referenced(self) -> None:
        """Mirror what mirrored schemas refer to, too, unless it is excluded."""
        while True:
            references = {one.to for schema in self.schemas.values() for one in schema.schema.references}
            missing = [at for at in references - self.schemas.keys() if self._rules.may_mirror(at.subject)]
            found = [schema for schema in await self._read_each(missing) if schema.at not in self.schemas]
            if not found:
                return
            self.schemas |= {schema.at: schema for schema in found}

    async def _read_each(self, wanted: Iterable[SubjectVersion]) -> list[RegisteredSchema]:
        async def read(at: SubjectVersion) -> RegisteredSchema | None:
            return await self._source.schema(at) or await self._source.schema(at, deleted=True)

        return [schema for schema in (await each(wanted, read)).values() if schema is not None]

    def _deleted_since(self, *, again: bool) -> dict[SubjectVersion, RegisteredSchema]:
        """What was soft-deleted on the source, and is not on the target; ``again``: what was refused before, too."""
        deleted = {
            at: target
            for at, target in self.mirrored.items()
            if self.schemas[at].deleted
            and not target.deleted
            and target.at.version != NOT_ASKED
            and (again or at not in self.undeleted)
        }
        if not deleted:
            return {}
        # What came back may be there as it was before it went.
        kept = {target.at for at, target in self.mirrored.items() if not self.schemas[at].deleted}
        return {at: target for at, target in deleted.items() if target.at not in kept}

    async def _delete(self, deleted: Mapping[SubjectVersion, RegisteredSchema]) -> None:
        await self.settings.open({target.at.subject for target in deleted.values()})
        for at, target in deleted.items():
            try:
                await self._changes.delete(target.at, f"{at} was soft-deleted on the source")
            except RegistryRefusedError as error:
                self.undeleted[at] = str(error)
            else:
                self.mirrored[at] = replace(target, deleted=True)
                self.undeleted.pop(at, None)
