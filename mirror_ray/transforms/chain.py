"""The transforms of one topic, one after the other, on the records of a batch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from mirror_ray.model.names import TopicPartition
from mirror_ray.model.schema_id_counts import NO_SCHEMA_IDS, SchemaIdCounts
from mirror_ray.records.decode import DecodedRecord
from mirror_ray.transforms.columns import DecodedColumns, RecordColumns, read_records
from mirror_ray.transforms.framing import IdIssue
from mirror_ray.transforms.record import Record, encode_fields
from mirror_ray.transforms.schema_ids import STEP, AbsentSchemaError, SchemaIdMap, TopicSchemaIds
from mirror_ray.transforms.transform import Result, Transform, fields_read


class NamedTransform(NamedTuple):
    """A transform, under the name that the configuration has for it."""

    name: str
    transform: Transform


class TransformFailure(NamedTuple):
    """A record that a transform has failed on."""

    record: DecodedRecord
    #: The step's name.
    step: str
    error: Exception

    def __str__(self) -> str:
        return f"{self.step}: {type(self.error).__name__}: {self.error}"


class ChainResult(NamedTuple):
    """What became of a batch's records."""

    #: At their source offsets, in order, without what was left out, what failed, and what goes elsewhere.
    kept: list[DecodedRecord]
    failures: list[TransformFailure]


class SchemaIdsWait(NamedTuple):
    """Records that can't be translated yet."""

    #: Source offset of the first of them.
    offset: int
    #: What they lack, of that one first.
    lacks: tuple[IdIssue, ...]


class TransformedRecords(NamedTuple):
    """What became of records in columns, which are changed."""

    records: RecordColumns
    #: Their numbers, in order, without what was left out, what failed, and what goes elsewhere.
    kept: Sequence[int]
    failures: list[TransformFailure]
    #: Why nothing is kept; then failures are those before it alone.
    waits: SchemaIdsWait | None = None
    #: What was done with the schema ids of what is kept.
    counts: SchemaIdCounts = NO_SCHEMA_IDS


@dataclass(frozen=True, slots=True)
class TransformChain:
    """Transforms in their order, then the schema ids; not empty. What one leaves out, or fails on, is no more seen.

    Where they route, each remote topic has a chain of these same steps, of which one alone keeps a record.
    """

    steps: tuple[NamedTransform, ...]
    #: Names, versions and options of all steps: while it stays the same, so do the results. Readable, and persisted.
    identity: str
    #: Records for it are kept; empty: those that no transform sends elsewhere.
    destination: str = ""
    #: None: ids are no concern of it.
    schema_ids: TopicSchemaIds | None = None

    #: What any of them reads.
    reads: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        read = (fields_read(step.transform) for step in self.steps)
        object.__setattr__(self, "reads", frozenset().union(*read))

    @property
    def pure(self) -> bool:
        """Whether all of them are."""
        return all(step.transform.pure for step in self.steps)

    @property
    def routes(self) -> bool:
        """Whether records may go elsewhere."""
        return any(getattr(step.transform, "destinations", ()) for step in self.steps)

    def apply(self, source: TopicPartition, records: Sequence[DecodedRecord]) -> ChainResult:
        """Send records of one source partition, in order, through all steps; up to one whose schema id is not known.

        Raises:
            CorruptBatchError: The bytes of one are no record.
        """
        columns, kept, failures, waits, _ = self.run(source, DecodedColumns(records))
        if waits is not None:
            return self.apply(source, [record for record in records if record.offset < waits.offset])
        return ChainResult(columns.decoded(kept), failures)

    def run(self, source: TopicPartition, records: RecordColumns) -> TransformedRecords:
        """Send records of one source partition, in order, through all steps; they are changed to what comes out."""
        numbers: Sequence[int] = range(len(records))
        failures: list[TransformFailure] = []
        elsewhere: Collection[int] = ()
        before: Sequence[Record] = ()
        if self.steps:
            before = read_records(records, source, self.reads)
            numbers, elsewhere = self._run_steps(before, records, failures)
        waits, counts = None, NO_SCHEMA_IDS
        if self.schema_ids is not None and self.schema_ids.known is not None:
            counts, issues = _translated(records, numbers, elsewhere, self.schema_ids, self.schema_ids.known)
            if issues:
                numbers, waits = _unobstructed(issues, before, records, numbers, failures)
        failures.sort(key=lambda failure: failure.record.offset)
        if waits is not None:
            failures = [failure for failure in failures if failure.record.offset < waits.offset]
        elif elsewhere:
            numbers = [number for number in numbers if number not in elsewhere]
        return TransformedRecords(records, numbers, failures, waits, counts)

    def _run_steps(
        self, before: Sequence[Record], records: RecordColumns, failures: list[TransformFailure]
    ) -> tuple[Sequence[int], Collection[int]]:
        """Numbers of the records that come out, and of those among them that go to another remote topic."""
        # The records that are left, as they are so far, and their numbers.
        after: Sequence[Record] = before
        numbers: Sequence[int] = range(len(before))
        for step in self.steps:
            after, numbers = _applied(step, after, numbers, records, failures)
        changed = [
            (number, result) for number, result in zip(numbers, after, strict=True) if result is not before[number]
        ]
        # Whatever can't be written fails wherever it goes, so that it fails in all chains alike.
        unwritten = dict(records.change(*zip(*changed, strict=True))) if changed else {}
        failures += (
            TransformFailure(records.decoded([number])[0], self.steps[-1].name, error)
            for number, error in unwritten.items()
        )
        elsewhere: set[int] = set()
        if self.destination != "" or self.routes:
            elsewhere = {
                number for number, result in zip(numbers, after, strict=True) if result.destination != self.destination
            }
        if unwritten:
            numbers = [number for number in numbers if number not in unwritten]
        return numbers, elsewhere


def _translated(
    records: RecordColumns, numbers: Sequence[int], elsewhere: Collection[int], ids: TopicSchemaIds, known: SchemaIdMap
) -> tuple[SchemaIdCounts, Sequence[IdIssue]]:
    """Translate ids, and count those of records that stay; what goes elsewhere fails, and waits, in all chains."""
    translate = partial(records.translate, translations=known, key=ids.framing("key"), value=ids.framing("value"))
    done = translate([number for number in numbers if number not in elsewhere] if elsewhere else numbers)
    issues: Sequence[IdIssue] = done.issues
    if elsewhere:
        issues = sorted((*issues, *translate(sorted(elsewhere)).issues), key=lambda issue: issue.number)
    return SchemaIdCounts(done.translated, done.unframed), issues


def _unobstructed(
    issues: Sequence[IdIssue],
    before: Sequence[Record],
    records: RecordColumns,
    numbers: Sequence[int],
    failures: list[TransformFailure],
) -> tuple[Sequence[int], SchemaIdsWait | None]:
    """The numbers that nothing is in the way of, none where any must wait; ``before``: as steps got the records."""
    lacks = tuple(issue for issue in issues if issue.kind != "absent-id")
    absent = {issue.number: issue for issue in reversed(issues) if issue.kind == "absent-id"}
    found = _of_source(list(absent), before, records)
    failures += (
        TransformFailure(record, STEP, AbsentSchemaError(issue))
        for record, issue in zip(found, absent.values(), strict=True)
    )
    if lacks:
        return (), SchemaIdsWait(records.offsets()[lacks[0].number], lacks)
    return [number for number in numbers if number not in absent], None


def _of_source(numbers: Sequence[int], before: Sequence[Record], records: RecordColumns) -> Sequence[DecodedRecord]:
    """Records as the source has them, whatever transforms have made of them."""
    if not before or not numbers:
        return records.decoded(numbers)
    offsets, keys, values, headers = records.offsets(), records.keys(), records.values(), records.headers()
    return [
        encode_fields(offsets[number], keys[number], values[number], headers[number], before[number].timestamp_ms)
        for number in numbers
    ]


def _applied(
    step: NamedTransform,
    given: Sequence[Record],
    numbers: Sequence[int],
    records: RecordColumns,
    failures: list[TransformFailure],
) -> tuple[list[Record], list[int]]:
    """The results of a step, and their numbers."""
    after: list[Record] = []
    left: list[int] = []
    results = _results(step.transform, list(given)) if given else ()
    for number, record, result in zip(numbers, given, results, strict=True):
        if result is None:
            continue
        if result is record or (type(result) is Record and _may_go_on(step.transform, record, result)):
            after.append(result)
            left.append(number)
        else:
            failed = records.decoded([number])[0]
            failures.append(TransformFailure(failed, step.name, _error(step.transform, record, result)))
    return after, left


def _may_go_on(transform: Transform, record: Record, result: Record) -> bool:
    """Whether a step has changed where a record is from and goes to only as it may."""
    if result[4:] == record[4:]:
        return True
    # Who does not route can't have meant to: such a record was built anew, and has lost where it was to go.
    declared = transform.destinations
    return bool(declared) and result[4:7] == record[4:7] and result.destination in ("", *declared)


def _results(transform: Transform, records: list[Record]) -> Sequence[Result]:
    """One result for each record; if the batch fails, the transform is called for one record at a time."""
    try:
        results = transform(records)
        if len(results) == len(records):
            return results
        error: Exception = ValueError(
            f"{len(results)} results for {len(records)} records: a record that is left out is None in its place"
        )
    except Exception as raised:  # noqa: BLE001 - it is the user's code: whatever it raises is reported
        error = raised
    if len(records) == 1:
        return [error]
    return [_results(transform, [record])[0] for record in records]


def _error(transform: Transform, record: Record, result: object) -> Exception:
    if isinstance(result, Exception):
        return result
    if not isinstance(result, Record):
        return TypeError(f"a result is a Record, None or an exception, not {type(result).__name__}")
    if result[4:7] != record[4:7]:
        return ValueError("topic, partition and offset of a record can't be changed")
    declared = ", ".join(sorted(transform.destinations)) or "none"
    return ValueError(f"destination {result.destination!r} is none of those that the transform declares ({declared})")
