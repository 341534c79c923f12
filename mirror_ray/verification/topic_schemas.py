"""What verification says of the schemas that a topic's records have the ids of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from mirror_ray.transforms.schema_ids import schema_text

if TYPE_CHECKING:
    from mirror_ray.verification.report import Outcome

#: Schemas of a topic that are listed one by one.
_LISTED: Final = 20


class DifferentSchema(NamedTuple):
    """A schema of the source that the target's registry does not have where records on the target look for it."""

    #: Its id, or its GUID in 16 bytes.
    source: int | bytes
    #: The same in the target's records.
    target: int | bytes
    #: Both schemas, one beside the other; None: the target has none.
    texts: str | None = None

    def __str__(self) -> str:
        became = f", which became {schema_text(self.target)}" if self.source != self.target else ""
        if self.texts is None:
            return f"schema {schema_text(self.source)}{became}: the target's registry has no such schema"
        return f"schema {schema_text(self.source)}{became}: it is another schema on the target: {self.texts}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSchemas:
    """The schemas that the compared records of a topic have the ids of."""

    topic: str
    target_topic: str
    #: How many there are.
    met: int = 0
    missing: Sequence[DifferentSchema] = ()
    different: Sequence[DifferentSchema] = ()
    #: Those that the source's registry does not have, so that there is nothing to compare.
    unknown: Sequence[int | bytes] = ()
    #: Why some, or all, were not compared.
    reasons: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The result for this topic."""
        if self.missing or self.different:
            return "differs"
        return "not_checked" if self.reasons else "equal"

    @property
    def sentences(self) -> Iterator[str]:
        """What is to be said of it."""
        differing = [*self.missing, *self.different]
        yield from map(str, differing[:_LISTED])
        if len(differing) > _LISTED:
            yield f"{len(differing) - _LISTED:,} more schemas are missing or different on the target"
        yield from (f"not compared: {reason}" for reason in self.reasons)
        if self.unknown:
            shown = ", ".join(map(schema_text, self.unknown[:_LISTED]))
            more = f" and {len(self.unknown) - _LISTED:,} more" if len(self.unknown) > _LISTED else ""
            yield f"the source's registry does not have {shown}{more}: there is nothing to compare"

    def plain(self) -> dict[str, Any]:
        """For JSON and YAML."""
        return {
            "topic": self.topic,
            "target_topic": self.target_topic,
            "outcome": self.outcome,
            "schemas": self.met,
            "missing": [_plain(one) for one in self.missing],
            "different": [_plain(one) for one in self.different],
            "unknown_on_source": [_id(one) for one in self.unknown],
            "reasons": list(self.reasons),
        }


def _plain(schema: DifferentSchema) -> dict[str, Any]:
    return {"source": _id(schema.source), "target": _id(schema.target), "text": str(schema)}


def _id(schema: int | bytes) -> int | str:
    return schema if isinstance(schema, int) else str(UUID(bytes=schema))
