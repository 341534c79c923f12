"""Whether the target has a source's schema, could be given it, or has something else in its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

from mirror_ray.records.schema_id_records import IdsWay
from mirror_ray.registry.schema import RegisteredSchema, Schema, Subject, SubjectVersion

_SHOWN_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class Found:
    """The target has the schema: as this."""

    target: RegisteredSchema


@dataclass(frozen=True, slots=True)
class Missing:
    """The target's subject does not have the schema."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """The target has another schema in its place; the text shows both, and says what can be done."""

    text: str


Comparison: TypeAlias = Found | Missing | Conflict


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a source subject has had, as far as that is known: by ``text_content``, and soft-deleted by ``content``."""

    texts: frozenset[tuple[str, str]]
    deleted: frozenset[tuple[object, ...]] = frozenset()

    @classmethod
    def of(cls, history: Iterable[RegisteredSchema]) -> Self:
        """Of all versions of one subject."""
        known = tuple(history)
        return cls(
            frozenset(one.schema.text_content for one in known),
            frozenset(one.schema.content for one in known if one.deleted),
        )

    def is_back(self, source: RegisteredSchema) -> bool:
        """Whether a version is there again after it was soft-deleted: a deleted one of the target is not it."""
        return not source.deleted and source.schema.content in self.deleted


def renamed(schema: Schema, targets: Mapping[SubjectVersion, SubjectVersion]) -> Schema:
    """The schema with references to what they are on the target; each of them is in ``targets``."""
    references = tuple(replace(reference, to=targets[reference.to]) for reference in schema.references)
    return replace(schema, references=references)


def compare(
    source: RegisteredSchema,
    wanted: Schema,
    subject: Subject,
    on_target: Sequence[RegisteredSchema],
    *,
    way: IdsWay,
    lineage: Lineage,
) -> Comparison:
    """Compare a version of a source subject with the target.

    Args:
        source: The version.
        wanted: Its schema as the target should have it, by ``renamed``.
        subject: Its subject on the target.
        on_target: The versions of that subject there.
        way: How ids are copied.
        lineage: What the source's subject has had.
    """
    if way == "same":
        return _compare_same(source, wanted, subject, on_target)
    content = wanted.content
    equal = (one for one in on_target if one.schema.content == content)
    # Of several the oldest is what the registry itself answers for such a schema.
    found = min(equal, key=lambda one: (one.deleted != source.deleted, one.at), default=None)
    if found is not None:
        return Missing() if found.deleted and lineage.is_back(source) else Found(found)
    if on_target and not any(one.schema.text_content in lineage.texts for one in on_target):
        return Conflict(
            f"{subject} on the target has other schemas than {source.at.subject} on the source, and none in common: "
            f"{both(wanted, on_target[-1].schema)}; give the subject another name in schemas.subjects.map, exclude "
            "it, or delete the target's"
        )
    return Missing()


def _compare_same(
    source: RegisteredSchema, wanted: Schema, subject: Subject, on_target: Sequence[RegisteredSchema]
) -> Comparison:
    there = next((one for one in on_target if one.at.version == source.at.version), None)
    if there is None:
        return Missing()
    if there.schema.content != wanted.content:
        return Conflict(
            f"{there.at} on the target is another schema than {source.at} on the source: "
            f"{both(wanted, there.schema)}; give {source.at.subject} another name in "
            "schemas.subjects.map, delete the target's, or set schemas.ids = translated"
        )
    if there.id != source.id:
        return Conflict(
            f"{subject} version {source.at.version} has the id {there.id} on the target, {source.id} on the source: "
            "delete the target's, or set schemas.ids = translated"
        )
    return Found(there)


def id_taken(source: RegisteredSchema, wanted: Schema, other: Schema) -> Conflict:
    """The target has another schema under the source's id."""
    return Conflict(
        f"id {source.id}, which {source.at} has on the source, is another schema's on the target: "
        f"{both(wanted, other)}; set schemas.ids = translated, or a context of its own in schemas.contexts.map"
    )


def both(source: Schema, target: Schema) -> str:
    """Two schemas, one beside the other; of long ones the beginning."""
    return f"source: {_shown(source)} | target: {_shown(target)}"


def _shown(schema: Schema) -> str:
    text = " ".join(schema.text.split())
    return f"{schema.kind} {text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + '...'}"
