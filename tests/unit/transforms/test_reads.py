"""Transforms get the fields that they say they read, and no others; what they don't read goes on as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mirror_ray.transforms import FilterByKey, InsertHeader, Record, Result, Route, Transform
from mirror_ray.transforms.chain import NamedTransform, TransformChain
from tests.support.factories import parsed
from tests.support.kernels import needs_kernel
from tests.unit.records.strategies import Plain, compressed_bytes
from tests.unit.transforms.test_chain import SOURCE
from tests.unit.transforms.test_columns import Case, columns


class Reading(Transform):
    """A transform that says what it reads."""

    version = "1"
    pure = True

    def __init__(self, function: Callable[[Record], Result], *reads: str) -> None:
        self._function, self.reads = function, reads

    def __call__(self, records: Sequence[Record]) -> list[Result]:
        return [self._function(record) for record in records]


def chain(*steps: Transform) -> TransformChain:
    """Of these steps."""
    return TransformChain(tuple(NamedTransform(type(step).__name__, step) for step in steps), "it")


def one_batch() -> Case:
    """Three records with keys, values and a header."""
    records = [
        Plain(offset=n, timestamp=n, key=b"k%d" % n, value=b"v%d" % n, headers=((b"h", b"%d" % n),)) for n in range(3)
    ]
    return [parsed(compressed_bytes(records, "lz4"))], 0, []


@pytest.mark.parametrize("native", [pytest.param(True, marks=needs_kernel), False])
@pytest.mark.parametrize(
    ("step", "unread"),
    [
        (FilterByKey("k[12]"), ("values", "headers")),
        (InsertHeader("site", "eu"), ("keys", "values")),
        (Route({"1": "one"}, header="h"), ("keys", "values")),
        (Route({"k1": "one"}), ("values", "headers")),
    ],
)
def test_ready_transforms_touch_only_what_they_read(step: Transform, unread: tuple[str, ...], native: bool) -> None:
    """The others never become objects of Python; all the same they arrive."""
    opened = columns(one_batch(), native=native)

    def never() -> None:
        raise AssertionError("nobody reads it")

    for name in unread:
        setattr(opened, name, never)
    done = chain(step).run(SOURCE, opened)
    kept = done.records.decoded(done.kept)
    numbers = [1, 2] if isinstance(step, FilterByKey) else [0, 2] if isinstance(step, Route) else [0, 1, 2]
    assert [(record.key, record.value) for record in kept] == [(b"k%d" % n, b"v%d" % n) for n in numbers]
    added = ((b"site", b"eu"),) if isinstance(step, InsertHeader) else ()
    assert [record.headers for record in kept] == [((b"h", b"%d" % n), *added) for n in numbers]


@pytest.mark.parametrize("native", [pytest.param(True, marks=needs_kernel), False])
def test_what_was_not_declared_can_not_be_looked_into(native: bool) -> None:
    """It is an error of each record, instead of a wrong result; so is a field in another one's place."""
    wrong: tuple[Callable[[Record], Any], ...] = (
        lambda record: record if record.value == b"v1" else None,
        lambda record: record if record.value else None,
        lambda record: record._replace(headers=(*record.headers, ("n", b""))),
        lambda record: record._replace(key=record.value),
        lambda record: record._replace(key=(record.value or b"") + b"!"),
        lambda record: record if "n" in dict(record.headers) else None,
    )
    for function in wrong:
        done = chain(Reading(function, "key")).run(SOURCE, columns(one_batch(), native=native))
        assert (done.kept, len(done.failures)) == ([], 3)
    assert "the value is not read" in str(
        chain(Reading(wrong[0], "key")).run(SOURCE, columns(one_batch(), native=native)).failures[0]
    )


class Valued(FilterByKey):
    """A subclass from before ``reads``: it looks at values, too."""

    def __call__(self, records: Sequence[Record]) -> list[Result]:
        return [
            kept if isinstance(kept, Record) and kept.value == b"v1" else None for kept in super().__call__(records)
        ]


class Bare:
    """No subclass of ``Transform``, and it says no more than it must."""

    __slots__ = ()

    version = "1"
    pure = True

    def __call__(self, records: Sequence[Record]) -> list[Result]:
        return [record._replace(value=record.key) for record in records]


def test_who_says_nothing_reads_all() -> None:
    """Also a subclass of one that does not, and a class that only looks like a transform."""
    done = chain(Valued(".*")).run(SOURCE, columns(one_batch(), native=False))
    assert [record.value for record in done.records.decoded(done.kept)] == [b"v1"]
    done = chain(Bare()).run(SOURCE, columns(one_batch(), native=False))  # type: ignore[arg-type]
    assert [record.value for record in done.records.decoded(done.kept)] == [b"k0", b"k1", b"k2"]


@pytest.mark.parametrize("native", [pytest.param(True, marks=needs_kernel), False])
def test_a_later_step_has_what_it_reads(native: bool) -> None:
    """Whatever those before it do without."""
    upper = Reading(lambda record: record._replace(value=(record.value or b"").upper()), "value")
    done = chain(FilterByKey("k[12]"), upper).run(SOURCE, columns(one_batch(), native=native))
    assert [record.value for record in done.records.decoded(done.kept)] == [b"V1", b"V2"]
