"""How a schema gets its id and its version, in the modes that Confluent's registry has."""

from __future__ import annotations

import json
from typing import Any

from tests.support.import_registry.store import Content, Reference, RefusedError, Store, Subject, Version

KINDS = ("JSON", "PROTOBUF", "AVRO")


def content_of(store: Store, subject: Subject, body: dict[str, Any]) -> Content:
    """The schema of a request, in the one form that the registry keeps: JSON without white space.

    Raises:
        RefusedError: It is no schema, or refers to what is not there.
    """
    kind, text = body.get("schemaType") or "AVRO", body.get("schema") or ""
    if kind not in KINDS:
        raise RefusedError(422, 42201, f"Invalid schema type {kind}")
    if not text.strip():
        raise RefusedError(422, 42201, "Empty schema")
    if kind != "PROTOBUF":
        try:
            text = json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)
        except ValueError as error:
            raise RefusedError(422, 42201, f"Invalid schema of type {kind}, details: {error}") from None
    references = tuple(Reference(one["name"], one["subject"], one["version"]) for one in body.get("references") or ())
    for one in references:
        named = Subject.parse(one.subject, subject.context)
        if one.version not in store.subjects.get(named, {}):
            what = f'No schema reference found for subject "{named}" and version {one.version}'
            raise RefusedError(422, 42201, f"Invalid schema, details: {what}")
    more = [json.dumps(body[key], sort_keys=True) if body.get(key) else "" for key in ("metadata", "ruleSet")]
    return Content(kind, text, references, *more)


def check_mode(store: Store, subject: Subject, *, with_id: bool) -> bool:
    """Whether the subject's mode is IMPORT.

    Raises:
        RefusedError: Its mode does not take such a registration.
    """
    mode = store.in_scope(subject, store.modes) or "READWRITE"
    what = f"Subject {subject} in context {subject.context}"
    if mode in {"READONLY", "READONLY_OVERRIDE"}:
        raise RefusedError(422, 42205, f"{what} is in read-only mode")
    if with_id and mode != "IMPORT":
        raise RefusedError(422, 42205, f"{what} is not in import mode")
    if not with_id and mode != "READWRITE":
        raise RefusedError(422, 42205, f"{what} is not in read-write mode")
    return mode == "IMPORT"


def register(store: Store, subject: Subject, body: dict[str, Any]) -> Version:
    """Register a schema; with ``id``, and perhaps ``version``, where the mode is IMPORT.

    A version that is there is overwritten in IMPORT mode; an id never is.

    Raises:
        RefusedError: It can't be.
    """
    asked, number = body.get("id", -1), body.get("version") or 0
    asked = -1 if asked is None else asked
    importing = check_mode(store, subject, with_id=asked >= 0)
    content = content_of(store, subject, body)
    known = store.contexts[subject.context].ids.get(content, [])
    if number <= 0:
        for version in reversed(store.versions(subject)):
            if version.content == content and asked in {-1, version.id}:
                return version
    following = max(store.subjects.get(subject, {0: None}), default=0) + 1
    if number <= 0:
        number = following
    elif number != following and not importing:
        raise RefusedError(422, 42201, "Version is not one more than previous version")
    id_ = asked if asked >= 0 else next(iter(known), store.contexts[subject.context].last_id + 1)
    there = store.content_of(subject.context, id_)
    if there is not None and there != content:
        text = f"Overwrite new schema with id {id_} in context {subject.context} is not permitted."
        raise RefusedError(422, 42205, text)
    for old in store.versions(subject, deleted=True):
        if old.deleted and old.id == id_ and old.number < number and not _referred(store, old):
            store.remove(subject, old.number)
    version = Version(subject, number, id_, content)
    store.put(version)
    return version


def delete_version(store: Store, version: Version, *, permanent: bool) -> int:
    """Delete one version; returns its number.

    Raises:
        RefusedError: It is referred to, or it is not deleted yet, or it is already.
    """
    subject, number = version.subject, version.number
    if version.deleted and not permanent:
        text = f"Subject '{subject}' Version {number} was soft deleted.Set permanent=true to delete permanently"
        raise RefusedError(404, 40406, text)
    if store.referring(subject, number, deleted=permanent):
        raise RefusedError(422, 42206, f"One or more references exist to the schema {subject} {number}.")
    if not permanent:
        store.soft_delete(version)
    elif not version.deleted:
        text = f"Subject '{subject}' Version {number} was not deleted first before being permanently deleted"
        raise RefusedError(404, 40407, text)
    else:
        store.remove(subject, number)
        store.forget(subject)
    return number


def delete_subject(store: Store, subject: Subject, *, permanent: bool) -> list[int]:
    """Delete all versions of a subject; returns their numbers.

    Raises:
        RefusedError: As `delete_version`, or there is no such subject.
    """
    every, active = store.versions(subject, deleted=True), store.versions(subject)
    if not every:
        raise RefusedError(404, 40401, f"Subject '{subject}' not found.")
    if not active and not permanent:
        text = f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
        raise RefusedError(404, 40404, text)
    gone = every if permanent else active
    for version in gone:
        if any(one.subject != subject for one in store.referring(subject, version.number, deleted=permanent)):
            raise RefusedError(422, 42206, f"One or more references exist to the schema {subject} {version.number}.")
    if permanent and active:
        text = f"Subject '{subject}' was not deleted first before being permanently deleted"
        raise RefusedError(404, 40405, text)
    for version in gone:
        if permanent:
            store.remove(subject, version.number)
        else:
            store.soft_delete(version)
    if permanent:
        store.forget(subject)
    return [version.number for version in gone]


def set_mode(store: Store, subject: Subject, mode: str, *, force: bool) -> None:
    """Set the mode of a subject, of a context, or of all.

    Raises:
        RefusedError: There is no such mode, or IMPORT is asked for where schemas are, and not forced.
    """
    if mode not in {"READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT"}:
        raise RefusedError(422, 42204, "Invalid mode. Valid values are READWRITE, READONLY and IMPORT")
    if mode == "IMPORT" and store.in_scope(subject, store.modes) != "IMPORT" and not force:
        concerned = [subject] if subject.name else [one for one in store.subjects if one.context == subject.context]
        if any(store.versions(one) for one in concerned):
            raise RefusedError(422, 42205, "Cannot import since found existing subjects")
        for one in concerned:
            for version in store.versions(one, deleted=True):
                store.remove(one, version.number)
    store.modes[subject] = mode


def _referred(store: Store, version: Version) -> bool:
    return bool(store.referring(version.subject, version.number, deleted=True))
