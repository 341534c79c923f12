"""What is decided of the schemas that partitions wait for."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from mirror_ray.model.schema_need import SchemaNeed
from mirror_ray.records.schema_id_records import FieldDecision
from mirror_ray.registry.schema import Subject


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A field that could have schema ids, or look so by chance; the text says what an operator has to do."""

    text: str


def named_after_field(need: SchemaNeed, subjects: Collection[Subject]) -> Iterator[Subject]:
    """The subjects of the need's very field, by Confluent's TopicNameStrategy, in any context."""
    name = f"{need.topic}-{need.field}"
    yield from (subject for subject in subjects if subject.name == name)


def decide_field(need: SchemaNeed, subjects: Collection[Subject], *, id_exists: bool) -> FieldDecision | Ambiguous:
    """Decide whether a field of a topic is framed, of which a record looks so.

    Args:
        need: The topic, the field, and the id that the record seems to have.
        subjects: Those of the source registry.
        id_exists: Whether the source registry has that id.
    """
    if any(named_after_field(need, subjects)):
        return FieldDecision(need.topic, need.field, framed=True)
    if isinstance(need.schema, bytes):
        # Sixteen bytes under the serializers' own header are no chance.
        return FieldDecision(need.topic, need.field, framed=True)
    if not id_exists:
        return FieldDecision(need.topic, need.field, framed=False)
    return Ambiguous(
        f"records of topic {need.topic} have a {need.field} that begins as one with schema id {need.schema}, which the "
        f"source's registry has, but no subject {need.topic}-{need.field}: add the topic to schemas.topics if they are "
        "serialized with schemas, to schemas.topics.exclude if not; until then its partitions wait"
    )
