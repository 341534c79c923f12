"""What a schema registry has, in the terms of Confluent's Schema Registry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple, Self

#: The context that subjects without a qualified name are in.
DEFAULT_CONTEXT: Final = "."


class Subject(NamedTuple):
    """A subject: its context, which begins with a dot, and its name there."""

    context: str
    name: str

    @classmethod
    def parse(cls, text: str, context: str = DEFAULT_CONTEXT) -> Self:
        """Read ``:.context:name``, or a name alone, which is in ``context``."""
        if text.startswith(":."):
            given, found, name = text[1:].partition(":")
            if found:
                return cls(given, name)
        return cls(context, text)

    def __str__(self) -> str:
        """As requests name it."""
        # A name that looks qualified has to be.
        plain = self.context == DEFAULT_CONTEXT and not self.name.startswith(":.")
        return self.name if plain else f":{self.context}:{self.name}"


class SubjectVersion(NamedTuple):
    """One version of a subject."""

    subject: Subject
    version: int

    def __str__(self) -> str:
        """For people."""
        return f"{self.subject} version {self.version}"


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """What a schema refers to: a version of a subject, by the name that the schema's text has for it."""

    name: str
    to: SubjectVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A schema without the ids and versions that a registry gives it."""

    #: ``AVRO``, ``JSON``, ``PROTOBUF``, or what else a registry knows.
    kind: str
    text: str
    references: tuple[SchemaReference, ...] = ()
    #: Metadata and rule set as the registry has them (JSON); None: it has none.
    metadata: Mapping[str, Any] | None = None
    rule_set: Mapping[str, Any] | None = None

    @property
    def content(self) -> tuple[object, ...]:
        """Equal for two schemas if they are the same, whatever space and order a JSON text has."""
        return (
            self.kind,
            _canonical(self.kind, self.text),
            tuple((reference.name, reference.to) for reference in self.references),
            _plain(self.metadata),
            _plain(self.rule_set),
        )

    @property
    def text_content(self) -> tuple[str, str]:
        """The same of the text alone."""
        return self.kind, _canonical(self.kind, self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """A version of a subject, as a registry has it."""

    at: SubjectVersion
    id: int
    schema: Schema
    #: Of 16 bytes; None: the registry gives none.
    guid: bytes | None = None
    #: Whether it was soft-deleted: ids still find it, and nothing new is written by it.
    deleted: bool = field(default=False, compare=False)


@lru_cache(maxsize=1 << 16)
def _canonical(kind: str, text: str) -> str:
    if kind == "PROTOBUF":
        return "\n".join(line.strip() for line in text.splitlines() if line.strip())
    try:
        return json.dumps(json.loads(text), separators=(",", ":"), sort_keys=True)
    except (ValueError, RecursionError):
        return text.strip()


def _plain(value: Mapping[str, Any] | None) -> str:
    return json.dumps(value, sort_keys=True) if value else ""
