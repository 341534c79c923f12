"""MM2's translation gives MM2's answers: the figures are those of ``OffsetSyncStoreTest`` of Kafka 4.3."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.names import TopicPartition
from mirror_ray.records.mm2_records import OffsetSyncRecord
from tests.support.mm2_offset_sync_store import SLOTS, TOO_OLD, Mm2OffsetSyncStore

PARTITION = TopicPartition("topic1", 2)


def store(*pairs: tuple[int, int], must_read_to_end: bool = True, started: bool = True) -> Mm2OffsetSyncStore:
    """One that was started before the pairs came."""
    made = Mm2OffsetSyncStore(must_read_to_end=must_read_to_end)
    if started:
        made.start()
    for upstream, downstream in pairs:
        add(made, upstream, downstream)
    return made


def add(made: Mm2OffsetSyncStore, upstream: int, downstream: int) -> None:
    """Read one more, and check what always holds of the slots."""
    made.add(OffsetSyncRecord(partition=PARTITION, upstream_offset=upstream, downstream_offset=downstream))
    slots = made.slots(PARTITION)
    for newer, older in pairwise(range(SLOTS)):
        first, second = slots[newer].upstream_offset, slots[older].upstream_offset
        assert first == second or second + 2 ** max(newer - 2, 0) <= first <= second + 2**older - 2**newer


def translated(made: Mm2OffsetSyncStore, *offsets: int) -> list[int | None]:
    """Each one's answer."""
    return [made.translate(PARTITION, offset) for offset in offsets]


def sparse(made: Mm2OffsetSyncStore, kept: int, before: int) -> None:
    """``kept`` is a pair that the store has, and ``before`` the next older one."""
    below = before if before == TOO_OLD else before + 1
    assert translated(made, kept - 1, kept, kept + 1, kept + 2) == [below, kept, kept + 1, kept + 1]


def test_offset_translation() -> None:
    """testOffsetTranslation: exact at a pair, one behind it up to the next, nothing below the first."""
    made = store((100, 200))
    assert translated(made, 150) == [201]
    add(made, 150, 251)
    assert translated(made, 150, 5) == [251, TOO_OLD]
    add(made, 200, 10)
    assert translated(made, 200) == [10]
    add(made, 20, 20)
    assert translated(made, 20) == [20]


def test_no_translation_if_store_not_started() -> None:
    """TestNoTranslationIfStoreNotStarted."""
    made = store(started=False)
    assert translated(made, 0, 100, 200) == [None] * 3
    add(made, 100, 200)
    assert translated(made, 0, 100, 200) == [None] * 3
    made.start()
    assert translated(made, 0, 100, 200) == [TOO_OLD, 200, 201]


def test_no_translation_if_no_offset_sync() -> None:
    """TestNoTranslationIfNoOffsetSync."""
    assert translated(store(), 0) == [None]


def test_past_offset_translation() -> None:
    """testPastOffsetTranslation: what was read at the start counts for its last pair alone."""
    made = store(*((offset, offset) for offset in range(0, 1001, 10)), started=False)
    made.start()
    sparse(made, 1000, TOO_OLD)
    for offset in range(1010, 10_001, 10):
        add(made, offset, offset)
    sparse(made, 1000, TOO_OLD)
    kept = [1000, 4840, 6760, 8680, 9160, 9640, 9880, 9940, 9970, 9990, 10_000]
    for before, sync in pairwise(kept):
        sparse(made, sync, before)
    add(made, 1500, 11_000)
    assert translated(made, 1499, 1500, 2000) == [TOO_OLD, 11_000, 11_001]


def test_past_offset_translation_without_reading_to_the_end() -> None:
    """Pairs read at the start stay in use where MM2 knows its own checkpoints."""
    made = store(*((offset, offset) for offset in range(0, 1001, 10)), must_read_to_end=False, started=False)
    made.start()
    assert translated(made, 0, 1000) == [0, 1000]
    assert translated(made, 500) != [TOO_OLD]


@pytest.mark.parametrize("step", [2**bits - 1 for bits in range(1, 56)])
def test_consistently_spaced_syncs(step: int) -> None:
    """testConsistentlySpacedSyncs: each new pair costs at most one old one."""
    for first in (0, 1, 7, 29):
        _bounded(first, [step] * 100, 1)


@given(bits=st.integers(1, 50), data=st.data(), least=st.sampled_from([0, 2**16]))
def test_randomly_spaced_syncs(bits: int, data: st.DataObject, least: int) -> None:
    """testRandomlySpacedSyncs: with steps that differ by n bits, at most n + 2."""
    _bounded(0, data.draw(st.lists(st.integers(least, least + 2**bits - 1), max_size=200)), bits + 2)


@given(st.lists(st.sampled_from([100, 200]), max_size=300))
def test_dropped_syncs_spacing(steps: list[int]) -> None:
    """testDroppedSyncsSpacing: where every other pair is missing, at most two."""
    _bounded(0, steps, 2)


def _bounded(first: int, steps: Iterable[int], most: int) -> None:
    made = store((first, first))
    count = 1
    for offset in list(accumulate(steps, initial=first))[1:]:
        add(made, offset, offset)
        slots = made.slots(PARTITION)
        assert (slots[0].upstream_offset, slots[-1].upstream_offset) == (offset, first)
        now = len({id(slot) for slot in slots})
        assert count - now + 1 <= most
        count = now
