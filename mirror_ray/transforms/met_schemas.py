"""The schemas that records of a partition have the ids of: by the record kernel where it is there, or in Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror_ray.records import kernel
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import DecodedRecord, records_of
from mirror_ray.records.schema_id_records import SCHEMA_FIELDS, SchemaField
from mirror_ray.transforms.framing import Framing, ids_in

#: Of one field of a partition; memory for more is not taken.
MOST_MET: Final = 1_000_000
#: What looks like ids by chance is another one in each record.
_MOST_CANDIDATES: Final = 100


class SchemasWanted(NamedTuple):
    """What is looked for in a partition's records."""

    key: Framing
    value: Framing
    #: Source offsets of the records that count, the end not included.
    span: tuple[int, int]
    #: Ranges of source offsets that don't, the ends not included.
    leave_out: tuple[tuple[int, int], ...] = ()

    def takes(self, offset: int) -> bool:
        """Whether a record counts."""
        within = self.span[0] <= offset < self.span[1]
        return within and not any(first <= offset < end for first, end in self.leave_out)


@dataclass(frozen=True, slots=True)
class MetSchemas:
    """The schemas that records have the ids of, each once."""

    #: Ids and GUIDs.
    schemas: frozenset[int | bytes] = frozenset()
    #: What looks like ids in fields that are undecided; not all of them.
    candidates: frozenset[tuple[SchemaField, int]] = frozenset()
    #: Whether there were more than are kept.
    overflowed: bool = False

    def __or__(self, other: MetSchemas) -> MetSchemas:
        candidates, overflowed = self.candidates | other.candidates, self.overflowed or other.overflowed
        return MetSchemas(self.schemas | other.schemas, candidates, overflowed)


NOTHING_MET: Final = MetSchemas()


class SchemaCollector:
    """Finds the schemas of one partition's records. What is taken again does no harm."""

    def __init__(self, wanted: SchemasWanted, most: int = MOST_MET) -> None:
        self._wanted, self._most = wanted, most
        self._framing: dict[SchemaField, Framing] = {"key": wanted.key, "value": wanted.value}
        self._native = None
        if kernel.is_available():
            self._native = kernel.met_schemas(key=wanted.key, value=wanted.value, most=most)
        self._schemas: dict[SchemaField, set[int | bytes]] = {field: set() for field in SCHEMA_FIELDS}
        self._candidates: dict[SchemaField, set[int]] = {field: set() for field in SCHEMA_FIELDS}
        self._overflowed = False

    def take(self, batches: Sequence[RecordBatch]) -> None:
        """Look at the records of verified batches.

        Raises:
            CorruptBatchError: One does not parse.
        """
        if self._native is not None:
            kernel.meet_schemas(self._native, batches, self._wanted.span, self._wanted.leave_out)
            return
        for batch in batches:
            self.take_records(records_of(batch))

    def take_records(self, records: Iterable[DecodedRecord]) -> None:
        """Look at records, one by one."""
        for record in records:
            if self._wanted.takes(record.offset):
                for field, _, schema in ids_in(record.tail)[0]:
                    self._meet(field, schema)

    def found(self) -> MetSchemas:
        """What was met so far."""
        met = MetSchemas(
            frozenset().union(*self._schemas.values()),
            frozenset((field, schema) for field, schemas in self._candidates.items() for schema in schemas),
            self._overflowed,
        )
        if self._native is None:
            return met
        *fields, overflowed = self._native.found()
        return met | MetSchemas(
            frozenset().union(*(schemas for schemas, _ in fields)),
            frozenset((field, one) for field, (_, ones) in zip(SCHEMA_FIELDS, fields, strict=True) for one in ones),
            overflowed,
        )

    def _meet(self, field: SchemaField, schema: int | bytes) -> None:
        framing = self._framing[field]
        if framing == "undecided" and isinstance(schema, int):
            if len(self._candidates[field]) < _MOST_CANDIDATES:
                self._candidates[field].add(schema)
        elif framing != "plain":
            known = self._schemas[field]
            if len(known) < self._most:
                known.add(schema)
            else:
                self._overflowed = self._overflowed or schema not in known
