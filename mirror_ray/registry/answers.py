"""Reads what a registry answers: Confluent's JSON, checked, since a proxy may answer in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from mirror_ray.model.errors import MirrorError
from mirror_ray.registry.schema import RegisteredSchema, Schema, SchemaReference, Subject, SubjectVersion

_T = TypeVar("_T")

#: Confluent leaves the kind out where it is Avro.
_DEFAULT_KIND = "AVRO"


class GivenIdentity(NamedTuple):
    """What a registry gave a schema: the id, and what else its answer says."""

    id: int
    #: None: the server does not say.
    version: int | None = None
    guid: bytes | None = None


class RegistryAnswerError(MirrorError):
    """A registry's answer is not what was asked for: perhaps something else answers at its URL."""


def subjects_of(answer: Any) -> list[Subject]:
    """Read a list of subjects.

    Raises:
        RegistryAnswerError: It is none.
    """
    return [Subject.parse(_of_type(name, str, "a subject")) for name in _of_type(answer, list, "a list of subjects")]


def versions_of(answer: Any) -> list[int]:
    """Read a list of versions.

    Raises:
        RegistryAnswerError: It is none.
    """
    return [_of_type(number, int, "a version") for number in _of_type(answer, list, "a list of versions")]


def registered_schema_of(answer: Any, *, deleted: bool = False) -> RegisteredSchema:
    """Read a version of a subject; ``deleted`` where the answer does not say so itself.

    Raises:
        RegistryAnswerError: It is none.
    """
    fields = _of_type(answer, dict, "a version of a subject")
    subject = Subject.parse(_field(fields, "subject", str))
    guid = fields.get("guid")
    return RegisteredSchema(
        at=SubjectVersion(subject, _field(fields, "version", int)),
        id=_field(fields, "id", int),
        guid=guid_of(guid) if guid is not None else None,
        deleted=deleted or fields.get("deleted") is True,
        schema=schema_of(fields, subject.context),
    )


def schema_of(answer: Any, context: str) -> Schema:
    """Read a schema; subjects that it refers to are in ``context`` unless they say another.

    Raises:
        RegistryAnswerError: It is none.
    """
    fields = _of_type(answer, dict, "a schema")
    references = fields.get("references") or []
    return Schema(
        kind=_of_type(fields.get("schemaType") or _DEFAULT_KIND, str, "schemaType"),
        text=_field(fields, "schema", str),
        references=tuple(_reference(one, context) for one in _of_type(references, list, "references")),
        metadata=_of_type(fields.get("metadata") or {}, dict, "metadata") or None,
        rule_set=_of_type(fields.get("ruleSet") or {}, dict, "ruleSet") or None,
    )


def subject_versions_of(answer: Any) -> list[SubjectVersion]:
    """Read the list of subjects and versions that have a schema.

    Raises:
        RegistryAnswerError: It is none.
    """
    found = _of_type(answer, list, "a list of subjects and versions")
    pairs = [_of_type(one, dict, "a subject and a version") for one in found]
    return [SubjectVersion(Subject.parse(_field(one, "subject", str)), _field(one, "version", int)) for one in pairs]


def given_of(answer: Any) -> GivenIdentity:
    """Read what a schema was given when it was registered.

    Raises:
        RegistryAnswerError: There is no id.
    """
    fields = _of_type(answer, dict, "the id of a schema")
    version, guid = fields.get("version"), fields.get("guid")
    return GivenIdentity(
        id=_field(fields, "id", int),
        version=None if version is None else _of_type(version, int, "a version"),
        guid=None if guid is None else guid_of(guid),
    )


def ids_of(answer: Any) -> list[tuple[str, int]]:
    """Read the list of contexts and ids that a GUID has there.

    Raises:
        RegistryAnswerError: It is none.
    """
    found = [_of_type(one, dict, "a context and an id") for one in _of_type(answer, list, "a list of ids")]
    return [(_field(one, "context", str), _field(one, "id", int)) for one in found]


def guid_of(text: Any) -> bytes:
    """Read a GUID.

    Raises:
        RegistryAnswerError: It is none.
    """
    try:
        guid = bytes.fromhex(_of_type(text, str, "a GUID").replace("-", ""))
    except ValueError:
        guid = b""
    if len(guid) != 16:
        raise RegistryAnswerError(f"not a GUID: {shown(text)}")
    return guid


def request_of(schema: Schema, rename: Mapping[SubjectVersion, SubjectVersion] | None = None) -> dict[str, Any]:
    """The body that registers a schema; ``rename``: what its references are to point to instead."""
    body: dict[str, Any] = {"schema": schema.text}
    if schema.kind != _DEFAULT_KIND:
        body["schemaType"] = schema.kind
    if schema.references:
        targets = [(one.name, (rename or {}).get(one.to, one.to)) for one in schema.references]
        body["references"] = [{"name": name, "subject": str(to.subject), "version": to.version} for name, to in targets]
    if schema.metadata:
        body["metadata"] = dict(schema.metadata)
    if schema.rule_set:
        body["ruleSet"] = dict(schema.rule_set)
    return body


def shown(value: Any) -> str:
    """The beginning of what was answered, for an error."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _reference(answer: Any, context: str) -> SchemaReference:
    fields = _of_type(answer, dict, "a reference")
    subject = Subject.parse(_field(fields, "subject", str), context)
    return SchemaReference(_field(fields, "name", str), SubjectVersion(subject, _field(fields, "version", int)))


def _field(fields: dict[str, Any], name: str, kind: type[_T]) -> _T:
    return _of_type(fields.get(name), kind, name)


def _of_type(value: Any, kind: type[_T], what: str) -> _T:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise RegistryAnswerError(f"not {what}: {shown(value)}")
    return value
