"""Whose the records are that lie outside of what is compared, and what stands for a partition that does not go on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mirror_ray.model.fault import PartitionFault
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.segment import Segment
from mirror_ray.state.records import FaultResolution, FlowRecord, Pause
from mirror_ray.state.schema import FlowStateRecords
from mirror_ray.verification.difference import Difference, HashedRecord, RecordHash
from mirror_ray.verification.producers import ProducerOwners, RecordAttribution, WrittenBatch, producer_owners
from mirror_ray.verification.ranges import PositionPair, mapped_spans
from mirror_ray.verification.uncompared import halt_of
from mirror_ray.verification.uncompared_records import swapped
from tests.support.factories import partition_record
from tests.unit.verification.test_cluster_queries import line

SOURCE = TopicPartition("t", 0)


def content(text: str) -> RecordHash:
    """Something to tell records by."""
    return RecordHash(text.encode(), b"", b"", 0)


def hashes(offset: int, *texts: str) -> list[HashedRecord]:
    """Records from an offset on."""
    return [HashedRecord(offset + at, content(text)) for at, text in enumerate(texts)]


def state(**changes: Any) -> FlowStateRecords:
    """A flow whose producer is 7."""
    flow = FlowRecord(producer_id=7, producer_epoch=0, source_cluster_id="a", target_cluster_id="b", selection="")
    return FlowStateRecords(flow=flow, **changes)


def test_what_a_map_accounts_for() -> None:
    """Its segments, and what lies between two if all of it was copied; not what others wrote between them."""
    segments = [Segment(0, 0, 5, 0), Segment(10, 10, 5, 10), Segment(15, 20, 2, 15)]
    assert mapped_spans(segments) == [(0, 15), (20, 22)]


def test_who_may_write() -> None:
    """The partition's own producer and the flow's; other flows' in a shared topic; none without a record."""
    beside = TopicPartition("u", 0)
    shared = state(
        partitions={SOURCE: partition_record(producer_id=8, shared=True), beside: partition_record(producer_id=9)}
    )
    other = state(partitions={SOURCE: partition_record(producer_id=10)})
    found = producer_owners(shared, shared.partitions[SOURCE], [other], alone=False)
    assert (set(found.own), set(found.flows)) == ({7, 8}, {7, 8, 9, 10})
    exclusive = producer_owners(shared, shared.partitions[beside], [other], alone=True)
    assert (set(exclusive.own), set(exclusive.flows)) == ({7, 9}, {7, 9})
    assert producer_owners(state(), None, (), alone=True).own == frozenset()
    assert producer_owners(state(), partition_record(producer_id=-1), (), alone=True).own == {-1}


def sorted_by(owners: ProducerOwners, *batches: WrittenBatch) -> RecordAttribution:
    """Copying began at 2, compared is 4 to 10, acknowledged were source 20 and target 10."""
    attribution = RecordAttribution(owners=owners, reached=PositionPair(20, 10), copy_start=2, compared=(4, 10), most=3)
    for batch in batches:
        attribution.take(batch)
    return attribution


def test_batches_by_who_wrote_them() -> None:
    """Ours behind the acknowledged are under way; others' are foreign, or a number where others may write."""
    batches = (
        WrittenBatch(99, 0, 1, hashes(0, "before")),
        WrittenBatch(99, 3, 1, hashes(3, "foreign")),
        WrittenBatch(7, 3, 1, hashes(3, "removed on the source")),
        WrittenBatch(8, 9, 1, hashes(9, "another flow")),
        WrittenBatch(7, 10, 2, hashes(10, "a", "b")),
        WrittenBatch(99, 12, 5, hashes(12, "c", "d", "e", "f", "g")),
    )
    both = ProducerOwners(own=frozenset({7}), flows=frozenset({7, 8}))
    mine = sorted_by(both, *batches)
    assert (mine.in_flight, mine.foreign_records, mine.not_ours) == (2, 6, 0)
    assert mine.found == [Difference("extra", *at, producer_id=99) for at in ((0, 3), (20, 12), (20, 13))]
    assert mine.ours == hashes(10, "a", "b")
    unsure = sorted_by(replace(both, unsure=True), *batches)
    assert (unsure.foreign_records, unsure.found, unsure.unattributed) == (0, [], 6)
    for writers in (replace(both, alone=False), replace(both, own=frozenset())):
        theirs = sorted_by(writers, *batches)
        assert (theirs.foreign_records, theirs.found, theirs.not_ours) == (0, [], 6)


def test_ours_where_all_of_ours_is_compared() -> None:
    """It is too much: the map has no place for it."""
    found = sorted_by(ProducerOwners(own=frozenset({7})), WrittenBatch(7, 5, 1, hashes(5, "again"))).found
    assert found == [Difference("extra", 0, 5)]


def test_two_that_stand_in_each_others_place() -> None:
    """Though others' records lie between them."""
    changed = [Difference("changed", at, 2 * at, ("key",)) for at in (3, 4, 6)]
    there = {6: content("4"), 8: content("3"), 12: content("other")}
    twins = {content("3"): 3, content("4"): 4}
    assert swapped(changed, there, twins) == {changed[0]: Difference("swapped", 3, 6), changed[1]: None}


def test_a_partition_that_does_not_go_on() -> None:
    """As the running system says; without one, as the state does."""
    trouble = PartitionFault(kind="target_foreign", text="somebody wrote")
    known = state(
        paused={Pause(), Pause("t"), Pause("u", 1)},
        resolutions={TopicPartition("v", 0): FaultResolution(trouble=trouble, policy="skip", time_ms=1)},
    )
    assert halt_of(known, SOURCE, line("copying")) is None
    assert halt_of(known, SOURCE, line("waiting")) is None
    assert halt_of(state(), SOURCE, line("stopped", "why")) == ("stopped", "why")
    assert halt_of(state(), SOURCE, line("refused", "why")) == ("stopped", "why")
    assert halt_of(state(), SOURCE, line("paused")) == ("paused", "an operator paused it")
    assert halt_of(known, SOURCE, None) == ("paused", "an operator paused the flow")
    assert halt_of(state(paused={Pause("t")}), SOURCE, None) == ("paused", "an operator paused the topic")
    assert halt_of(state(paused={Pause("t", 0)}), SOURCE, None) == ("paused", "an operator paused it")
    assert halt_of(state(paused={Pause("t", 1)}), SOURCE, None) is None
    resolved = "target_foreign, to be answered by skip: somebody wrote"
    assert halt_of(known, TopicPartition("v", 0), None) == ("stopped", resolved)
    handed_back = "the flow was handed back to MirrorMaker 2"
    assert halt_of(state(handed_back_ms=1), SOURCE, None) == ("stopped", handed_back)
