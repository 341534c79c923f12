"""What transforms make of small batches that wait together becomes one batch: what is left of each, and what failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from mirror_ray.model.errors import CorruptBatchError
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.records.batch import Codec
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.outgoing_batch import OutgoingBatch
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_states import CopyState
from mirror_ray.replication.partition_transforms import ErrorPolicy, PartitionTransforms
from mirror_ray.replication.target_log import TargetLog
from mirror_ray.transforms import Record, Result, Transform
from mirror_ray.transforms.chain import NamedTransform, TransformChain
from tests.support import batches
from tests.support.factories import establish, fetched, produced, replication, with_codec
from tests.support.kernels import needs_kernel
from tests.support.transforms import ByFirst
from tests.unit.replication.test_merging import ASSIGNMENT, LARGE, of_epoch, ready, values

pytestmark = needs_kernel

ONE = batches.batch(0, [(0, b"a"), (1, b"b")])
TWO = batches.batch(2, [(0, b"c"), (1, b"bad 3")])
THREE = batches.batch(4, [(0, b"gone"), (1, b"gone")])
FOUR = batches.batch(6, [(0, b"bad 6"), (1, b"h")])
GOOD = batches.batch(2, [(0, b"c"), (1, b"d")])


class Upper(Transform):
    """Upper-case values; what is ``gone`` is left out, what is ``bad`` fails, what is ``long`` grows."""

    version = "1"
    pure = True

    def __init__(self) -> None:
        #: How many records it was called with, each time.
        self.calls: list[int] = []

    def __call__(self, records: Sequence[Record]) -> list[Result]:
        self.calls.append(len(records))
        return [self._changed(record) for record in records]

    def _changed(self, record: Record) -> Result:
        value = record.value or b""
        if value.startswith(b"bad"):
            return ValueError(value.decode())
        if value.startswith(b"long"):
            return record._replace(value=bytes(500))
        return None if value == b"gone" else record._replace(value=value.upper())


def copying(
    *found: bytes,
    errors: ErrorPolicy = "stop",
    step: Transform | None = None,
    destination: str = "",
    merge: bool = True,
    **changes: object,
) -> PartitionReplication:
    """A copy with a transform that has taken these batches from its anchor on; ``changes`` are of the assignment."""
    assigned = replace(ASSIGNMENT, **changes)  # type: ignore[arg-type]
    copy = replication(assigned, merge=merge)
    chain = TransformChain((NamedTransform("step", step or Upper()),), "1", destination)
    copy.transforms = PartitionTransforms(chain, copy.source, errors, assigned.skip)
    establish(copy, TargetLog(end=assigned.anchor.target_offset))
    fetched(copy, *found)
    return copy


def cut(outgoing: Sequence[OutgoingBatch]) -> list[tuple[int, bool]]:
    """How many records each has, and whether it was merged."""
    return [(batch.count, batch.merged) for batch in outgoing]


def letters(copy: PartitionReplication) -> list[int]:
    """Write what waits to the dead letter topic; the source offsets of it."""
    waiting = copy.dead_letters
    assert waiting is not None
    assert copy.state is CopyState.AWAITING_DEAD_LETTERS
    copy.dead_letters_written(waiting)
    assert copy.state.fetches
    return [failure.record.offset for failure in waiting.failures]


def test_what_is_made_of_batches_becomes_one_batch() -> None:
    """The map has each record's own offset; the transform is called once, with all of them."""
    step = Upper()
    copy = copying(ONE, GOOD, THREE, batches.batch(6, [(0, b"g"), (1, b"gone"), (2, b"i")]), step=step)
    (merged,) = ready(copy)
    assert values([merged]) == [[b"A", b"B", b"C", b"D", b"G", b"I"]]
    assert (merged.runs, merged.source_first, merged.source_next) == (((0, 4), (6, 1), (8, 1)), 0, 9)
    assert (merged.target_offset, merged.sequence, merged.next_sequence, merged.merged) == (0, 0, 6, True)
    assert step.calls == [9]
    assert merged.uncompressed_bytes == merged.size_bytes
    copy.take()
    copy.answered(0)
    assert copy.acknowledged.source_offset == 9


def test_one_alone_and_merging_turned_off() -> None:
    """Each batch is what is left of one of the source's."""
    assert cut(ready(copying(ONE))) == [(2, False)]
    assert cut(ready(copying(ONE, GOOD, merge=False))) == [(2, False), (2, False)]


@pytest.mark.parametrize("codec", ["zstd", "gzip", "none"])
def test_batches_of_any_codec_are_merged(codec: Codec) -> None:
    """They are unpacked and packed anyway, so that it costs nothing more; the codec stays."""
    values_ = [bytes([letter]) * 3000 for letter in range(97, 104)]
    found = [with_codec(codec, 7 * number, *values_) for number in range(3)]
    (merged,) = ready(copying(*found))
    assert (merged.count, merged.batch.codec, merged.merged) == (21, codec, True)
    assert cut(ready(copying(*found, max_message_bytes=30_000))) == [(7, True)] * 3 or codec != "none"


def test_what_lies_before_the_position_is_left_out() -> None:
    """The target has it; no transform gets it."""
    step = Upper()
    holes = batches.batch(0, [(0, b"a"), (2, b"c")], 3)
    copy = copying(holes, batches.batch(4, [(0, b"e")]), anchor=OffsetPair(1, 1), step=step)
    assert [value for batch in values(ready(copy)) for value in batch] == [b"C", b"E"]
    appended = batches.batch(0, [(0, b"a"), (1, b"b")], attributes=0x08)
    copy = copying(appended, GOOD, anchor=OffsetPair(1, 1), step=step)
    assert values(ready(copy)) == [[b"B", b"C", b"D"]]
    assert sum(step.calls) == 5


def test_where_nothing_is_left_the_position_moves_on() -> None:
    """Nothing is transformed twice for it."""
    step = Upper()
    copy = copying(THREE, batches.batch(6, [(0, b"gone")]), anchor=OffsetPair(4, 0), step=step)
    assert (ready(copy), step.calls, copy.acknowledged.source_offset) == ([], [3], 7)


def test_a_failure_stops_the_copy_at_its_batch() -> None:
    """The error names the record; what is before its batch is sent."""
    copy = copying()
    with pytest.raises(ReplicationFault, match=r"offset 3.*bad 3"):
        fetched(copy, ONE, TWO, THREE, FOUR)
    assert values(ready(copy)) == [[b"A", b"B"]]
    assert copy.process_offset == 2


def test_failures_that_are_skipped_are_counted_once() -> None:
    """And don't keep what is left from being merged."""
    copy = copying(ONE, TWO, THREE, FOUR, errors="skip")
    (merged,) = ready(copy)
    assert values([merged]) == [[b"A", b"B", b"C", b"H"]]
    assert (merged.runs, merged.source_next) == (((0, 3), (7, 1)), 8)
    assert copy.transforms is not None
    assert (copy.transforms.failed, str(copy.transforms.last_failure)) == (2, "step: ValueError: bad 6")


def test_dead_letters_of_all_that_waited_are_written_first() -> None:
    """Then the rest is fetched again, and merged without them."""
    copy = copying(ONE, TWO, THREE, FOUR, errors="dead_letter")
    assert values(ready(copy)) == [[b"A", b"B"]]
    assert (copy.process_offset, copy.fetch_offset) == (2, 2)
    assert letters(copy) == [3, 6]
    fetched(copy, TWO, THREE, FOUR)
    assert values(ready(copy)) == [[b"A", b"B"], [b"C", b"H"]]
    assert copy.transforms is not None
    assert (copy.transforms.failed, copy.dead_letters) == (2, None)


def test_dead_letters_behind_what_was_not_looked_at_are_not_forgotten() -> None:
    """A large batch follows those that were merged: what fails in it waits for its own turn."""
    large = batches.batch(4, [(0, bytes(300 << 10)), (1, b"bad 5")])
    later = batches.batch(6, [(0, b"bad 6"), (1, b"h")])
    copy = copying(ONE, TWO, large, later, errors="dead_letter")
    assert letters(copy) == [3]
    fetched(copy, TWO, large, later)
    assert letters(copy) == [5, 6]
    fetched(copy, large, later)
    assert [batch.count for batch in ready(copy)] == [2, 1, 1, 1]


def test_dead_letters_before_a_damaged_batch_do_not_stand_for_what_is_in_it() -> None:
    """The damage may have been the network's: once it is whole, what fails in it is written, too."""
    copy = replication(ASSIGNMENT, merge=True)
    chain = TransformChain((NamedTransform("step", Upper()),), "1")
    copy.transforms = PartitionTransforms(chain, copy.source, "dead_letter")
    establish(copy, TargetLog(end=0))
    rotten = FOUR[:-1] + bytes([FOUR[-1] ^ 1])
    fetched(copy, ONE, TWO, THREE, rotten, batches.batch(8, [(0, b"bad 8")]))
    assert letters(copy) == [3]
    fetched(copy, TWO, THREE, FOUR)
    assert letters(copy) == [6]
    fetched(copy, FOUR)
    assert values(ready(copy)) == [[b"A", b"B"], [b"C"], [b"H"]]


def test_a_damaged_batch_is_not_taken_and_those_before_it_are() -> None:
    """They are merged; the copy goes no further."""
    copy = copying()
    with pytest.raises(CorruptBatchError):
        fetched(copy, ONE, GOOD, THREE[:-1] + bytes([THREE[-1] ^ 1]))
    assert (values(ready(copy)), copy.process_offset) == ([[b"A", b"B", b"C", b"D"]], 4)


def test_what_does_not_parse_stops_the_copy_at_its_batch() -> None:
    """Its checksum is right; no transform can have it, and nothing goes on without it."""
    copy = copying()
    with pytest.raises(CorruptBatchError):
        fetched(copy, ONE, GOOD, batches.sealed(4, b"no records", 0, 1, -1, 0, 5))
    assert (values(ready(copy)), copy.process_offset) == ([[b"A", b"B"], [b"C", b"D"]], 4)


def test_a_record_that_a_transform_made_too_large_is_named() -> None:
    """What lies before its batch is sent; what failed before is counted once."""
    copy = copying(max_message_bytes=400, errors="skip")
    with pytest.raises(ReplicationFault, match="source offset 5"):
        fetched(copy, ONE, TWO, batches.batch(4, [(0, b"e"), (1, b"long")]))
    assert [value for batch in values(ready(copy)) for value in batch] == [b"A", b"B", b"C"]
    assert copy.process_offset == 4
    assert copy.transforms is not None
    assert copy.transforms.failed == 1


def test_what_grew_is_divided() -> None:
    """No batch is larger than the target takes."""
    found = ready(copying(*(batches.batch(n, [(0, b"long")]) for n in range(20)), max_message_bytes=2000))
    assert max(batch.size_bytes for batch in found) <= 2000
    assert cut(found) == [(2, True)] * 10
    assert [batch.source_next for batch in found] == [batch.runs[-1][0] + batch.runs[-1][1] for batch in found]


def test_a_refused_merged_batch_goes_as_the_sources_own_and_then_record_by_record() -> None:
    """As without transforms."""
    copy = copying(ONE, GOOD)
    copy.take()
    copy.failed("INVALID_RECORD")
    establish(copy, TargetLog(end=0))
    later = [batches.batch(4, [(0, b"g")]), batches.batch(5, [(0, b"h")])]
    fetched(copy, ONE, GOOD, *later)
    assert cut(ready(copy)) == [(2, False), (2, False), (2, True)]
    copy.take()
    copy.failed("INVALID_RECORD")
    establish(copy, TargetLog(end=0))
    fetched(copy, ONE, GOOD, *later)
    assert cut(ready(copy)) == [(1, False), (1, False), (2, False), (2, True)]
    assert values(ready(copy)) == [[b"A"], [b"B"], [b"C", b"D"], [b"G", b"H"]]


def test_batches_with_records_to_skip_are_not_merged() -> None:
    """No transform gets these."""
    copy = copying(ONE, TWO, batches.batch(4, [(0, b"e")]), batches.batch(5, [(0, b"f")]), skip=((3, 4),))
    assert values(ready(copy)) == [[b"A", b"B"], [b"C"], [b"E", b"F"]]


def test_large_batches_and_leader_epochs_divide() -> None:
    """The order stays; a merged batch is of one leader epoch, also where nothing is left of what is between."""
    large = LARGE[:0] + batches.batch(4, [(0, bytes(300 << 10))])
    assert cut(ready(copying(ONE, GOOD, large, batches.batch(5, [(0, b"g")]), batches.batch(6, [(0, b"h")])))) == [
        (4, True),
        (1, False),
        (2, True),
    ]
    found = ready(copying(of_epoch(ONE, 3), of_epoch(GOOD, 3), of_epoch(THREE, 4), of_epoch(FOUR, 5), errors="skip"))
    assert [(batch.count, batch.source_next, batch.source_epoch) for batch in found] == [(4, 4, 3), (1, 8, 5)]


@pytest.mark.parametrize(("destination", "expected"), [("", [b"x"]), ("eu", [b"e1", b"e2"]), ("us", [b"u1"])])
def test_each_route_has_its_own(destination: str, expected: list[bytes]) -> None:
    """Merged, of the same source batches."""
    found = [batches.batch(0, [(0, b"e1"), (1, b"u1")]), batches.batch(2, [(0, b"x"), (1, b"e2"), (2, b"bad")])]
    copy = copying(*found, errors="skip", step=ByFirst(), destination=destination)
    (merged,) = ready(copy)
    assert (values([merged]), merged.source_next, merged.merged) == ([expected], 5, True)


def test_nothing_is_merged_while_the_position_is_searched_for() -> None:
    """Records are recognized one by one as the transform made them; behind the last one all is merged."""
    copy = replication(ASSIGNMENT, merge=True)
    chain = TransformChain((NamedTransform("step", Upper()),), "1")
    copy.transforms = PartitionTransforms(chain, copy.source, "skip")
    tail = produced(batches.batch(0, [(0, b"A"), (1, b"B"), (2, b"C")]), 1, 0)
    establish(copy, TargetLog(end=3, tail=tail))
    fetched(copy, ONE, TWO, THREE, FOUR, batches.batch(8, [(0, b"i")]))
    assert copy.position.known
    assert values(ready(copy)) == [[b"H", b"I"]]
