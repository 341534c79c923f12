"""The transforms of one topic, one after the other, on the records of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mirror_ray.model.names import TopicPartition
from mirror_ray.records import decode
from mirror_ray.transforms.record import Record, encode_record, parse_records
from mirror_ray.transforms.transform import Result, Transform


class NamedTransform(NamedTuple):
    """A transform, under the name that the configuration has for it."""

    name: str
    transform: Transform


class TransformFailure(NamedTuple):
    """A record that a transform has failed on."""

    record: decode.DecodedRecord
    #: The step's name.
    step: str
    error: Exception

    def __str__(self) -> str:
        return f"{self.step}: {type(self.error).__name__}: {self.error}"


class ChainResult(NamedTuple):
    """What became of a batch's records."""

    #: At their source offsets, in order, without what was left out, what failed, and what goes elsewhere.
    kept: list[decode.DecodedRecord]
    failures: list[TransformFailure]


@dataclass(frozen=True, slots=True)
class TransformChain:
    """Transforms in their order; not empty. What one leaves out, or fails on, the next ones do not see.

    Where they route, each remote topic has a chain of these same steps, of which one alone keeps a record.
    """

    steps: tuple[NamedTransform, ...]
    #: Names, versions and options of all steps: while it stays the same, so do the results. Readable, and persisted.
    identity: str
    #: Records for it are kept; empty: those that no transform sends elsewhere.
    destination: str = ""

    @property
    def pure(self) -> bool:
        """Whether all of them are."""
        return all(step.transform.pure for step in self.steps)

    @property
    def routes(self) -> bool:
        """Whether records may go elsewhere."""
        return any(step.transform.destinations for step in self.steps)

    def apply(self, source: TopicPartition, records: Sequence[decode.DecodedRecord]) -> ChainResult:
        """Send records of one source partition, in order, through all steps.

        Raises:
            CorruptBatchError: The bytes of one are no record.
        """
        before = parse_records(records, source.topic, source.partition)
        # The records that are left, as they are so far, and their positions in the batch.
        after: Sequence[Record] = before
        numbers: Sequence[int] = range(len(before))
        failures: list[TransformFailure] = []
        for step in self.steps:
            after, numbers = _applied(step, after, numbers, records, failures)
        if self.destination == "" and after == before:
            return ChainResult(list(records), failures)
        kept: list[decode.DecodedRecord] = []
        for number, result in zip(numbers, after, strict=True):
            # Whatever can't be written fails wherever it goes, so that it fails in all chains alike.
            try:
                unchanged = result is before[number] or result[:4] == before[number][:4]
                encoded = records[number] if unchanged else encode_record(result)
            except (TypeError, ValueError, AttributeError) as error:
                failures.append(TransformFailure(records[number], self.steps[-1].name, error))
                continue
            if result.destination == self.destination:
                kept.append(encoded)
        failures.sort(key=lambda failure: failure.record.offset)
        return ChainResult(kept, failures)


def _applied(
    step: NamedTransform,
    given: Sequence[Record],
    numbers: Sequence[int],
    records: Sequence[decode.DecodedRecord],
    failures: list[TransformFailure],
) -> tuple[list[Record], list[int]]:
    """The results of a step, and their positions in the batch."""
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
            failures.append(TransformFailure(records[number], step.name, _error(step.transform, record, result)))
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
