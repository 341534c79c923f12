"""Equal bytes are called equal records only where they are; what is found is what is found by opening every batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_ray.model.errors import CorruptBatchError
from mirror_ray.model.names import NO_TOPIC_ID
from mirror_ray.records import kernel
from mirror_ray.records.batch import CODECS, HEADER, HEADER_BYTES, LOG_OVERHEAD_BYTES, Codec, RecordBatch, iter_batches
from mirror_ray.records.decode import DecodedRecord, records_of
from mirror_ray.verification import batch_comparison
from mirror_ray.verification.batch_comparison import RangeComparison, have_same_records
from mirror_ray.verification.first_pass import InProcessFirstPass
from mirror_ray.verification.job import FirstPassResult
from mirror_ray.verification.partition_log import PartitionLog
from mirror_ray.verification.ranges import ComparedRange, PositionPair
from tests.support.factories import compare_job
from tests.unit.kafka.fetch_leader import ORDERS, Leader, Said
from tests.unit.records.strategies import Plain
from tests.unit.verification.logged import Copied, batch_of, by_record, compared, copied_logs, old_messages

pytestmark = pytest.mark.usefixtures("either")


def plain(numbers: range, shift: int = 0) -> list[Plain]:
    """Records of these numbers, at offsets so much further on."""
    return [Plain(offset=number + shift, timestamp=5 + number % 3, value=b"%d" % number) for number in numbers]


def without_b(records: list[DecodedRecord]) -> list[DecodedRecord]:
    """As a filter does."""
    return [record for record in records if record.value != b"b"]


@settings(max_examples=300)
@given(
    copied_logs(),
    st.booleans(),
    st.sampled_from((None, None, without_b)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.booleans(),
)
def test_it_finds_what_opening_every_batch_finds(
    copied: Copied,
    timestamps: bool,
    kept: Callable[[list[DecodedRecord]], list[DecodedRecord]] | None,
    pieces: tuple[int, int],
    opened: bool,
) -> None:
    """Whatever was passed on, split, recompressed or changed, and however both sides are read."""
    found = compared(copied, timestamps=timestamps, kept=kept, pieces=pieces, opened=opened)
    assert found == by_record(copied, kept, timestamps=timestamps)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.integers(1, 25), st.data())
def test_what_was_passed_on_is_not_opened(sizes: list[int], size: int, data: st.DataObject) -> None:
    """Wherever ranges cut through batches, markers lie with_bounds, and whatever the copy rewrote in their headers."""
    source, target, number, shift = [], [], 0, data.draw(st.integers(0, 99))
    pairs = []
    for count in sizes:
        codec = data.draw(st.sampled_from(CODECS))
        numbers = range(number, number + count)
        source.append(batch_of(plain(numbers), codec=codec, attributes=0x10, producer=(5, 1, 7)))
        shift += data.draw(st.sampled_from((0, 0, 2)))
        copy = batch_of(plain(numbers, shift), codec=codec)
        target.append(copy)
        pairs += [(at, at + shift) for at in numbers]
        number += count
    cuts = [*pairs[::size], (number, number + shift + data.draw(st.integers(0, 1)))]
    ranges = [ComparedRange(here[0], there[0], here[1], there[1]) for here, there in pairwise(cuts)]

    def opened(batch: RecordBatch) -> list[DecodedRecord]:
        raise AssertionError(batch)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(batch_comparison, "records_of", opened)
        pieces = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
        found = compared(Copied(source, target, ranges), pieces=pieces)
    assert found == [span.source_end - span.source for span in ranges]


@pytest.mark.parametrize("codec", CODECS)
def test_what_was_merged_or_cut_otherwise_is_not_opened_in_python(codec: Codec) -> None:
    """Small batches of the source in a large one, whose ends lie elsewhere than those of the ranges."""
    if not kernel.is_available():
        pytest.skip("the reference opens it")
    source = [batch_of(plain(range(at, at + 3)), codec=codec) for at in range(0, 30, 3)]
    target = [batch_of(plain(range(first, end), 7), codec="zstd") for first, end in ((0, 14), (14, 15), (15, 30))]
    ranges = [ComparedRange(at, at + 10, at + 7, at + 17) for at in range(0, 30, 10)]

    def opened(batch: RecordBatch) -> list[DecodedRecord]:
        raise AssertionError(batch)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(batch_comparison, "records_of", opened)
        for pieces in ((1, 1), (3, 1), (10, 3)):
            assert compared(Copied(source, target, ranges), pieces=pieces) == [10, 10, 10]


@pytest.mark.parametrize("at", [0, 4, 9])
def test_a_batch_that_does_not_parse_is_told_wherever_the_range_ends(at: int) -> None:
    """Not even records before what is broken are called equal."""
    whole = batch_of(plain(range(10)))
    section = bytearray(whole.view[HEADER_BYTES:])
    record_bytes = len(section) // 10
    section[at * record_bytes] = 0x7E
    broken = rebuilt(whole, bytes(section))
    source = [batch_of(plain(range(first, first + 5))) for first in (0, 5)]
    with pytest.raises(CorruptBatchError, match=r"does not parse|too early"):
        compared(Copied(source, [broken], [ComparedRange(0, 3, 0, 3)]))


def test_another_timestamp_of_one_record_is_a_difference_where_timestamps_count() -> None:
    """In a batch whose base and greatest timestamp are the source's, cut otherwise."""
    other = [Plain(offset=at, timestamp=5 + (at + (at == 4)) % 3, value=b"%d" % at) for at in range(9)]
    source, ranges = [batch_of(plain(range(4))), batch_of(plain(range(4, 9)))], [ComparedRange(0, 9, 0, 9)]
    assert compared(Copied(source, [batch_of(other)], ranges)) == [None]
    assert compared(Copied(source, [batch_of(other)], ranges), timestamps=False) == [9]


def rebuilt(batch: RecordBatch, section: bytes, **fields: int) -> RecordBatch:
    """The same with another record section, or other fields in its header."""
    header = batch._asdict() | fields | {"length": HEADER_BYTES - LOG_OVERHEAD_BYTES + len(section)}
    del header["view"]
    written = memoryview(bytearray(HEADER.pack(*header.values()) + section))
    return iter_batches(written)[0]


def seen(batch: RecordBatch, *, timestamps: bool) -> list[tuple[int, int, bytes]] | None:
    """What consumers see of it, by distance from its base offset; None: it can't be read."""
    try:
        records = records_of(batch)
    except CorruptBatchError:
        return None
    return [
        (record.offset - batch.base_offset, record.timestamp if timestamps else 0, record.tail) for record in records
    ]


#: Fields of the header that another batch has otherwise, and by how much; of the attributes, which bits.
_OTHERS: tuple[dict[str, int], ...] = (
    {},
    {"base_offset": 77, "partition_leader_epoch": 3, "producer_id": 4, "producer_epoch": 5, "base_sequence": 6},
    *({"attributes": 1 << bit} for bit in range(9)),
    {"base_timestamp": 1},
    {"max_timestamp": 1},
    {"count": 1},
    {"count": -1},
    {"last_offset_delta": 1},
    {"last_offset_delta": -1},
    {"attributes": 8, "max_timestamp": 4},
)
_OF_THE_LOG = _OTHERS[:2]


@pytest.mark.parametrize("others", _OTHERS)
@settings(max_examples=40)
@given(
    st.integers(1, 5),
    st.sampled_from(CODECS[:3]),
    st.sampled_from((0, 8)),
    st.none() | st.tuples(st.integers(0, 99), st.integers(0, 7)),
)
def test_equal_sections_are_equal_records(
    others: dict[str, int], count: int, codec: Codec, attributes: int, bit: tuple[int, int] | None
) -> None:
    """Whatever else is other in a header, or in one byte of the section."""
    batch = batch_of(plain(range(count)), codec=codec, attributes=attributes)
    section = bytearray(batch.view[HEADER_BYTES:])
    if bit is not None:
        section[bit[0] % len(section)] ^= 1 << bit[1]
    fields = {name: getattr(batch, name) + by for name, by in others.items()}
    fields["attributes"] = batch.attributes ^ others.get("attributes", 0)
    other = rebuilt(batch, bytes(section), **fields)
    for timestamps in (True, False):
        try:
            same = have_same_records(batch, other, timestamps=timestamps)
        except CorruptBatchError:
            assert seen(other, timestamps=timestamps) is None
            continue
        assert not same or seen(batch, timestamps=timestamps) == seen(other, timestamps=timestamps)
        assert same or bit is not None or others not in _OF_THE_LOG


@pytest.mark.parametrize(
    ("target", "span", "expected"),
    [
        ([range(5), range(5, 9)], (0, 9), 9),
        ([range(2), range(2, 7), range(7, 9)], (0, 9), 9),
        ([range(5), range(5), range(5, 9)], (0, 14), None),
        ([range(5), range(5, 9), range(5, 9)], (0, 13), None),
        ([range(1, 5), range(5, 9)], (0, 8), None),
        ([range(5), range(5, 8)], (0, 8), None),
        ([range(5)], (0, 5), None),
        ([], (0, 0), None),
        # One record further on in the same batches.
        ([range(5), range(5, 9)], (1, 9), None),
        ([range(5), range(5, 9)], (0, 8), None),
    ],
)
def test_where_copies_begin_and_end_otherwise(target: list[range], span: tuple[int, int], expected: int | None) -> None:
    """Split elsewhere, doubled, lost at either end, or shifted by one."""
    source = [batch_of(plain(range(5))), batch_of(plain(range(5, 9)))]
    copy, at = [], 0
    for numbers in target:
        copy.append(batch_of(plain(numbers, at - numbers.start)))
        at += len(numbers)
    copied = Copied(source, copy, [ComparedRange(0, 9, *span)])
    assert compared(copied) == by_record(copied, None, timestamps=True) == [expected]


def test_a_record_that_was_moved_over_an_equal_batch() -> None:
    """The batch is equal, and at another place in the order."""
    apart = [plain(range(2)), plain(range(2, 5)), plain(range(5, 7))]
    moved = [plain(range(1)), plain(range(2, 5), -1), plain(range(1, 2), 3), plain(range(5, 7))]
    ranges = [ComparedRange(0, 5, 0, 5), ComparedRange(5, 7, 5, 7)]
    logs = [batch_of(records) for records in apart], [batch_of(pair) for pair in moved]
    for source, target in (logs, logs[::-1]):
        copied = Copied(source, target, ranges)
        assert compared(copied) == by_record(copied, None, timestamps=True) == [None, 2]


def test_what_differs_leaves_nothing_behind_for_the_next_range() -> None:
    """Though more was opened of one side than of the other."""
    changed = [*plain(range(2)), Plain(offset=2, timestamp=5, value=b"other")]
    source = [batch_of(plain(range(6))), batch_of(plain(range(6, 9)))]
    target = [batch_of(changed), batch_of(plain(range(3, 6))), batch_of(plain(range(6, 9)))]
    for logs in ((source, target), (target, source)):
        assert compared(Copied(*logs, [ComparedRange(0, 6, 0, 6), ComparedRange(6, 9, 6, 9)])) == [None, 3]


@pytest.mark.parametrize("cut", range(1, 6))
def test_a_range_ends_inside_old_messages(cut: int) -> None:
    """Their own offset is that of the last one inside."""
    source = [old_messages(plain(range(6))), batch_of(plain(range(6, 9)))]
    target = [batch_of(plain(range(4))), batch_of(plain(range(4, 9)))]
    ranges = [ComparedRange(0, cut, 0, cut), ComparedRange(cut, 9, cut, 9)]
    assert compared(Copied(source, target, ranges)) == [cut, 9 - cut]


def test_a_log_that_ends_before_its_range_does() -> None:
    """What is missing there is missing; where only markers lie there it is equal."""
    log = [batch_of(plain(range(5)))]
    ranges = [ComparedRange(0, 5, 0, 9), ComparedRange(5, 9, 9, 9)]
    assert compared(Copied(log, log, ranges)) == [5, 0]
    assert compared(Copied(log, [], ranges)) == [None, 0]


def test_a_range_whose_beginning_was_removed_is_not_known() -> None:
    """Of either side; the others are."""
    log = [batch_of(plain(range(at, at + 10))) for at in range(0, 30, 10)]
    for side in range(2):
        comparison = RangeComparison(
            [ComparedRange(at, at + 10, at, at + 10) for at in range(0, 30, 10)], timestamps=True
        )
        sides = comparison.source, comparison.target
        sides[side].removed(15)
        sides[side].feed(log[1:])
        sides[1 - side].feed(log)
        comparison.step()
        assert comparison.found == [None, None, 10]


def test_offsets_that_a_log_shows_again_are_not_compared_again() -> None:
    """It lost its end while it was read, and others wrote there."""
    comparison = RangeComparison([ComparedRange(0, 10, 0, 10)], timestamps=True)
    comparison.source.feed([batch_of(plain(range(5))), batch_of(plain(range(3, 10)))])
    comparison.target.feed([batch_of(plain(range(5))), batch_of(plain(range(5, 10)))])
    comparison.step()
    assert comparison.found == [10]


def log_of(batches: Sequence[bytes]) -> PartitionLog:
    """A log that a leader tells of, an answer for each batch."""
    says = [Said(batch, shown=20) for batch in batches]
    return PartitionLog(Leader(says).as_cluster(), ORDERS, NO_TOPIC_ID)


async def first_pass(source: Sequence[bytes], target: Sequence[bytes]) -> tuple[FirstPassResult, list[int]]:
    """The first look at offsets 0 to 20 of both sides, in two ranges; and what was said of its progress."""
    ranges = ComparedRange(0, 12, 0, 12), ComparedRange(12, 20, 12, 20)
    job = compare_job(PositionPair(0, 0), PositionPair(20, 20), *ranges)
    progress: list[int] = []
    (result,) = await InProcessFirstPass(lambda _: (log_of(source), log_of(target)), progress.append).run([job])
    return result, progress


def written(numbers: range) -> bytes:
    """A batch as a broker has it."""
    return bytes(batch_of(plain(numbers)).view)


async def test_a_look_at_two_logs() -> None:
    """Records are counted as consumers see them; what differs is a range by its number."""
    source = [written(range(10)), written(range(10, 20))]
    assert await first_pass(source, source) == (FirstPassResult(records=20, target_records=20), [10, 10])
    split = [source[0], written(range(10, 14)), written(range(14, 20))]
    assert await first_pass(source, split) == (FirstPassResult(records=20, target_records=20), [10, 10])
    other = [*plain(range(10, 19)), Plain(offset=19, timestamp=6, value=b"x")]
    result, _ = await first_pass(source, [source[0], bytes(batch_of(other).view)])
    assert result == FirstPassResult(records=12, target_records=12, ranges=(1,))


@pytest.mark.parametrize("rotten", [(0,), (1,), (0, 1)])
async def test_rotten_bytes_are_not_equal(rotten: tuple[int, ...]) -> None:
    """Not even where they are the same on both sides: their checksums tell."""
    sides = [[written(range(20))], [written(range(20))]]
    for side in rotten:
        broken = bytearray(sides[side][0])
        broken[-1] ^= 1
        sides[side] = [bytes(broken)]
    with pytest.raises(CorruptBatchError, match="CRC"):
        await first_pass(*sides)
