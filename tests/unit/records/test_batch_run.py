"""Small batches that follow each other become one run; opened again, they are the batches that were fetched."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.errors import CorruptBatchError, IncompleteBatchError
from mirror_ray.records.batch import RecordBatch, iter_batches, verify
from mirror_ray.records.batch_run import BatchRun, iter_runs, single_batches
from tests.support import batches
from tests.support.factories import with_codec
from tests.support.fuzzing import EDITS, Edit, edited, fuzzing
from tests.support.kernels import needs_kernel

pytestmark = needs_kernel

#: By kind: batches without compression, with zstd, and with LogAppendTime or compacted.
LARGEST = [200, 0, 0, 0, 150, 0, 0, 0, 300, 0, 0, 0, 300, 0, 0, 0]
WIDE = 1 << 20

ONE = batches.batch(0, [(0, b"a"), (1, b"b")])
TWO = batches.batch(2, [(0, b"c")])
THREE = batches.batch(3, [(0, b"d")])


def split(*found: bytes, most_bytes: int = WIDE) -> list[RecordBatch | BatchRun]:
    """What these batches of one partition are split into."""
    return iter_runs(memoryview(bytearray(b"".join(found))), LARGEST, most_bytes)


def sizes(items: Sequence[RecordBatch | BatchRun]) -> list[int]:
    """How many batches each is; a run is of several."""
    assert all(item.batches > 1 for item in items if isinstance(item, BatchRun))
    return [item.batches if isinstance(item, BatchRun) else 1 for item in items]


def of_epoch(batch: bytes, epoch: int) -> bytes:
    """The batch as a leader of that epoch appended it."""
    return batch[:12] + struct.pack(">i", epoch) + batch[16:]


def test_a_run_says_of_its_batches_what_they_say() -> None:
    """Its own fields are those of the first and the last."""
    transactional = batches.batch(3, [(0, b"d")], producer_id=7, attributes=0x10)
    (run,) = split(*(of_epoch(batch, 5) for batch in (ONE, TWO, transactional)))
    assert isinstance(run, BatchRun)
    assert run[1:] == (0, 4, 5, 0, 3)
    assert run.size_bytes == len(ONE + TWO + transactional)
    assert [batch.count for batch in single_batches([run])] == [2, 1, 1]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param(batches.marker(3, 7, commit=True), [2, 1, 2], id="a marker"),
        pytest.param(batches.batch(3, [], 0), [2, 1, 2], id="no records"),
        pytest.param(batches.batch(3, [(0, bytes(150))]), [2, 1, 2], id="too large"),
        pytest.param(of_epoch(THREE, 1), [2, 1, 2], id="another leader epoch"),
        pytest.param(with_codec("zstd", 3, b"d"), [2, 1, 2], id="another codec"),
        pytest.param(batches.batch(3, [(0, b"d")], attributes=0x08), [2, 1, 2], id="another timestamp type"),
        pytest.param(with_codec("lz4", 3, b"d"), [2, 1, 2], id="a codec that is not merged"),
        pytest.param(batches.batch(1, [(0, b"d")]), [2, 3], id="an offset that was there"),
        pytest.param(THREE[:-1] + b"\x01", [2, 1, 2], id="a wrong checksum"),
        pytest.param(batches.batch(3, [(0, bytes(150))], 1), [5], id="compacted, and larger"),
        pytest.param(THREE, [5], id="one as the others"),
    ],
)
def test_what_is_not_of_the_same_kind_ends_a_run(other: bytes, expected: list[int]) -> None:
    """It is looked at by itself, and behind it a new run begins."""
    following = [batches.batch(offset, [(0, b"x")]) for offset in (5, 6)]
    assert sizes(split(ONE, TWO, other, *following)) == expected


def test_a_run_is_no_larger_than_is_asked_for() -> None:
    """Others share the loop that it is processed in."""
    many = [batches.batch(offset, [(0, b"x")]) for offset in range(10)]
    assert sizes(split(*many, most_bytes=3 * len(many[0]))) == [3, 3, 3, 1]


def test_what_is_cut_off_at_the_end_is_left_out() -> None:
    """As a broker cuts answers; nothing whole at all is an error that says how much to fetch."""
    assert sizes(split(ONE, TWO, THREE[:65])) == [2]
    assert sizes(split(ONE, THREE[:65])) == [1]
    with pytest.raises(IncompleteBatchError, match=str(len(ONE))):
        split(ONE[:65])


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Batches of several kinds, in offsets that ascend."""
    log, offset = b"", 0
    for number in range(draw(st.integers(1, 10))):
        kind = draw(st.sampled_from(["none", "none", "none", "zstd", "lz4", "holes", "marker", "appended", "large"]))
        if kind == "marker":
            log += batches.marker(offset, 7, commit=True)
        elif kind == "holes":
            log += batches.batch(offset, [(1, b"%d" % number)], 3)
        elif kind in ("appended", "large"):
            size, attributes = (2, 0x08) if kind == "appended" else (250, 0)
            log += batches.batch(offset, [(0, bytes(size))], attributes=attributes)
        else:
            log += with_codec(kind, offset, b"%d" % number)  # type: ignore[arg-type]
        offset += 4
    return log


def outcome(data: bytearray, *, runs: bool) -> object:
    """The batches, or the error."""
    buffer = memoryview(data)
    try:
        return list(single_batches(iter_runs(buffer, LARGEST, 400))) if runs else iter_batches(buffer)
    except (CorruptBatchError, IncompleteBatchError) as error:
        return type(error), str(error)


@fuzzing(300)
@given(logs(), EDITS | st.just([]))
def test_in_runs_or_not_the_batches_are_the_same(log: bytes, edits: list[Edit]) -> None:
    """Whatever somebody has changed; what is in a run needs no look at each batch."""
    data = bytearray(edited(log, edits))
    assert outcome(data, runs=True) == outcome(data, runs=False)
    if not isinstance(outcome(data, runs=True), list):
        return
    for item in iter_runs(memoryview(data), LARGEST, 400):
        if isinstance(item, BatchRun):
            assert item.size_bytes <= 400
            inside = iter_batches(item.view)
            assert (len(inside), inside[0].base_offset) == (item.batches, item.base_offset)
            assert inside[-1].next_offset == item.next_offset
            for batch in inside:
                verify(batch)
                assert batch.count > 0
                assert not batch.is_control
                assert batch.size_bytes <= LARGEST[batch.attributes & 0x0F | (0x08 if batch.is_compacted else 0)]
                assert batch.partition_leader_epoch == item.partition_leader_epoch
                assert batch.attributes & 0x0F == item.attributes
