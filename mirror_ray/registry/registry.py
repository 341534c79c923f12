"""A schema registry by Confluent's API: what it has, and how something gets into it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args

from mirror_ray.registry.answers import (
    GivenIdentity,
    RegistryAnswerError,
    given_of,
    ids_of,
    registered_schema_of,
    request_of,
    schema_of,
    subject_versions_of,
    subjects_of,
    versions_of,
)
from mirror_ray.registry.client import RegistryClient, RegistryRefusedError
from mirror_ray.registry.schema import RegisteredSchema, Schema, Subject, SubjectVersion

_T = TypeVar("_T")

#: Of a version that is soft-deleted already.
_DELETED_ALREADY: Final = frozenset({40406, 40404})
#: The prefix that finds subjects of all contexts, where the server has some.
_EVERY_CONTEXT: Final = ":*:"
#: A page of the listing of all schemas.
_PAGE: Final = 1000

#: Of a subject. ``IMPORT``: ids and versions are given by whoever registers.
Mode = Literal["READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD"]


class SubjectContents(NamedTuple):
    """The versions of a subject: those that are there, and those that are soft-deleted."""

    live: set[int]
    deleted: set[int]


class SchemaRegistry:
    """Reads and writes one registry. Raises what ``RegistryClient.request`` raises."""

    def __init__(self, client: RegistryClient) -> None:
        """``client``: entered for as long as this is used."""
        self._client = client

    @property
    def alias(self) -> str:
        """Of the cluster that it belongs to."""
        return self._client.alias

    @property
    def requests(self) -> int:
        """How many were sent."""
        return self._client.requests

    async def subjects(self) -> list[Subject]:
        """Every subject, those with soft-deleted versions alone, too; of every context that the server lists."""
        answer = await self._client.get("subjects", deleted="true", subjectPrefix=_EVERY_CONTEXT)
        return self._read(subjects_of, answer)

    async def contents(self, subject: Subject) -> SubjectContents:
        """The versions of a subject; none where it is not there."""
        every, live = await asyncio.gather(
            self._client.find("subjects", subject, "versions", deleted="true"),
            self._client.find("subjects", subject, "versions"),
        )
        there = set(self._read(versions_of, live or []))
        return SubjectContents(there, set(self._read(versions_of, every or [])) - there)

    async def schema(self, at: SubjectVersion, *, deleted: bool = False) -> RegisteredSchema | None:
        """One version; ``deleted``: whether it is a soft-deleted one. None: it is not there."""
        query = {"deleted": "true"} if deleted else {}
        answer = await self._client.find("subjects", at.subject, "versions", at.version, **query)
        if answer is None:
            return None
        found = self._read(lambda one: registered_schema_of(one, deleted=deleted), answer)
        # Some servers leave the context of the subject out that was asked for.
        if found.at.version != at.version or found.at.subject.name != at.subject.name:
            raise RegistryAnswerError(
                f"the schema registry of {self.alias}: asked for {at}, it answers with {found.at}"
            )
        return found

    async def versions(self, subject: Subject, contents: SubjectContents) -> list[RegisteredSchema]:
        """These versions of a subject; what was deleted meanwhile is left out."""
        asked = [
            *(self.schema(SubjectVersion(subject, number)) for number in sorted(contents.live)),
            *(self.schema(SubjectVersion(subject, number), deleted=True) for number in sorted(contents.deleted)),
        ]
        return [schema for schema in await asyncio.gather(*asked) if schema is not None]

    async def listed(self) -> list[RegisteredSchema] | None:
        """Every schema there is, page by page; None: the server has no such listing."""
        found: list[RegisteredSchema] = []
        seen: set[SubjectVersion] = set()
        while True:
            try:
                page = await self._client.get(
                    "schemas", deleted="true", subjectPrefix=_EVERY_CONTEXT, offset=len(found), limit=_PAGE
                )
            except RegistryRefusedError:
                return None
            if not isinstance(page, list):
                return None
            fresh = [schema for schema in self._read(_all_of, page) if schema.at not in seen]
            seen.update(schema.at for schema in fresh)
            found += fresh
            # A server that knows no pages answers with all, again and again.
            if len(page) < _PAGE or len(page) > _PAGE or not fresh:
                return found

    async def by_id(self, schema_id: int, context: str) -> Schema | None:
        """The schema of an id; None: there is none."""
        subject = {} if context == "." else {"subject": f":{context}:"}
        answer = await self._client.find("schemas", "ids", schema_id, **subject)
        return None if answer is None else self._read(lambda one: schema_of(one, context), answer)

    async def uses_of(self, schema_id: int, context: str) -> list[SubjectVersion]:
        """The subjects and versions that have an id."""
        subject = {} if context == "." else {"subject": f":{context}:"}
        answer = await self._client.find("schemas", "ids", schema_id, "versions", deleted="true", **subject)
        return [] if answer is None else self._read(subject_versions_of, answer)

    async def ids_of_guid(self, guid: bytes) -> list[tuple[str, int]]:
        """The contexts and ids that a GUID has; none where the server has no such schema, or knows no GUIDs."""
        answer = await self._client.find("schemas", "guids", uuid.UUID(bytes=guid), "ids")
        return [] if answer is None else self._read(ids_of, answer)

    async def lookup(self, subject: Subject, schema: Schema, *, deleted: bool = True) -> RegisteredSchema | None:
        """The version of a subject that has this schema, by the server's own comparison; None: none has.

        ``deleted``: a soft-deleted one counts.
        """
        query = {"deleted": "true"} if deleted else {}
        try:
            answer = await self._client.request("POST", ("subjects", subject), request_of(schema), query)
        except RegistryRefusedError as error:
            if error.status == 404:
                return None
            raise
        return self._read(registered_schema_of, answer)

    async def register(self, subject: Subject, schema: Schema) -> GivenIdentity:
        """Register a schema as the subject's next version, unless it has it."""
        answer = await self._client.request("POST", ("subjects", subject, "versions"), request_of(schema))
        return self._read(given_of, answer)

    async def import_version(self, at: SubjectVersion, schema_id: int, schema: Schema) -> None:
        """Register a schema under this id, as this version. The subject is in mode IMPORT."""
        body = request_of(schema) | {"id": schema_id, "version": at.version}
        given = self._read(given_of, await self._client.request("POST", ("subjects", at.subject, "versions"), body))
        if given.id != schema_id:
            raise RegistryAnswerError(
                f"the schema registry of {self.alias} gave {at} the id {given.id}, where {schema_id} was asked for: it "
                "has no mode IMPORT; set schemas.ids = translated"
            )

    async def delete(self, at: SubjectVersion) -> None:
        """Soft-delete a version, unless it is deleted."""
        try:
            await self._client.request("DELETE", ("subjects", at.subject, "versions", at.version))
        except RegistryRefusedError as error:
            if error.status != 404 and error.code not in _DELETED_ALREADY:
                raise

    async def compatibility(self, subject: Subject) -> str | None:
        """The level that holds for a subject; None: there is no such subject, so that the global one would."""
        answer = await self._client.find("config", subject, defaultToGlobal="true")
        return _text(answer, "compatibilityLevel", "compatibility")

    async def global_compatibility(self) -> str | None:
        """The level that holds for subjects without one of their own."""
        return await self.own_compatibility(None)

    async def own_compatibility(self, subject: Subject | None) -> str | None:
        """A subject's own level, or the global one; None: it has none. A context is a subject without a name."""
        return _text(await self._client.find(*_settings("config", subject)), "compatibilityLevel", "compatibility")

    async def set_compatibility(self, subject: Subject | None, level: str) -> None:
        """Set a subject's compatibility level, or the global one."""
        await self._client.request("PUT", _settings("config", subject), {"compatibility": level})

    async def mode(self, subject: Subject | None) -> Mode | None:
        """A subject's own mode, or the global one; None: it has none, or the server knows none."""
        return _mode(await self._client.find(*_settings("mode", subject)))

    async def set_mode(self, subject: Subject | None, mode: Mode, *, force: bool = False) -> None:
        """Set a subject's mode, or the global one; ``force``: IMPORT even where it has versions already."""
        query = {"force": "true"} if force else {}
        await self._client.request("PUT", _settings("mode", subject), {"mode": mode}, query)

    async def clear_mode(self, subject: Subject) -> None:
        """Have the global mode hold for a subject again."""
        await self._client.request("DELETE", ("mode", subject))

    def _read(self, parse: Callable[[Any], _T], answer: Any) -> _T:
        try:
            return parse(answer)
        except RegistryAnswerError as error:
            raise RegistryAnswerError(
                f"the schema registry of {self.alias} answers with something else than was asked for: {error}; check "
                f"{self.alias}.schema.registry.url"
            ) from error


def _all_of(page: list[Any]) -> list[RegisteredSchema]:
    return [registered_schema_of(one) for one in page]


def _settings(kind: str, subject: Subject | None) -> tuple[object, ...]:
    """The path of a subject's settings, or of the global ones."""
    return (kind,) if subject is None else (kind, subject)


def _mode(answer: Any) -> Mode | None:
    text = _text(answer, "mode")
    return next((mode for mode in get_args(Mode) if mode == text), None)


def _text(answer: Any, *names: str) -> str | None:
    if not isinstance(answer, Mapping):
        return None
    return next((answer[name] for name in names if isinstance(answer.get(name), str)), None)


def by_subject(schemas: Iterable[RegisteredSchema]) -> dict[Subject, list[RegisteredSchema]]:
    """Schemas by their subjects, versions ascending."""
    found: dict[Subject, list[RegisteredSchema]] = {}
    for schema in sorted(schemas, key=lambda one: one.at):
        found.setdefault(schema.at.subject, []).append(schema)
    return found
