"""How many schema ids of records were translated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchemaIdCounts:
    """Of the keys and values of some records."""

    #: Ids and GUIDs that were changed to those of the target's registry.
    translated: int = 0
    #: Keys and values without an id, of topics where they have one; null ones don't count.
    unframed: int = 0

    def __add__(self, other: SchemaIdCounts) -> SchemaIdCounts:
        return SchemaIdCounts(self.translated + other.translated, self.unframed + other.unframed)

    def __sub__(self, before: SchemaIdCounts) -> SchemaIdCounts:
        return SchemaIdCounts(self.translated - before.translated, self.unframed - before.unframed)


NO_SCHEMA_IDS = SchemaIdCounts()
