"""PartitionCopy against a model of the target broker: whatever fails, the target ends equal to the source."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_ray.model.assignment import NO_END
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.records import kernel
from mirror_ray.records.decode import records_of
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.statistics import StatisticsInterval, StatisticsTally
from mirror_ray.replication.target_log import TargetLog
from tests.support.batches import batch, marker
from tests.support.factories import assignment, establish, fetched, parsed, replication

OURS = 4711
#: So small that a batch of more than two records is split: copies then end, and anchors lie, inside source batches.
SPLITS = 90


@dataclass
class Source:
    """A source partition: batches as bytes, the values that are to be copied, the aborted transactions.

    ``skip``: source offsets whose records are left out, as after a record that the target refused.
    """

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    committed: list[bytes] = field(default_factory=list)
    #: Producer, first offset, and the one behind its marker.
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    #: The first offset.
    start: int = 0
    end: int = 0
    skip: tuple[tuple[int, int], ...] = ()
    #: Where a backfill ends.
    copied_to: int = NO_END

    def __post_init__(self) -> None:
        self.end = self.start

    def add(self, kind: str, size: int) -> None:
        """Append one batch or transaction."""
        values = [(n, self.value(self.end + n)) for n in range(size)]
        if kind == "plain":
            self._append(batch(self.end, values), size)
            self._commit(values)
        elif kind == "compacted":
            kept = values[::2]
            self._append(batch(self.end, kept, size - 1), size)
            self._commit(kept)
        elif kind == "removed":
            self.end += size
        elif kind == "emptied":
            self._append(batch(self.end, [], size - 1), size)
        else:
            # One of a few: a producer that aborts commits its next transaction, and the other way round.
            producer = 100 + size % 2
            first = self.end
            self._append(batch(self.end, values, producer_id=producer, attributes=0x10), size)
            self._append(marker(self.end, producer, commit=kind == "committed"), 1)
            if kind == "committed":
                self._commit(values)
            else:
                self.aborted.append((producer, first, self.end))

    def value(self, offset: int) -> bytes:
        """What the record at an offset holds."""
        return b"%d" % offset

    def offset(self, value: bytes) -> int:
        """The other way round."""
        return int(value)

    def _commit(self, values: list[tuple[int, bytes]]) -> None:
        """Each value is its record's offset."""
        self.committed += [
            value for _, value in values if not any(first <= self.offset(value) < end for first, end in self.skip)
        ]

    def _append(self, data: bytes, offsets: int) -> None:
        self.batches.append((self.end, self.end + offsets, data))
        self.end += offsets

    def fetch(self, offset: int, limit: int) -> tuple[memoryview, list[tuple[int, int]]]:
        """Up to ``limit`` batches from the one that holds ``offset`` on, and the aborted list."""
        found = [b for b in self.batches if b[1] > offset][:limit]
        aborted = [(producer, first) for producer, first, end in self.aborted if end > offset and found[-1][1] > first]
        return memoryview(bytearray(b"".join(data for _, _, data in found))), aborted


@dataclass
class Target:
    """A target partition with the broker's idempotence check (KIP-98): the last five batches are remembered."""

    values: list[bytes] = field(default_factory=list)
    tail: bytes | None = None
    sequence: int | None = None
    recent: list[tuple[int, int, int]] = field(default_factory=list)
    #: By target offset, the bytes of the batch that begins there.
    sizes: dict[int, int] = field(default_factory=dict)

    def produce(self, data: bytes) -> int | None:
        """The base offset, or None for OUT_OF_ORDER_SEQUENCE_NUMBER."""
        sent = parsed(data)
        assert sent.base_offset == 0
        assert sent.producer_id == OURS
        assert sent.last_offset_delta + 1 == sent.count
        for sequence, count, offset in self.recent:
            if (sequence, count) == (sent.base_sequence, sent.count):
                return offset
        if self.sequence is not None and sent.base_sequence != self.sequence:
            return None
        offset = len(self.values)
        self.values += [r.value or b"" for r in records_of(sent)]
        self.sizes[offset] = len(data)
        self.tail = struct.pack(">q", offset) + data[8:]
        self.sequence = sent.base_sequence + sent.count
        self.recent = [*self.recent[-4:], (sent.base_sequence, sent.count, offset)]
        return offset


class World:
    """One partition's copy, its source and target, and the requests under way."""

    def __init__(self, source: Source) -> None:
        self.source, self.target = source, Target()
        self.anchors = [OffsetPair(0, 0)]
        self.now_ms = 1_700_000_000_000
        #: What each life so far has told of what it did.
        self.told: list[list[StatisticsInterval]] = []
        self.copy = self.taken_over(self.anchors[0])

    def taken_over(self, anchor: OffsetPair, max_message_bytes: int = SPLITS) -> PartitionReplication:
        """A replicator that knows nothing but the anchor."""
        self.told.append([])
        assigned = assignment(
            producer_id=OURS,
            anchor=anchor,
            max_message_bytes=max_message_bytes,
            skip=self.source.skip,
            end_offset=self.source.copied_to,
        )
        # Changed with each life: what was sent before is found again however it was cut.
        merge = kernel.is_available() and len(self.told) % 2 == 0
        return replication(assigned, tally=StatisticsTally(60_000, lambda: self.now_ms), merge=merge)

    def tell(self, *, ended: bool = False) -> None:
        """As a replicator does of its intervals."""
        assert self.copy.tally is not None
        self.told[-1] += self.copy.tally.take(ended=ended)

    def step(self, action: str, number: int) -> None:  # noqa: PLR0912 - one branch for each thing that can happen
        """One thing happens."""
        copy = self.copy
        self.now_ms += 1000 * number
        if copy.needs_end and action != "restart":
            end = len(self.target.values)
            tail = parsed(self.target.tail) if self.target.tail else None
            establish(copy, TargetLog(end=end, tail=tail if copy.needs_last_batch(end) else None))
        elif action == "fetch" and copy.wants_fetch:
            records, aborted = self.source.fetch(copy.fetch_offset, number)
            copy.source_answered(self.source.end, self.source.end)
            copy.process(copy.received(records), aborted)
        elif copy.asks_source:
            copy.source_bounds(0, self.source.end, self.source.end)
        elif action == "send" and copy.sendable:
            copy.take()
        elif action == "answer" and copy.pipeline.in_flight:
            self.answer()
        elif action == "append" and len(copy.pipeline.in_flight) > 1:
            self.answer(committed=False)
        elif action == "fail" and copy.pipeline.in_flight and not copy.state.refused:
            copy.failed()
        elif action == "lose":
            for outgoing in list(copy.pipeline.in_flight)[:number]:
                if self.target.produce(bytes(outgoing.batch.view)) is None:
                    break
            self.lose()
        elif action == "forget":
            if not copy.pipeline.in_flight:
                self.target.sequence, self.target.recent = None, []
                self.lose()
        elif action == "tell":
            self.tell()
        elif action == "restart":
            if number % 2:
                self.tell(ended=True)
            self.copy = self.taken_over(
                self.anchors[-1 - number % len(self.anchors)], SPLITS if number % 2 else 1 << 20
            )
        elif action == "anchor":
            self.anchors.append(copy.acknowledged)

    def lose(self) -> None:
        """The connection to the target is lost."""
        if self.copy.pipeline.in_flight:
            self.copy.lost()
        elif self.copy.state.fetches:
            self.copy.interrupt(None)

    def answer(self, *, committed: bool = True) -> None:
        """The broker handles the oldest request."""
        offset = self.target.produce(bytes(self.copy.pipeline.in_flight[0].batch.view))
        if offset is None:
            self.copy.failed()
        else:
            self.copy.answered(offset, committed=committed)

    def finish(self) -> None:
        """Nothing fails any more."""
        for _ in range(10 * len(self.source.batches) + 100):
            for action in ("fetch", "send", "answer"):
                self.step(action, 3)


kinds = st.sampled_from(["plain", "plain", "plain", "compacted", "emptied", "committed", "aborted"])
sources = st.lists(st.tuples(kinds, st.integers(1, 7)), min_size=3, max_size=25)
actions = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("fetch", "send", "answer", "fetch", "send", "answer", "append"),
                *("anchor", "fail", "lose", "forget", "restart", "tell"),
            ]
        ),
        st.integers(1, 5),
    ),
    min_size=30,
    max_size=120,
)

#: Often one record, at times several in a row.
skips = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 3)), max_size=3).map(
    lambda found: tuple((first, first + count) for first, count in sorted(found))
)


def test_a_position_behind_a_hole_has_the_holes_leader_epoch() -> None:
    """A marker of a new leader moves the position on; with the epoch before it the log would seem another one."""
    source = Source()
    world = World(source)
    copy = world.copy
    establish(copy, TargetLog(end=0))
    data = batch(0, [(0, b"a")]), marker(1, 7, commit=True)
    epochs = [piece[:12] + struct.pack(">i", epoch) + piece[16:] for epoch, piece in enumerate(data, start=3)]
    fetched(copy, *epochs)
    copy.take()
    copy.answered(0)
    assert (copy.acknowledged.source_offset, copy.acknowledged.source_epoch) == (2, 4)


@settings(max_examples=300, deadline=None)
@given(sources, actions, skips)
def test_nothing_lost_nothing_doubled(
    contents: list[tuple[str, int]], happenings: list[tuple[str, int]], skip: tuple[tuple[int, int], ...]
) -> None:
    """Whatever fails, from whatever anchor it is taken over, the target holds what is committed and not left out."""
    source = Source(skip=skip)
    world = _copied(source, contents, happenings)
    assert world.copy.acknowledged == OffsetPair(source.end, len(source.committed))
    _check_statistics(world)


@settings(max_examples=300, deadline=None)
@given(sources, actions, skips, st.integers(0, 120))
def test_a_backfill_ends_where_it_should(
    contents: list[tuple[str, int]],
    happenings: list[tuple[str, int]],
    skip: tuple[tuple[int, int], ...],
    copied_to: int,
) -> None:
    """Nothing of the source at its end or behind it is copied, everything before it is, and then it stands there."""
    source = Source(skip=(*skip, (copied_to, NO_END)), copied_to=copied_to)
    world = _copied(source, contents, happenings)
    assert world.copy.acknowledged.source_offset >= min(copied_to, source.end)
    assert world.copy.fetched_all == (source.end >= copied_to)


def _copied(source: Source, contents: list[tuple[str, int]], happenings: list[tuple[str, int]]) -> World:
    """In each of its states the target holds a beginning of what is committed, and in the end all of it."""
    for kind, size in contents:
        source.add(kind, size)
    world = World(source)
    for action, number in happenings:
        world.step(action, number)
        assert world.target.values == source.committed[: len(world.target.values)]
    world.finish()
    assert world.target.values == source.committed
    assert world.copy.pipeline.size_bytes == 0
    return world


def _check_statistics(world: World) -> None:
    """A record is counted once at most, with its bytes; what a life did not tell is a gap before the next one's."""
    world.tell(ended=True)
    reached_target = reached_ms = 0
    for life in world.told:
        for told in life:
            assert told.target_from >= reached_target if told.first else told.target_from == reached_target
            assert reached_ms <= told.from_ms <= told.to_ms <= told.from_ms // 60_000 * 60_000 + 60_000
            assert told.records == told.target_to - told.target_from == sum(told.latency_ms.values())
            inside = [size for at, size in world.target.sizes.items() if told.target_from <= at < told.target_to]
            assert (told.batches, told.wire_bytes) == (len(inside), sum(inside))
            assert told.sampled_uncompressed_bytes == told.sampled_wire_bytes == told.wire_bytes
            reached_target, reached_ms = told.target_to, told.to_ms
    assert reached_target == len(world.target.values)
    assert world.told[-1][-1].lag_records == 0
