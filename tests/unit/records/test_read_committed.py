"""Which batches a read_committed consumer sees, also of a producer that aborts and commits one after the other."""

from __future__ import annotations

from mirror_ray.records.batch import iter_batches
from mirror_ray.records.read_committed import CommittedOnly
from tests.support.batches import batch, marker

TRANSACTIONAL = 0x10


def copied(data: list[bytes], aborted: list[tuple[int, int]]) -> list[int]:
    """Base offsets of what is copied of one answer."""
    select = CommittedOnly(aborted)
    batches = iter_batches(memoryview(bytearray(b"".join(data))))
    return [batch.base_offset for batch in batches if select.copies(batch)]


def of(producer: int, offset: int, attributes: int = TRANSACTIONAL) -> bytes:
    """A batch of one record."""
    return batch(offset, [(0, b"value")], producer_id=producer, attributes=attributes)


def test_a_producer_that_aborts_and_then_commits() -> None:
    """An abort ends with its marker; a transaction that is aborted after that is another one."""
    data = [of(7, 0), marker(1, 7, commit=False), of(7, 2), marker(3, 7, commit=True), of(7, 4)]
    data += [marker(5, 7, commit=False), of(7, 6)]
    assert copied(data, [(7, 0), (7, 4)]) == [2, 6]


def test_another_producers_commit_ends_no_abort() -> None:
    """Their markers lie between its batches; aborts come in any order."""
    data = [of(8, 0), of(7, 1), marker(2, 8, commit=True), of(7, 3), of(8, 4), marker(5, 7, commit=False)]
    assert copied([*data, of(9, 6), marker(7, 9, commit=False)], [(9, 6), (7, 1)]) == [0, 4]


def test_a_commit_marker_ends_no_abort() -> None:
    """Before the aborted transaction's first batch the same producer may have committed one."""
    data = [of(7, 0), marker(1, 7, commit=True), of(7, 2), marker(3, 7, commit=False)]
    assert copied(data, [(7, 2)]) == [0]


def test_what_the_producer_of_an_abort_writes_without_a_transaction() -> None:
    """Kafka allows none, and its consumer would see it."""
    assert copied([of(7, 0), of(7, 1, attributes=0)], [(7, 0)]) == [1]


def test_a_batch_of_one_record_is_aborted_from_its_first_on() -> None:
    """Its first offset is its last."""
    assert copied([of(7, 0)], [(7, 0)]) == []


def test_markers_and_emptied_batches_are_not_copied() -> None:
    """Also where nothing is aborted, and where something is."""
    data = [marker(0, 7, commit=True), batch(1, [], 0), of(7, 2), marker(3, 7, commit=False), batch(4, [], 0)]
    assert copied(data, [(7, 2)]) == []
    assert copied(data, []) == [2]
