"""What the schema ids in a flow's records become: what is known of it, and which topics it is for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from mirror_ray.model.patterns import compile_patterns
from mirror_ray.records import kernel
from mirror_ray.records.schema_id_records import (
    FieldDecision,
    Forgotten,
    GuidTranslation,
    IdTranslation,
    SchemaField,
    SchemaIdEntry,
)
from mirror_ray.transforms.framing import Framing, IdIssue, knows

#: Of a chain that translates ids.
IDENTITY: Final = "schema ids translated"
#: The name of the step, for failures.
STEP: Final = "schema ids"


class AbsentSchemaError(Exception):
    """A record's schema is not in the source registry."""

    def __init__(self, issue: IdIssue) -> None:
        super().__init__(
            f"its {issue.field} has schema {schema_text(issue.schema)}, which the source registry does not have: let "
            "transforms.errors say what becomes of such records"
        )


def schema_text(schema: int | bytes) -> str:
    """A schema as users know it."""
    return f"id {schema}" if isinstance(schema, int) else f"GUID {UUID(bytes=schema)}"


class SchemaIdMap:
    """Translations of ids, and decisions about fields: what the flow's internal topic on the target says."""

    def __init__(self, entries: Iterable[SchemaIdEntry | Forgotten] = ()) -> None:
        self.ids: dict[int, int | None] = {}
        self.guids: dict[bytes, bytes | None] = {}
        self._framed: dict[tuple[str, SchemaField], bool] = {}
        self._native = kernel.schema_ids() if kernel.is_available() else None
        self.update(entries)

    @property
    def native(self) -> Any:
        """The translations for the record kernel, which must be there."""
        return self._native

    def update(self, entries: Iterable[SchemaIdEntry | Forgotten]) -> None:
        """Learn what the topic's next records say."""
        ids: dict[int, int | None] = {}
        guids: dict[bytes, bytes | None] = {}
        for entry in entries:
            match entry:
                case IdTranslation(source, target):
                    ids[source] = target
                case GuidTranslation(guid, target_guid):
                    guids[guid] = target_guid
                case FieldDecision(topic, field, framed):
                    self._framed[topic, field] = framed
                case Forgotten(key):
                    self._learn(ids, guids)
                    ids, guids = {}, {}
                    self._forget(key)
                case _:
                    # How the flow copies ids is for the coordinator.
                    pass
        self._learn(ids, guids)

    def clear(self) -> None:
        """Forget all: the topic is another one."""
        ids, guids = list(self.ids), list(self.guids)
        self.ids.clear()
        self.guids.clear()
        self._framed.clear()
        if self._native is not None:
            self._native.forget(ids, guids)

    def framing(self, topic: str, field: SchemaField) -> Framing:
        """Whether records of a source topic have ids in a field."""
        framed = self._framed.get((topic, field))
        return "undecided" if framed is None else "framed" if framed else "plain"

    def _learn(self, ids: dict[int, int | None], guids: dict[bytes, bytes | None]) -> None:
        self.ids |= ids
        self.guids |= guids
        if self._native is not None and (ids or guids):
            self._native.update(list(ids.items()), list(guids.items()))

    def _forget(self, key: int | bytes | tuple[str, SchemaField] | None) -> None:
        match key:
            case int():
                self.ids.pop(key, None)
            case bytes():
                self.guids.pop(key, None)
            case (topic, field):
                self._framed.pop((topic, field), None)
        if self._native is not None:
            self._native.forget([key] if isinstance(key, int) else [], [key] if isinstance(key, bytes) else [])


class TopicSchemaIds:
    """The schema ids in one topic's records."""

    def __init__(self, known: SchemaIdMap | None, topic: str, *, framed: bool) -> None:
        """``known``: None where ids stay as they are, for those who count records. ``framed``: patterns say so."""
        self.known = known
        self._topic, self._framed = topic, framed

    def framing(self, field: SchemaField) -> Framing:
        """Whether records have ids in a field: by patterns, or by what is known at this moment."""
        if self._framed:
            return "framed"
        return "undecided" if self.known is None else self.known.framing(self._topic, field)

    def still_lacks(self, issue: IdIssue) -> bool:
        """Whether a record that waited for this would wait for the same again."""
        framing = self.framing(issue.field)
        if framing != "framed" or self.known is None:
            return framing == "undecided"
        return issue.kind == "missing-id" and not knows(self.known, issue.schema)


class SchemaIdRules:
    """Which topics' ids are translated, by the patterns of a flow."""

    def __init__(
        self,
        known: SchemaIdMap | None,
        framed: Sequence[str] = (),
        plain: Sequence[str] = (),
        exempt: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """``framed``, ``plain``: patterns of topics whose fields are. ``exempt``: topics without records of users."""
        self._known, self._exempt = known, exempt
        self._framed, self._plain = compile_patterns(framed), compile_patterns(plain)

    def of(self, topic: str) -> TopicSchemaIds | None:
        """What is to be done with a topic's ids; None: nothing."""
        if self._exempt(topic) or (self._plain is not None and self._plain.fits(topic)):
            return None
        return TopicSchemaIds(self._known, topic, framed=self._framed is not None and self._framed.fits(topic))
