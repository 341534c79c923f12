"""What a registry holds: versions of subjects, ids of each context, modes and configurations."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

DEFAULT_CONTEXT = "."


class RefusedError(Exception):
    """An error as the registry answers it: HTTP status, code, text."""

    def __init__(self, status: int, code: int, text: str) -> None:
        super().__init__(text)
        self.status, self.code = status, code


class Subject(NamedTuple):
    """``:.context:name``; an empty name stands for the context itself."""

    context: str
    name: str

    @classmethod
    def parse(cls, text: str, context: str = DEFAULT_CONTEXT) -> Self:
        """``context``: of names that say none."""
        if text.startswith(":.") and ":" in text[2:]:
            found, _, name = text[1:].partition(":")
            return cls(found, name)
        return cls(context, text)

    def __str__(self) -> str:
        return self.name if self.context == DEFAULT_CONTEXT else f":{self.context}:{self.name}"


class Reference(NamedTuple):
    """A schema that another one refers to."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class Content:
    """What makes a schema the same as another."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    #: As JSON with sorted keys; empty: none.
    metadata: str = ""
    rule_set: str = ""

    @cached_property
    def guid(self) -> str:
        """The same in every registry."""
        whole = json.dumps([self.kind, self.text, self.references, self.metadata, self.rule_set])
        return str(uuid.UUID(bytes=hashlib.md5(whole.encode(), usedforsecurity=False).digest()))

    @property
    def fields(self) -> dict[str, Any]:
        """As answers have them: AVRO and what is empty go without saying."""
        found: dict[str, Any] = {"schema": self.text, "guid": self.guid}
        if self.kind != "AVRO":
            found["schemaType"] = self.kind
        if self.references:
            found["references"] = [one._asdict() for one in self.references]
        for key, value in (("metadata", self.metadata), ("ruleSet", self.rule_set)):
            if value:
                found[key] = json.loads(value)
        return found


@dataclass(frozen=True)
class Version:
    """One version of a subject."""

    subject: Subject
    number: int
    id: int
    content: Content
    deleted: bool = False

    @property
    def fields(self) -> dict[str, Any]:
        """As answers have them."""
        found = {"subject": str(self.subject), "version": self.number, "id": self.id, **self.content.fields}
        return found | ({"deleted": True} if self.deleted else {})


@dataclass
class Context:
    """The ids of one context: each has one content, a content may have several where ids were given."""

    last_id: int = 0
    at: dict[int, set[tuple[Subject, int]]] = field(default_factory=lambda: defaultdict(set))
    ids: dict[Content, list[int]] = field(default_factory=lambda: defaultdict(list))


class Store:
    """Everything that was registered and not deleted for good."""

    def __init__(self) -> None:
        self.subjects: dict[Subject, dict[int, Version]] = defaultdict(dict)
        self.contexts: dict[str, Context] = defaultdict(Context)
        #: By subject, by context (an empty name), or for all (the default context).
        self.modes: dict[Subject, str] = {}
        self.configs: dict[Subject, dict[str, Any]] = {}

    def versions(self, subject: Subject, *, deleted: bool = False) -> list[Version]:
        """In ascending order."""
        found = self.subjects.get(subject, {})
        return [found[number] for number in sorted(found) if deleted or not found[number].deleted]

    def content_of(self, context: str, id_: int) -> Content | None:
        """What an id stands for; also where its versions are all soft-deleted."""
        for subject, number in self.contexts[context].at.get(id_, ()):
            return self.subjects[subject][number].content
        return None

    def put(self, version: Version) -> None:
        """Add a version, or replace the one of its number."""
        self.remove(version.subject, version.number)
        context = self.contexts[version.subject.context]
        context.last_id = max(context.last_id, version.id)
        context.at[version.id].add((version.subject, version.number))
        if version.id not in context.ids[version.content]:
            context.ids[version.content].append(version.id)
        self.subjects[version.subject][version.number] = version

    def remove(self, subject: Subject, number: int) -> None:
        """Take a version away for good, with the mode and the configuration of a subject that has none left."""
        version = self.subjects.get(subject, {}).pop(number, None)
        if version is None:
            return
        context = self.contexts[subject.context]
        context.at[version.id].discard((subject, number))
        if not context.at[version.id]:
            del context.at[version.id]
            context.ids[version.content].remove(version.id)

    def forget(self, subject: Subject) -> None:
        """What goes with a subject's last version."""
        if not self.subjects.get(subject):
            self.subjects.pop(subject, None)
            self.modes.pop(subject, None)
            self.configs.pop(subject, None)

    def soft_delete(self, version: Version) -> None:
        """It stays readable for whoever asks for deleted ones."""
        self.put(replace(version, deleted=True))

    def referring(self, subject: Subject, number: int, *, deleted: bool) -> list[Version]:
        """The versions that refer to one; ``deleted``: soft-deleted ones, too."""
        return [
            version
            for one in list(self.subjects)
            for version in self.versions(one, deleted=deleted)
            for reference in version.content.references
            if (Subject.parse(reference.subject, one.context), reference.version) == (subject, number)
        ]

    def in_scope(self, subject: Subject, of: dict[Subject, Any]) -> Any:
        """What holds for a subject: its own, else its context's; None: nothing was said."""
        return of.get(subject, of.get(Subject(subject.context, "")))
