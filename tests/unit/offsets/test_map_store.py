"""The store against a copy that several replicators told of, with what is told twice, late or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.segment import SegmentBlock
from mirror_ray.offsets.map import ExactOffset, OffsetMapStore, PartitionOffsetMap, SegmentGap
from mirror_ray.replication.segment_log import SegmentLog
from tests.support.factories import assignment

SOURCE = TopicPartition("orders", 3)


def _log(epoch: int, source_id: str = "s") -> SegmentLog:
    return SegmentLog(assignment(*SOURCE, epoch=epoch, source_topic_id=source_id))


def _store(blocks: Iterable[SegmentBlock]) -> OffsetMapStore:
    store = OffsetMapStore()
    for block in blocks:
        store.apply(block)
    return store


def _map_in(store: OffsetMapStore) -> PartitionOffsetMap:
    offset_map = store.find(SOURCE)
    assert offset_map is not None
    return offset_map


OWNER = st.tuples(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.booleans()), max_size=30),
    st.sampled_from(["stops", "crashes", "late"]),
)


@given(owners=st.lists(OWNER, min_size=1, max_size=5), again=st.randoms(use_true_random=False))
def test_what_is_exact_is_right_whoever_told_it(
    owners: list[tuple[list[tuple[int, int, bool]], str]], again: object
) -> None:
    """Blocks are told again and again while they grow; a crash keeps the last from being told, or lets it come late."""
    truth: dict[int, int] = {}
    told: list[SegmentBlock] = []
    late: list[SegmentBlock] = []
    source = target = 0
    for epoch, (steps, end) in enumerate(owners, 1):
        log = _log(epoch)
        log.begin(OffsetPair(source, target))
        told += log.take(source)
        told += late
        late = []
        for hole, count, take in steps:
            source += hole
            log.add([(source, count)], target, target)
            truth |= {source + i: target + i for i in range(count)}
            source, target = source + count, target + count
            if take:
                told += log.take(source)
        if end == "stops":
            told += log.take(source)
        elif end == "late":
            late = log.take(source)
    last = _log(len(owners) + 1)
    last.begin(OffsetPair(source, target))
    told += last.take(source)
    for order in (told, list(_compacted(told)), [block for block in told for _ in range(2)]):
        offset_map = _map_in(_store(order))
        assert offset_map.segments.head.source == source
        for offset in range(source):
            following = min((source for source in truth if source >= offset), default=None)
            place = offset_map.segments.to_target(offset)
            expected = target if following is None else truth[following]
            if isinstance(place, ExactOffset):
                assert place.offset == expected
            else:
                assert isinstance(place, SegmentGap)
                assert place.after.target <= expected <= place.before.target


def _compacted(blocks: list[SegmentBlock]) -> Iterator[SegmentBlock]:
    """The newest version of each, where it lies."""
    newest = {block.key: number for number, block in enumerate(blocks)}
    return (block for number, block in enumerate(blocks) if newest[block.key] == number)


def test_a_recreated_topic_is_another_one() -> None:
    """Its offsets have nothing to do with the old ones', whose blocks are to be deleted."""
    store, old, new = OffsetMapStore(), _log(1), _log(2, "recreated")
    for log in (old, new):
        log.begin(OffsetPair(0, 0))
        log.add([(5 if log is old else 0, 10)], 0, 0)
        for block in log.take(20):
            store.apply(block)
    assert _map_in(store).segments.to_target(5) == ExactOffset(5)
    assert [key.source_topic_id for key in store.obsolete_blocks()] == ["s"]
    assert store.obsolete_blocks() == []


def test_the_topic_holds_a_bounded_number_of_blocks() -> None:
    """A hole behind every record: what the newest blocks tell is exact, also after everything was read anew."""
    store, log, topic = OffsetMapStore(), _log(1), dict[object, SegmentBlock]()
    log.begin(OffsetPair(0, 0))
    for number in range(100_000):
        log.add([(2 * number, 1)], number, number)
        if number % 500 == 499:
            for block in log.take(2 * number + 2):
                store.apply(block)
                topic[block.key] = block
            for key in store.obsolete_blocks():
                del topic[key]
    assert len(topic) <= 1025
    for offset_map in map(_map_in, (store, _store(topic.values()))):
        assert all(
            offset_map.segments.to_target(2 * number) == ExactOffset(number) for number in range(96_000, 100_000)
        )
        assert len(offset_map.segments) <= 1 << 14
        for number in range(0, 100_000, 777):
            place = offset_map.segments.to_target(2 * number)
            if isinstance(place, SegmentGap):
                to_read, behind = place.before.source - place.after.source, 200_000 - place.before.source
                assert to_read <= behind / 32


@given(cut=st.integers(0, 2_000), step=st.integers(1, 3), lost=st.integers(0, 500))
@settings(max_examples=30)
def test_what_was_cut_does_not_come_back(cut: int, step: int, lost: int) -> None:
    """The target lost its end and a cleaned source was copied anew: thinned blocks tell nothing of what was before."""
    store, topic = OffsetMapStore(blocks=16), dict[object, SegmentBlock]()

    def tell(log: SegmentLog, reached: int) -> None:
        for block in log.take(reached):
            store.apply(block)
            topic[block.key] = block
        for key in store.obsolete_blocks():
            topic.pop(key, None)

    first, second = _log(1), _log(2)
    first.begin(OffsetPair(0, 0))
    for number in range(2_000):
        first.add([(2 * number, 1)], number, number)
    tell(first, 4_000)
    # Some of what was to be copied again is gone on the source, too.
    source, truth = 2 * cut + lost, {2 * number: number for number in range(cut)}
    second.begin(OffsetPair(source, cut))
    for number in range(cut, cut + 3_000):
        second.add([(source, 1)], number, number)
        truth[source] = number
        source += step + 1
        if not number % 500:
            tell(second, source)
    tell(second, source)
    for offset_map in map(_map_in, (store, _store(topic.values()))):
        segments = {offset: offset_map.segments.to_target(offset) for offset in truth}
        assert all(place == ExactOffset(truth[at]) for at, place in segments.items() if isinstance(place, ExactOffset))


def _block(epoch: int, first: int, count: int, source_id: str = "s") -> SegmentBlock:
    log = _log(epoch, source_id)
    log.begin(OffsetPair(first, first))
    log.add([(first, count)], first, first)
    (block,) = log.take(first + count)
    return block


def test_what_is_told_late_changes_nothing() -> None:
    """The partition is another one's by then, also after that one has told more."""
    late = _block(1, 3, 1)
    store = _store([_block(1, 0, 5), _block(2, 5, 5), late])
    offset_map = _map_in(store)
    assert offset_map.epoch == 2
    assert [offset_map.segments.to_target(offset) for offset in (4, 9)] == [ExactOffset(4), ExactOffset(9)]
    assert store.obsolete_blocks() == [late.key]


@pytest.mark.parametrize("side", ["source", "target"])
def test_another_topic_of_that_name_has_a_page_of_its_own(side: str) -> None:
    """Its offsets are others."""
    told, other = _block(2, 50, 5), TopicId("other")
    told = replace(told, source_topic_id=other) if side == "source" else replace(told, target_topic_id=other)
    store = _store([_block(1, 0, 50), told])
    offset_map = _map_in(store)
    assert (offset_map.source_topic_id, offset_map.target_topic_id) == (
        (other, "r") if side == "source" else ("s", other)
    )
    assert next(iter(offset_map.segments)).source == 50


def test_every_change_has_a_version() -> None:
    """By that it is known what is to be looked up again."""
    store, versions = OffsetMapStore(), list[int]()
    for number in range(3):
        store.apply(_block(1, 5 * number, 5))
        versions.append(_map_in(store).version)
    assert len(set(versions)) == 3
