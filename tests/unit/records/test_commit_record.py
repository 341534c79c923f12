"""The record of the commit history: what is written is read, and bytes that are none are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.errors import CorruptRecordError
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.records.commit_record import DELETED, CommitRecord, pieces

NAMES = st.text(min_size=1, max_size=8)
OFFSETS = st.builds(
    CommittedOffset,
    st.integers(-1, 2**63 - 1),
    st.integers(-1, 2**31 - 1),
    st.just("") | st.text(max_size=5),
    st.sampled_from(["", "id-1", "id-2"]).map(TopicId),
)
PARTITIONS = st.builds(TopicPartition, NAMES, st.integers(0, 2**31 - 1))
COMMITS = st.dictionaries(NAMES, st.dictionaries(PARTITIONS, OFFSETS, min_size=1, max_size=6), max_size=5)

RECORD = CommitRecord(
    life=bytes(range(16)),
    number=1,
    of=3,
    sequence=2**40,
    at_ms=1_700_000_000_000,
    kind="changes",
    first=True,
    last=False,
    commits={"billing": {TopicPartition("orders", 0): CommittedOffset(7, 2, "by us"), TopicPartition("t", 9): DELETED}},
)


@given(
    st.builds(
        CommitRecord,
        life=st.binary(min_size=16, max_size=16),
        number=st.integers(0, 9),
        of=st.integers(1, 9),
        sequence=st.integers(0, 2**62),
        at_ms=st.integers(0, 2**62),
        kind=st.sampled_from(["changes", "snapshot"]),
        first=st.booleans(),
        last=st.booleans(),
        commits=COMMITS,
    )
)
def test_what_is_written_is_read(record: CommitRecord) -> None:
    """Every field; names in any script; a look without anything in it."""
    assert CommitRecord.decode(record.encode()[1]) == record


@given(st.data())
def test_other_bytes_are_refused(data: st.DataObject) -> None:
    """Cut short, longer, of another version, or with anything else in them: an error, or another record."""
    value = bytearray(RECORD.encode()[1])
    with pytest.raises(CorruptRecordError):
        CommitRecord.decode(bytes(value[: data.draw(st.integers(0, len(value) - 1))]))
    with pytest.raises(CorruptRecordError):
        CommitRecord.decode(bytes(value) + b"\0")
    at = data.draw(st.integers(0, len(value) - 1))
    value[at] ^= data.draw(st.integers(1, 255))
    try:
        CommitRecord.decode(bytes(value))
    except CorruptRecordError:
        return


def test_a_tombstone_is_no_record() -> None:
    """The topic is not compacted, so nobody writes one."""
    with pytest.raises(CorruptRecordError, match="it is null"):
        CommitRecord.decode(None)


def test_many_commits_become_several_records() -> None:
    """None of them is over the broker's limit, and together they are what was there."""
    commits = {
        f"group-{group:03}": {
            TopicPartition("t" * 200, number): CommittedOffset(2**62 + number, 7, "m" * 100) for number in range(50)
        }
        for group in range(200)
    }
    parts = list(pieces(commits))
    assert len(parts) > 1
    assert max(len(replace(RECORD, commits=part).encode()[1]) for part in parts) < 512 << 10
    rows = [(group, *row) for part in parts for group, offsets in part.items() for row in offsets.items()]
    assert rows == [(group, *row) for group, offsets in commits.items() for row in offsets.items()]


def test_a_look_without_commits_is_one_record() -> None:
    """So that it is known that somebody looked."""
    assert list(pieces({})) == [{}]
