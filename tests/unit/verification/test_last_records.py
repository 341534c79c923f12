"""The first pass over a compacted partition finds the same by the record kernel as by its Python reference."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.errors import CorruptBatchError, IncompleteBatchError
from mirror_ray.model.names import NO_TOPIC_ID, TopicPartition
from mirror_ray.records import kernel
from mirror_ray.records.batch import CODECS, Codec, RecordBatch, iter_batches
from mirror_ray.verification.first_pass import InProcessFirstPass
from mirror_ray.verification.job import CompareJob, FirstPassResult
from mirror_ray.verification.partition_log import PartitionLog
from mirror_ray.verification.ranges import ComparedRange, PositionPair
from tests.support.factories import compare_job
from tests.support.fuzzing import EDITS, Edit, edited, fuzzing
from tests.support.kernels import needs_kernel, without_kernel
from tests.unit.records.strategies import Plain, batch_bytes, payload
from tests.unit.records.test_hostile_batches import ATTRIBUTES, a_batch, signed
from tests.unit.verification.logged import batch_of, old_messages

pytestmark = needs_kernel


@dataclass(frozen=True)
class HeldLog(PartitionLog):
    """A log of these batches, each an answer of its own."""

    held: Sequence[RecordBatch] = ()

    async def batches(self, start: int, end: int) -> AsyncIterator[list[RecordBatch]]:
        for batch in self.held:
            if batch.next_offset > start and batch.base_offset < end:
                yield [batch]


def log_of(held: Sequence[RecordBatch]) -> HeldLog:
    """They are held by nobody."""
    return HeldLog(cast("ClusterConnections", None), TopicPartition("t", 0), NO_TOPIC_ID, held=held)


def found(job: CompareJob, source: Sequence[RecordBatch], target: Sequence[RecordBatch]) -> list[FirstPassResult | str]:
    """What both ways find; or the name of their error."""
    results: list[FirstPassResult | str] = []
    for way in (nullcontext(), without_kernel()):
        with way:
            try:
                results += asyncio.run(InProcessFirstPass(lambda _: (log_of(source), log_of(target))).run([job]))
            except CorruptBatchError as error:
                results.append(type(error).__name__)
    return results


KEYS = st.none() | st.sampled_from((b"", b"a", b"b", b"c", b"d" * 300)) | st.binary(max_size=2)
HEADERS = st.sampled_from(((), (), ((b"h", None),), ((b"", b"x"), (b"h", b""))))


@st.composite
def keyed_logs(draw: st.DrawFn) -> list[RecordBatch]:
    """Records of few keys in batches of any kind; some offsets are missing."""
    offset, batches = draw(st.integers(0, 3)), []
    for _ in range(draw(st.integers(0, 5))):
        records = []
        for _ in range(draw(st.integers(1, 5))):
            value = draw(st.sampled_from((None, b"", b"x", b"y" * 200)))
            stamp = draw(st.sampled_from((5, 6)))
            records.append(Plain(offset=offset, timestamp=stamp, key=draw(KEYS), value=value, headers=draw(HEADERS)))
            offset += draw(st.sampled_from((1, 1, 3)))
        if not any(record.headers for record in records) and draw(st.integers(0, 3)) == 0:
            batches.append(old_messages(records))
        else:
            batches.append(
                batch_of(records, codec=draw(st.sampled_from(CODECS)), attributes=draw(st.sampled_from((0, 8))))
            )
    return batches


def changed(draw: st.DrawFn, log: Sequence[RecordBatch]) -> list[RecordBatch]:
    """The same, less a batch, with one twice, or another one."""
    kept = list(log)
    at = draw(st.integers(0, max(0, len(kept) - 1)))
    match draw(st.sampled_from(("same", "same", "less", "again"))):
        case "less":
            del kept[at : at + 1]
        case "again":
            kept[at:at] = kept[at : at + 1]
    return kept


@st.composite
def cases(draw: st.DrawFn) -> tuple[CompareJob, list[RecordBatch], list[RecordBatch]]:
    """A log, a copy of it or another log, and what is compared of them: on the target often in several ranges."""
    source = draw(keyed_logs())
    target = changed(draw, source) if draw(st.booleans()) else draw(keyed_logs())
    cuts = sorted(draw(st.sets(st.integers(0, 30), min_size=2, max_size=6)))
    ranges = [
        ComparedRange(first, end, first, max(first, end - draw(st.sampled_from((0, 0, 1)))))
        for first, end in pairwise(cuts)
    ]
    begin, end = PositionPair(cuts[0], cuts[0]), PositionPair(cuts[-1], cuts[-1])
    job = compare_job(begin, end, *ranges, compacted=True, timestamps=draw(st.booleans()))
    return replace(job, key_fraction=draw(st.sampled_from((1.0, 1.0, 0.5)))), source, target


@given(cases())
def test_both_find_the_same(case: tuple[CompareJob, list[RecordBatch], list[RecordBatch]]) -> None:
    """Of batches of every kind, whole or not, and of samples."""
    by_kernel, by_reference = found(*case)
    assert by_kernel == by_reference


@fuzzing(200)
@given(
    st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=9), HEADERS), min_size=1, max_size=6),
    st.sampled_from(CODECS),
    st.sampled_from((0, 1, 2, 2, 2)),
    ATTRIBUTES,
    EDITS,
    st.booleans(),
)
def test_both_say_the_same_of_changed_batches(
    contents: list[tuple[bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]],
    codec: Codec,
    magic: int,
    attributes: int,
    edits: list[Edit],
    inside: bool,
) -> None:
    """Their bytes are changed, or what is compressed in them: lengths of fields, numbers of headers."""
    records = [
        Plain(offset=at, timestamp=5, key=key, value=value, headers=headers)
        for at, (key, value, headers) in enumerate(contents)
    ]
    if inside:
        data = signed(bytes(batch_bytes(records, data=edited(payload(records, 0, 5), edits), base_timestamp=5)), 2)
    else:
        data = signed(edited(a_batch(records, codec, magic, attributes), edits), magic)
    try:
        log = iter_batches(memoryview(bytearray(data)))
    except (CorruptBatchError, IncompleteBatchError):
        return
    by_kernel, by_reference = found(
        compare_job(PositionPair(0, 0), PositionPair(9, 9), compacted=True), log, [batch_of(records)]
    )
    assert by_kernel == by_reference


@pytest.mark.parametrize("field", ["key", "value", "headers", "timestamp"])
def test_one_field_makes_a_difference(field: str) -> None:
    """A null is not an empty value, nor is a header without a value one with an empty one."""
    mine = Plain(offset=0, timestamp=5, key=b"k", value=b"", headers=((b"h", None),))
    others = {"key": b"K", "value": None, "headers": ((b"h", b""),), "timestamp": 6}
    theirs = replace(mine, **{field: others[field]})  # type: ignore[arg-type]
    job = compare_job(PositionPair(0, 0), PositionPair(1, 1), compacted=True)
    for timestamps in (True, False):
        by_kernel, by_reference = found(replace(job, timestamps=timestamps), [batch_of([mine])], [batch_of([theirs])])
        assert by_kernel == by_reference
        assert isinstance(by_kernel, FirstPassResult)
        assert by_kernel.same == (field == "timestamp" and not timestamps)
        assert bool(by_kernel.differing_keys) != by_kernel.same


def test_each_comparison_has_a_secret_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """So nobody can make two records in advance whose digests are the same."""
    drawn: list[bytes] = []

    def draw(size: int) -> bytes:
        drawn.append(urandom(size))
        return drawn[-1]

    urandom = os.urandom
    monkeypatch.setattr("os.urandom", draw)
    for _ in range(2):
        kernel.KeyComparison(timestamps=True, keys=(0, 1 << 32), ordered_below=0)
    assert [len(secret) for secret in drawn] == [16, 16]
    assert drawn[0] != drawn[1]
