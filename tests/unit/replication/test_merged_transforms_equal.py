"""Whatever transforms answer, and however a log is cut: merged or not, the target gets the same records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import records_of
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_transforms import ErrorPolicy
from mirror_ray.transforms import Record, Result, Transform
from tests.support.factories import fetched, parsed
from tests.support.kernels import needs_kernel
from tests.unit.replication.test_merged_transforms import copying, letters
from tests.unit.replication.test_merging import ready, sources

pytestmark = needs_kernel


def outcomes(record: Record) -> Result:
    """By the value: some are left out, some fail, some are changed."""
    match len(record.value or b"") * 7 + record.offset % 5:
        case number if number % 5 == 1:
            return None
        case number if number % 5 == 2:
            return ValueError("no")
        case number if number % 5 == 3:
            return record._replace(headers=(*record.headers, ("n", b"%d" % record.offset)))
    return record


class Outcomes(Transform):
    """``outcomes`` of each."""

    version = "1"
    pure = True

    def __call__(self, records: Sequence[Record]) -> list[Result]:
        return [outcomes(record) for record in records]


def answers(log: list[bytes], cuts: list[int], copy: PartitionReplication) -> list[int]:
    """Fetch the log in several answers, and what waits for dead letters again; source offsets of the dead letters."""
    written: list[int] = []
    bounds = sorted({0, len(log), *(cut_ % (len(log) + 1) for cut_ in cuts)})
    for _, end in pairwise(bounds):
        while True:
            fetched(copy, *(data for data in log[:end] if next_offset(data) > copy.process_offset))
            if copy.dead_letters is None:
                break
            written += letters(copy)
    return written


def next_offset(data: bytes) -> int:
    """Behind the batch."""
    found: RecordBatch = parsed(data)
    return found.next_offset


@given(
    sources(),
    st.lists(st.integers(0, 12), max_size=4),
    st.integers(0, 20),
    st.sampled_from([1000, 1 << 20]),
    st.sampled_from(["skip", "dead_letter"]),
)
def test_merged_or_not_the_target_gets_the_same_records(
    log: list[bytes], cuts: list[int], position: int, max_message_bytes: int, errors: ErrorPolicy
) -> None:
    """From any position, in any answers: the same records at the same offsets, and every failed one is set aside."""
    found = []
    for merge in (True, False):
        copy = copying(
            errors=errors,
            step=Outcomes(),
            merge=merge,
            anchor=OffsetPair(position, 0),
            max_message_bytes=max(max_message_bytes, 18 << 10),
        )
        failed = set(answers(log, cuts, copy))
        target, at = [], 0
        for batch in ready(copy):
            assert (batch.target_offset, batch.sequence) == (at, at)
            decoded = records_of(parsed(batch.batch.view))
            offsets = [first + number for first, count in batch.runs for number in range(count)]
            assert (offsets[0], len(offsets)) == (batch.source_first, batch.count)
            target += [(offset, r.timestamp, r.tail) for offset, r in zip(offsets, decoded, strict=True)]
            at += batch.count
        assert copy.transforms is not None
        end = copy.pipeline.newest.source_next if copy.pipeline.newest else copy.acknowledged.source_offset
        found.append((target, failed, copy.transforms.failed, end, copy.process_offset))
    assert found[0] == found[1]
