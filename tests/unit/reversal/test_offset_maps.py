"""The map of both directions, over any number of reversals: every record that both sides have is found on the other."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.names import FlowName, FlowPartition, TopicId, TopicPartition
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS, OffsetPair
from mirror_ray.offsets.map import ExactOffset, MapLookup, OffsetMapStore, SegmentGap
from mirror_ray.replication.segment_log import SegmentLog
from mirror_ray.reversal.cut import PartitionCut, TopicCut, side_of
from mirror_ray.reversal.offset_maps import blocks_back
from mirror_ray.state.partition_record import PartitionRecord
from tests.support.factories import assignment

TOPIC = "orders"
PARTITION = TopicPartition(TOPIC, 0)
IDS = {"A": TopicId("id-of-a"), "B": TopicId("id-of-b")}


@dataclass
class Side:
    """One cluster's log: its end, and the offset of each record by its name."""

    end: int = 0
    records: dict[int, int] = field(default_factory=dict)
    #: The map of the flow whose target it is.
    store: OffsetMapStore = field(default_factory=OffsetMapStore)
    epoch: int = 0

    def append(self, name: int) -> int:
        self.records[name] = self.end
        self.end += 1
        return self.end - 1


class Pair:
    """Two clusters, of which one is copied to the other; the direction is reversed again and again."""

    def __init__(self, sequence: int) -> None:
        self.sides = {"A": Side(), "B": Side()}
        self.source, self.target = "A", "B"
        self.pair = OffsetPair(0, 0, sequence)
        self.written = 0
        self.begin()
        self.publish()

    def begin(self) -> None:
        """A replicator begins at the pair."""
        target = self.sides[self.target]
        target.epoch += 1
        given = assignment(source_topic_id=IDS[self.source], target_topic_id=IDS[self.target], epoch=target.epoch)
        flow = FlowName(self.source, self.target)
        self.log = SegmentLog(replace(given, partition=FlowPartition(flow, *PARTITION)))
        self.log.begin(self.pair)

    def write(self, count: int, *, gap: bool) -> None:
        """Somebody writes on the source; a gap is a marker."""
        source = self.sides[self.source]
        for _ in range(count):
            source.append(self.written)
            self.written += 1
        source.end += gap

    def copy(self) -> None:
        """Copy all that there is, and publish it."""
        source, target = self.sides[self.source], self.sides[self.target]
        waiting = {name: at for name, at in source.records.items() if at >= self.pair.source_offset}
        for name, at in waiting.items():
            there, sequence = target.append(name), self.pair.next_sequence
            self.log.add([(at, 1)], there, sequence)
            self.pair = OffsetPair(at + 1, there + 1, (sequence + 1) % SEQUENCE_MODULUS)
        self.pair = replace(self.pair, source_offset=source.end)

    def lose(self) -> None:
        """The replicator is killed before it has published, and another one goes on."""
        self.begin()
        self.publish()

    def publish(self) -> None:
        for block in self.log.take(self.pair.source_offset):
            self.sides[self.target].store.apply(block)

    def reverse(self, on_target: int, *, gap: bool, diverged: int) -> None:
        """Somebody writes on the target, and the source may have records that it never gets; then the flow turns."""
        source, target = self.sides[self.source], self.sides[self.target]
        cut = PartitionCut(source=PARTITION, record=self.record(), pair=self.pair, source_end=source.end + diverged)
        source.end += diverged
        back = TopicCut(
            topic=TOPIC,
            remote=TOPIC,
            source_side=side_of(TOPIC, IDS[self.source], 1),
            remote_side=side_of(TOPIC, IDS[self.target], 1),
            partitions=(cut,),
        ).records_back()[0]
        known = target.store.find(PARTITION)
        assert known is not None
        for block in blocks_back(PARTITION, back, source.epoch, known, source.store.find(PARTITION)):
            source.store.apply(block)
        self.source, self.target, self.pair = self.target, self.source, back.pair
        self.begin()
        self.write(on_target, gap=gap)

    def record(self) -> PartitionRecord:
        return PartitionRecord(
            source_topic_id=IDS[self.source],
            target_topic=TOPIC,
            target_topic_id=IDS[self.target],
            source_offset=self.pair.source_offset,
            target_offset=self.pair.target_offset,
            sequence=self.pair.sequence,
        )

    def check(self) -> None:
        """Every record of the source that has been copied is found on the target, and the other way round."""
        source, target = self.sides[self.source], self.sides[self.target]
        known = target.store.find(PARTITION)
        assert known is not None
        for name, at in source.records.items():
            there = target.records[name]
            self.is_right(known.segments.to_target(at), there, at, there)
            self.is_right(known.segments.to_source(there), at, at, there)

    def is_right(self, found: MapLookup, wanted: int, at: int, there: int) -> None:
        """It is the record, or a gap that holds it, whose number of records is that of both sides."""
        if not isinstance(found, SegmentGap):
            assert found == ExactOffset(wanted)
            return
        assert found.after.source <= at < found.before.source
        assert found.after.target <= there < found.before.target
        inside = [name for name, offset in self.sides[self.source].records.items() if found.after.source <= offset]
        inside = [name for name in inside if self.sides[self.source].records[name] < found.before.source]
        assert found.before.number - found.after.number == len(inside)


ROUND = st.tuples(st.integers(0, 5), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 3))


@given(st.lists(ROUND, min_size=1, max_size=8), st.sampled_from([0, 7, SEQUENCE_MODULUS - 3]))
def test_there_and_back(rounds: list[tuple[int, bool, bool, bool, int]], sequence: int) -> None:
    """With markers on either side, nothing written at all, and records that only one side has."""
    pair = Pair(sequence)
    for count, gap, more, lost, diverged in rounds:
        pair.write(count, gap=gap)
        pair.copy()
        pair.lose() if lost else pair.publish()
        if more:
            pair.write(2, gap=not gap)
            pair.copy()
            pair.publish()
        pair.check()
        pair.reverse(count, gap=gap, diverged=diverged)
    pair.copy()
    pair.publish()
    pair.check()


def test_only_what_is_new_is_carried_over() -> None:
    """What the map of the flow back has from the last time is not published again."""
    pair = Pair(0)
    for count in (40, 3):
        for _ in range(count):
            pair.write(1, gap=True)
            pair.copy()
            pair.publish()
        back = pair.sides[pair.source].store
        before = len(found.blocks) if (found := back.find(PARTITION)) is not None else 0
        pair.reverse(0, gap=False, diverged=0)
        known = back.find(PARTITION)
        assert known is not None
        assert len(known.blocks) - before == (2 if count == 40 else 1)
        pair.copy()
        pair.publish()
