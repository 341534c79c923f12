"""The transforms of one topic, one after the other, on the records of a batch. Pure, as far as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mirror_ray.model.names import TopicPartition
from mirror_ray.records import decode
from mirror_ray.transforms.record import Record, closed, opened
from mirror_ray.transforms.transform import Result, Transform


class Step(NamedTuple):
    """A transform, under the name that the configuration has for it."""

    name: str
    transform: Transform


class Failure(NamedTuple):
    """A record that a transform could not tell the outcome of."""

    record: decode.Record
    #: The step's name.
    step: str
    error: Exception

    def __str__(self) -> str:
        return f"{self.step}: {type(self.error).__name__}: {self.error}"


class Outcome(NamedTuple):
    """What became of a batch's records."""

    #: At their source offsets, in order, without what was left out and what failed.
    kept: list[decode.Record]
    failures: list[Failure]


@dataclass(frozen=True, slots=True)
class Chain:
    """Transforms in their order; not empty. What one leaves out, or fails on, the next ones do not see."""

    steps: tuple[Step, ...]
    #: Tells apart what may come out: names, versions and options of all steps. Fit to be read and to be kept.
    identity: str

    @property
    def pure(self) -> bool:
        """Whether all of them are."""
        return all(step.transform.pure for step in self.steps)

    def apply(self, source: TopicPartition, records: Sequence[decode.Record]) -> Outcome:
        """Send records of one source partition, in order, through all steps.

        Raises:
            CorruptBatchError: The bytes of one are no record.
        """
        before = opened(records, source.topic, source.partition)
        # What each of them was, and what has become of it so far.
        origins: Sequence[decode.Record] = records
        after, failures = before, list[Failure]()
        for name, transform in self.steps:
            given, at, after, origins = after, origins, [], []
            results = _results(transform, given) if given else ()
            for origin, record, result in zip(at, given, results, strict=True):
                if result is None:
                    continue
                if result is record or (type(result) is Record and result[4:] == record[4:]):
                    after.append(result)
                    origins.append(origin)
                else:
                    failures.append(Failure(origin, name, _error(result)))
        if after == before:
            return Outcome(list(records), failures)
        kept: list[decode.Record] = []
        untouched = {id(record) for record in before}
        for origin, result in zip(origins, after, strict=True):
            if id(result) in untouched:
                kept.append(origin)
                continue
            try:
                kept.append(closed(result))
            except (TypeError, ValueError, AttributeError) as error:
                failures.append(Failure(origin, self.steps[-1].name, error))
        failures.sort(key=lambda each: each.record.offset)
        return Outcome(kept, failures)


def _results(transform: Transform, records: list[Record]) -> Sequence[Result]:
    """One for each record: where the whole batch fails, they are asked for one by one."""
    try:
        results = transform(records)
        if len(results) == len(records):
            return results
        error: Exception = ValueError(
            f"{len(results)} results for {len(records)} records: a record that is left out is None in its place"
        )
    except Exception as raised:  # noqa: BLE001 - it is the user's code: whatever it raises is told
        error = raised
    if len(records) == 1:
        return [error]
    return [_results(transform, [record])[0] for record in records]


def _error(result: object) -> Exception:
    if isinstance(result, Exception):
        return result
    if isinstance(result, Record):
        return ValueError("topic, partition and offset of a record can't be changed")
    return TypeError(f"a result is a Record, None or an exception, not {type(result).__name__}")
