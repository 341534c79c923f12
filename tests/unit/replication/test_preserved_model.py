"""A partition whose offsets are preserved, against a model of the target broker and of its transactions.

What the broker does was measured: a transaction that is aborted leaves one marker in each of its partitions; whoever
asks for its transactional id anew has an open one aborted before the answer comes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mirror_ray.model.offset_pair import SEQUENCE_MODULUS, OffsetPair
from mirror_ray.records import kernel
from mirror_ray.records.batch import RecordBatch, rewrite
from mirror_ray.records.decode import records_of
from mirror_ray.records.filler import filler_batch
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.offset_gaps import OffsetGap, fillers_of
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.target_log import TargetLog, TargetScan
from tests.support.batches import marker
from tests.support.factories import assignment, establish, parsed, replication
from tests.unit.replication.test_partition_model import Source, kinds, skips

OURS, MARKERS = 4711, 4712
SPLITS = 90
MOST_MARKERS = 2


@dataclass
class Target:
    """A target partition, whose producers are checked by sequences, and one transaction over it."""

    end: int
    batches: list[bytes] = field(default_factory=list)
    sequence: int | None = None
    recent: list[tuple[int, int, int]] = field(default_factory=list)
    #: The gap that an open transaction is to fill, and whether its fillers were sent.
    open: OffsetGap | None = None
    fillers: int = 0

    def produce(self, data: bytes) -> int | None:
        """The base offset, or None for OUT_OF_ORDER_SEQUENCE_NUMBER."""
        sent = parsed(data)
        assert (sent.base_offset, sent.producer_id, sent.is_transactional) == (0, OURS, False)
        for sequence, count, offset in self.recent:
            if (sequence, count) == (sent.base_sequence, sent.count):
                return offset
        if self.sequence is not None and sent.base_sequence != self.sequence:
            return None
        offset = self.append(data, sent.count)
        self.sequence = (sent.base_sequence + sent.count) % SEQUENCE_MODULUS
        self.recent = [*self.recent[-4:], (sent.base_sequence, sent.count, offset)]
        return offset

    def append(self, data: bytes, offsets: int) -> int:
        """Put a batch at the end."""
        base = self.end
        self.batches.append(struct.pack(">q", base) + data[8:])
        self.end += offsets
        return base

    def begin(self, gap: OffsetGap) -> None:
        """The partition is in the transaction."""
        self.open, self.fillers = gap, fillers_of(gap, MOST_MARKERS)

    def send_fillers(self) -> None:
        """Where a marker alone does not do."""
        if self.open is not None and self.fillers:
            filler = filler_batch(self.fillers, 1, marked=True)
            rewrite(filler, MARKERS, 0, 0, transactional=True)
            self.append(bytes(filler.view), self.fillers)
            self.fillers = 0

    def abort(self) -> None:
        """End the transaction, whoever wants that."""
        if self.open is not None:
            self.append(marker(0, MARKERS, commit=False), 1)
        self.open = None

    def parsed(self) -> list[RecordBatch]:
        """All that it holds."""
        return [parsed(data) for data in self.batches]

    def contents(self) -> dict[int, bytes]:
        """Records by offset, as a ``read_committed`` consumer sees them."""
        seen = [found for found in self.parsed() if found.producer_id == OURS]
        return {record.offset: record.value or b"" for found in seen for record in records_of(found)}


class World:
    """One partition, its source and target, and what is under way between them."""

    def __init__(self, source: Source) -> None:
        self.source, self.target = source, Target(source.start)
        self.anchors = [OffsetPair(source.start, source.start)]
        self.lives = 0
        #: Whether nothing of a transaction is under way that this life does not know of.
        self.in_session = False
        self.copy = self.taken_over(self.anchors[0], SPLITS)

    def taken_over(self, anchor: OffsetPair, max_message_bytes: int) -> PartitionReplication:
        """A replicator that knows nothing but the anchor."""
        self.lives += 1
        self.in_session = False
        assigned = assignment(
            producer_id=OURS,
            anchor=anchor,
            max_message_bytes=max_message_bytes,
            skip=self.source.skip,
            preserve_offsets=True,
            transactional_id="replicator",
        )
        return replication(assigned, merge=kernel.is_available() and self.lives % 2 == 0)

    def step(self, action: str, number: int) -> None:  # noqa: PLR0912 - one branch for each thing that can happen
        """One thing happens."""
        copy = self.copy
        if copy.needs_end and action != "restart":
            self.read_end()
        elif copy.asks_source:
            copy.source_bounds(self.source.start, self.source.end, self.source.end)
        elif action == "fetch" and copy.wants_fetch:
            records, aborted = self.source.fetch(copy.fetch_offset, number)
            copy.source_answered(self.source.end, self.source.end)
            copy.process(copy.received(records), aborted)
        elif action == "send" and copy.sendable:
            copy.take()
        elif action == "answer" and copy.pipeline.in_flight:
            # The last of those that can be sent is always sent to be committed.
            self.answer(committed=number > 1 or len(copy.pipeline.in_flight) == 1)
        elif action == "fill":
            self.fill(number)
        elif action == "fail" and copy.pipeline.in_flight and not copy.state.refused:
            copy.failed()
        elif action == "lose":
            for outgoing in list(copy.pipeline.in_flight)[:number]:
                if self.target.produce(bytes(outgoing.batch.view)) is None:
                    break
            self.lose()
        elif action == "forget" and not copy.pipeline.in_flight:
            self.target.sequence, self.target.recent = None, []
            self.lose()
        elif action == "restart":
            self.copy = self.taken_over(
                self.anchors[-1 - number % len(self.anchors)], SPLITS if number % 2 else 1 << 20
            )
        elif action == "anchor":
            self.anchors.append(copy.acknowledged)

    def late(self, number: int) -> None:
        """The broker forgets the producer, takes a batch in flight without those before it, and answers nobody.

        As one does that was frozen for longer than its session with requests in its socket. The first one (0) it takes
        twice.
        """
        late = bytes(self.copy.pipeline.in_flight[number].batch.view)
        if number == 0:
            self.target.produce(late)
        self.target.sequence, self.target.recent = None, []
        self.target.produce(late)
        self.copy.lost()

    def fill(self, number: int) -> None:
        """The next step of a transaction that fills a gap, or its end without an answer."""
        copy, target = self.copy, self.target
        gap = copy.pipeline.filling or copy.open_gap
        if gap is None:
            return
        if copy.pipeline.filling is None:
            copy.fill(gap)
        elif target.open is None:
            target.begin(gap)
        elif target.fillers and number > 1:
            target.send_fillers()
        elif number == 1:
            self.in_session = False
            copy.gap_filled(None)
            if copy.state.sends:
                copy.interrupt(None)
        else:
            target.abort()
            copy.gap_filled(target.end)

    def read_end(self) -> None:
        """As a replicator does, once it has its transactional id anew."""
        if not self.in_session:
            self.target.abort()
            self.in_session = True
        end, copy = self.target.end, self.copy
        log = TargetLog(end=end)
        if copy.needs_last_batch(end):
            scan = TargetScan(copy.assignment, copy.acknowledged, copy.acknowledged.target_offset)
            scan.add(found for found in self.target.parsed() if found.next_offset > scan.begin)
            log = scan.describe(log)
        establish(copy, log)

    def lose(self) -> None:
        """The connection to the target is lost; a transaction goes on by another one, and its answer still comes."""
        if self.copy.pipeline.in_flight:
            self.copy.lost()
        elif self.copy.state.fetches:
            self.copy.interrupt(None)

    def answer(self, *, committed: bool) -> None:
        """The broker handles the oldest request."""
        offset = self.target.produce(bytes(self.copy.pipeline.in_flight[0].batch.view))
        if offset is None:
            self.copy.failed()
        else:
            self.copy.answered(offset, committed=committed)

    def finish(self) -> None:
        """Nothing fails any more."""
        for _ in range(20 * len(self.source.batches) + 100):
            for action in ("fetch", "send", "answer", "fill", "fill"):
                self.step(action, 3)


#: Whole batches may have been removed, too, but for the last one of a log.
sources = st.lists(st.tuples(kinds | st.just("removed"), st.integers(1, 7)), min_size=3, max_size=25).map(
    lambda contents: [*contents, ("plain", 1)]
)
actions = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("fetch", "send", "answer", "fill", "fetch", "send", "answer", "fill", "fill", "fill"),
                *("anchor", "fail", "lose", "forget", "restart"),
            ]
        ),
        st.integers(1, 5),
    ),
    min_size=30,
    max_size=150,
)


@settings(max_examples=400, deadline=None)
@given(sources, actions, skips, st.sampled_from([0, 7, 1_000_000, SEQUENCE_MODULUS - 20, 3_000_000_000]))
def test_each_record_has_its_offset(
    contents: list[tuple[str, int]], happenings: list[tuple[str, int]], skip: tuple[tuple[int, int], ...], start: int
) -> None:
    """Whatever fails, from whatever anchor it is taken over, at every step of a gap: same record, same offset, once."""
    source = Source(skip=tuple((start + first, start + end) for first, end in skip), start=start)
    for kind, size in contents:
        source.add(kind, size)
    meant = {int(value): value for value in source.committed}
    world = World(source)
    for action, number in happenings:
        world.step(action, number)
        there = world.target.contents()
        assert there == {offset: value for offset, value in meant.items() if offset < world.target.end}
    world.finish()
    assert world.target.contents() == meant
    assert world.target.end == source.end
    assert (world.copy.acknowledged.source_offset, world.copy.acknowledged.target_offset) == (source.end, source.end)
    assert world.copy.pipeline.size_bytes == 0


@settings(max_examples=200, deadline=None)
@given(sources, actions, actions, st.sampled_from([0, 1_000_000, SEQUENCE_MODULUS - 20]), st.integers(0, 5))
def test_a_batch_in_another_ones_place_stops_the_partition(
    contents: list[tuple[str, int]],
    happenings: list[tuple[str, int]],
    later: list[tuple[str, int]],
    start: int,
    number: int,
) -> None:
    """Whatever happens from then on: what the target lacks, or has twice, is not passed over."""
    source = Source(start=start)
    for kind, size in (*contents, *[("plain", 3)] * 8):
        source.add(kind, size)
    world = World(source)
    for action, count in happenings:
        world.step(action, count)
    for action in ("answer", "fetch", "fill", "fill", "send", "send") * 40:
        if len(world.copy.pipeline.in_flight) > 1:
            break
        world.step(action, 3)
    assume(len(world.copy.pipeline.in_flight) > 1)
    world.late(min(number, len(world.copy.pipeline.in_flight) - 1))

    def go_on() -> None:
        for action, count in later:
            world.step(action, count)
        world.finish()

    with pytest.raises(ReplicationFault) as stopped:
        go_on()
    assert stopped.value.fault.kind == "copy_lost"
