"""The records of ``mm2-ray-schemas.<source>.internal`` on the target: what the schema ids in a flow's records become.

A compacted topic, written by the flow's schema sync alone. Keys and values are JSON::

    ["id", 17]                       {"target": 4}; null: the source registry has no such schema
    ["guid", "<32 hex digits>"]      {"target": "<32 hex digits>"}; null: the same
    ["field", "orders", "value"]     {"framed": true}; false: records begin with no schema id, whatever it looks like
    ["ids"]                          {"ids": "translated"}, or "same": how the flow copies schema ids

What is written once is not changed: replicators make the same of the same record, now and after a crash. A tombstone is
an operator's decision to have it decided anew. Keys that are not known are ignored: a newer version may have them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from mirror_ray.model.errors import CorruptRecordError

#: Where a record has a schema id.
SchemaField = Literal["key", "value"]
#: ``same``: the target has each schema under the source's id. ``translated``: under an id of its own.
IdsWay = Literal["same", "translated"]

SCHEMA_FIELDS: Final[tuple[SchemaField, ...]] = ("key", "value")
GUID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class IdTranslation:
    """A schema's id on the source and on the target; ``target`` None: the source registry does not have it."""

    source: int
    target: int | None


@dataclass(frozen=True, slots=True)
class GuidTranslation:
    """The same of a schema's GUID, 16 bytes."""

    source: bytes
    target: bytes | None


@dataclass(frozen=True, slots=True)
class FieldDecision:
    """Whether the keys or values of a source topic are framed: begin with a schema id."""

    topic: str
    field: SchemaField
    framed: bool


@dataclass(frozen=True, slots=True)
class IdsDecision:
    """How the flow copies schema ids."""

    ids: IdsWay


SchemaIdEntry: TypeAlias = IdTranslation | GuidTranslation | FieldDecision | IdsDecision


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The key of an entry that was deleted: an id, a GUID, a topic with a field; None: how ids are copied."""

    key: int | bytes | tuple[str, SchemaField] | None


def encode(entry: SchemaIdEntry) -> tuple[bytes, bytes]:
    """Write an entry as key and value."""
    match entry:
        case IdTranslation():
            return _json(["id", entry.source]), _json({"target": entry.target})
        case GuidTranslation():
            target = None if entry.target is None else entry.target.hex()
            return _json(["guid", entry.source.hex()]), _json({"target": target})
        case FieldDecision():
            return _json(["field", entry.topic, entry.field]), _json({"framed": entry.framed})
        case IdsDecision():
            return _json(["ids"]), _json({"ids": entry.ids})


def decode(key: bytes | None, value: bytes | None) -> SchemaIdEntry | Forgotten | None:
    """Read a record; None: it is of a kind that this version does not know.

    Raises:
        CorruptRecordError: The bytes are no such record.
    """
    try:
        return _entry(_parsed(key, list), None if value is None else _parsed(value, dict))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptRecordError(f"a record of schema ids can't be read: key {key!r}: {error}") from error


def _entry(key: list[Any], fields: dict[str, Any] | None) -> SchemaIdEntry | Forgotten | None:
    match key:
        case ["id", int(source)] if not isinstance(source, bool):
            return Forgotten(source) if fields is None else IdTranslation(source, _id(fields["target"]))
        case ["guid", str(text)]:
            guid = _guid(text)
            return Forgotten(guid) if fields is None else GuidTranslation(guid, _target_guid(fields["target"]))
        case ["field", str(topic), ("key" | "value") as field]:
            if fields is None:
                return Forgotten((topic, field))
            return FieldDecision(topic, field, _of_type(fields["framed"], bool))
        case ["ids"]:
            return Forgotten(None) if fields is None else IdsDecision(_way(fields["ids"]))
        case [str(), *_]:
            return None
        case _:
            raise ValueError("its key is of no known form")


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _parsed(text: bytes | None, kind: type[Any]) -> Any:
    return _of_type(json.loads(text or b""), kind)


def _of_type(value: Any, kind: type[Any]) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _id(value: Any) -> int | None:
    return None if value is None else int(_of_type(value, int))


def _way(value: Any) -> IdsWay:
    if value not in ("same", "translated"):
        raise ValueError(f"{value!r} is no way to copy schema ids")
    return "same" if value == "same" else "translated"


def _target_guid(value: Any) -> bytes | None:
    return None if value is None else _guid(_of_type(value, str))


def _guid(text: str) -> bytes:
    guid = bytes.fromhex(text)
    if len(guid) != GUID_BYTES:
        raise ValueError(f"{text!r} is no GUID")
    return guid
