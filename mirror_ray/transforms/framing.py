"""Schema ids in a record, as serializers of schema registries put them there: the reference in Python.

A field begins with a byte 0 and an id of four bytes; or a header has the id in this form, or a byte 1 and a GUID of 16
bytes. Where a header has one, what the field begins with does not count. The record kernel has the same in Rust.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, Protocol

from mirror_ray.records.decode import read_varint
from mirror_ray.records.schema_id_records import GUID_BYTES, SCHEMA_FIELDS, SchemaField

#: Whether records have ids in a field. ``plain``: they have none, whatever it looks like.
Framing = Literal["framed", "plain", "undecided"]
#: Nothing is known of an id; the source registry does not have it; or whether it is one at all is undecided.
IssueKind = Literal["missing-id", "absent-id", "undecided-field"]

_FRAME_BYTES: Final = 5
_ID_BYTES: Final = 4
#: Where plain numbers look like ids each is another one.
_MOST_TOLD: Final = 100
_HEADERS: Final[Mapping[bytes, SchemaField]] = {b"__key_schema_id": "key", b"__value_schema_id": "value"}


class IdIssue(NamedTuple):
    """What is in the way of a record."""

    #: The record's.
    number: int
    field: SchemaField
    #: An id or a GUID.
    schema: int | bytes
    kind: IssueKind


class TranslatedIds(NamedTuple):
    """What became of records."""

    #: How many ids and GUIDs were changed.
    translated: int
    #: How many fields had none though records have, without those that are null.
    unframed: int
    #: In the records' order: all that are absent; of what is missing or undecided the first of each, a hundred at most.
    issues: list[IdIssue]


class IdTranslations(Protocol):
    """What ids become, by the source's; None: the source registry does not have them."""

    @property
    def ids(self) -> Mapping[int, int | None]:
        """Those of a registry."""

    @property
    def guids(self) -> Mapping[bytes, bytes | None]:
        """Those of 16 bytes, which are everywhere the same but for references."""

    @property
    def native(self) -> Any:
        """The same for the record kernel, which must be there."""


def knows(translations: IdTranslations, schema: int | bytes) -> bool:
    """Whether it is known what becomes of a schema."""
    return schema in translations.ids if isinstance(schema, int) else schema in translations.guids


class PlacedId(NamedTuple):
    """An id or a GUID, and where it is in a record's bytes."""

    field: SchemaField
    at: int
    schema: int | bytes


def ids_in(tail: bytes) -> tuple[list[PlacedId], frozenset[SchemaField]]:
    """What looks like ids in a record, headers first; and the fields that are not null and have none."""
    places, at = [], 0
    for _ in SCHEMA_FIELDS:
        start, end, at = _nullable(tail, at)
        places.append((start, end))
    found = list(_in_headers(tail, at))
    in_headers = {placed.field for placed in found}
    without: set[SchemaField] = set()
    for field, (start, end) in zip(SCHEMA_FIELDS, places, strict=True):
        if end < 0 or field in in_headers:
            continue
        number = _framed_id(tail[start:end])
        if number is None:
            without.add(field)
        else:
            found.append(PlacedId(field, start + 1, number))
    return found, frozenset(without)


def without_ids(tail: bytes) -> bytes:
    """A record's bytes with zeros for whatever looks like an id in it: the same before and after ids are translated."""
    changed = bytearray(tail)
    for _, at, schema in ids_in(tail)[0]:
        size = len(schema) if isinstance(schema, bytes) else _ID_BYTES
        changed[at : at + size] = bytes(size)
    return bytes(changed)


def _in_headers(tail: bytes, at: int) -> Iterator[PlacedId]:
    count, at = read_varint(tail, at)
    for _ in range(count):
        start, end, at = _nullable(tail, at)
        field = _HEADERS.get(tail[start:end])
        start, end, at = _nullable(tail, at)
        if field is None or end < 0:
            continue
        value = tail[start:end]
        number = _framed_id(value) if len(value) == _FRAME_BYTES else None
        if number is not None:
            yield PlacedId(field, start + 1, number)
        elif len(value) == GUID_BYTES + 1 and value[0] == 1:
            yield PlacedId(field, start + 1, value[1:])


def _framed_id(data: bytes) -> int | None:
    number = int.from_bytes(data[1:_FRAME_BYTES], "big", signed=True)
    return number if len(data) >= _FRAME_BYTES and data[0] == 0 and number >= 1 else None


def _nullable(tail: bytes, at: int) -> tuple[int, int, int]:
    """Where a field behind its length begins and ends, -1 for null; and where the next one begins."""
    size, at = read_varint(tail, at)
    return (at, -1, at) if size < 0 else (at, at + size, at + size)


class SchemaIdTranslator:
    """Translates records one by one; the bytes that come out count once all are known."""

    def __init__(self, translations: IdTranslations, key: Framing, value: Framing) -> None:
        self._translations = translations
        self._framing: dict[SchemaField, Framing] = {"key": key, "value": value}
        self._translated = self._unframed = 0
        self._issues: list[IdIssue] = []
        self._told: set[tuple[SchemaField, int | bytes]] = set()

    @property
    def done(self) -> TranslatedIds:
        """What became of them."""
        return TranslatedIds(0 if self._told else self._translated, self._unframed, self._issues)

    @property
    def waits(self) -> bool:
        """Whether something is missing or undecided, so that no record counts as translated."""
        return bool(self._told)

    def translate(self, number: int, tail: bytes) -> bytes:
        """A record's bytes with other ids; the same ones where anything is in the way."""
        found, without = ids_in(tail)
        self._unframed += sum(self._framing[field] == "framed" for field in without)
        changed, count, fails = bytearray(tail), 0, False
        for field, at, schema in found:
            framing = self._framing[field]
            if framing == "plain":
                continue
            kind: IssueKind | None = "undecided-field" if framing == "undecided" else None
            target: bytes | None = None
            if kind is None:
                kind, target = self._target(schema)
            if target is not None:
                changed[at : at + len(target)] = target
                count += 1
            elif kind is not None:
                fails = True
                self._note(IdIssue(number, field, schema, kind))
        if fails:
            return tail
        self._translated += count
        return bytes(changed)

    def _target(self, schema: int | bytes) -> tuple[IssueKind | None, bytes | None]:
        if not knows(self._translations, schema):
            return "missing-id", None
        if isinstance(schema, bytes):
            target = self._translations.guids[schema]
        else:
            number = self._translations.ids[schema]
            target = None if number is None else number.to_bytes(_ID_BYTES, "big", signed=True)
        return ("absent-id", None) if target is None else (None, target)

    def _note(self, issue: IdIssue) -> None:
        if issue.kind != "absent-id":
            if len(self._told) == _MOST_TOLD or (issue.field, issue.schema) in self._told:
                return
            self._told.add((issue.field, issue.schema))
        self._issues.append(issue)
