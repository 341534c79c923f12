"""Where groups go on, and what may be committed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.failover.left_behind import lost_if_gone, reread_if_gone
from mirror_ray.groups.checkpoints import GroupCheckpoint
from mirror_ray.groups.commit_rules import KeepOffset, TargetOffset, WriteOffset, decide_failback, decide_failover
from mirror_ray.groups.translated_offset import TranslatedOffset, by_checkpoint, within_log
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.translation import NOTHING_COPIED, ReadableBounds, Translation
from mirror_ray.records.mm2_records import CheckpointRecord
from tests.support.factories import translated_offset

OFFSETS = st.integers(0, 50)
LOGS = st.tuples(OFFSETS, OFFSETS).map(lambda ends: ReadableBounds(min(ends), max(ends)))
AHEAD = Translation(offset=5, exact=False, waits=True, reason="it stands at 9 on the source, the copy at 5")


def test_nothing_was_copied() -> None:
    """An empty remote partition is read from its start; one with records of others is not guessed about."""
    nothing = Translation(offset=None, reason=NOTHING_COPIED)
    assert within_log(nothing, ReadableBounds(3, 3)) == Translation(offset=3)
    assert within_log(nothing, ReadableBounds(0, 3)).offset is None


def test_ahead_of_the_copy() -> None:
    """A group goes on at the end of the copy, never beyond, and it is said that this is before its place."""
    assert within_log(AHEAD, ReadableBounds(0, 8)) == AHEAD
    assert within_log(AHEAD, ReadableBounds(0, 3)).offset is None


@given(st.none() | OFFSETS, st.none() | OFFSETS, LOGS)
def test_a_known_place_lies_within_the_log(said: int | None, by_map: int | None, log: ReadableBounds) -> None:
    """Whatever checkpoint and map say; and without a checkpoint nothing with records is guessed about."""
    place = by_checkpoint(said, by_map, log)
    if place.offset is not None:
        assert log.start <= place.offset <= log.end
    elif said is None:
        assert log.start < log.end
        assert place.reason is not None


@given(OFFSETS, st.none() | OFFSETS, st.none() | OFFSETS)
def test_a_failback_sets_no_group_back_that_was_further(place: int, stands: int | None, left_at: int | None) -> None:
    """Unless it still stands where the failover left it, or is forced to."""
    act = decide_failback(place, stands, left_at, force=False)
    if isinstance(act, WriteOffset):
        assert act.offset == place
        assert stands is None or place > stands or stands == left_at
    else:
        assert stands is not None
        assert stands >= place
    forced = decide_failback(place, stands, left_at, force=True)
    assert forced == (KeepOffset() if stands == place else WriteOffset(place))


def test_a_failover_goes_by_the_rule_of_the_group_sync() -> None:
    """What somebody else committed stays, unless it is forced."""

    def decided(committed: int | None, *written: int, force: bool = False) -> KeepOffset | WriteOffset:
        known = TargetOffset(committed=committed, written=written, translated=5, went_back=False)
        return decide_failover(known, force=force)

    assert decided(None) == WriteOffset(5)
    assert decided(4, 4) == WriteOffset(5)
    assert decided(5, force=True) == KeepOffset()
    assert isinstance(decided(7, 4), KeepOffset)
    assert decided(7, 4, force=True) == WriteOffset(5)


def test_what_would_be_lost_and_read_again_now() -> None:
    """Neither copied nor processed is lost; what was processed since the last checkpoint is done again."""
    assert lost_if_gone(end=100, copied_to=80, committed=50) == 20
    assert lost_if_gone(end=100, copied_to=80, committed=95) == 5
    assert lost_if_gone(end=100, copied_to=None, committed=100) == 0
    log = ReadableBounds(10, 90)
    assert reread_if_gone(40, 35, log) == 5
    assert reread_if_gone(40, None, log) == 30
    assert reread_if_gone(None, 35, log) == 0


def test_documents_are_to_the_letter() -> None:
    """A translated offset in the audit topic, and a checkpoint's headers: other versions read them."""
    orders, remote = TopicPartition("t", 1), TopicPartition("A.t", 1)
    offset = translated_offset(orders, 7, remote, 5, exact=False, reason="why")
    assert offset.to_json() == [["t", 1, 7], ["A.t", 1, 5], False, "why", ""]
    assert TranslatedOffset.from_json("g", offset.to_json()) == offset
    unknown = translated_offset(orders, None, None, None, metadata="m")
    assert unknown.to_json() == [["t", 1, None], None, True, None, "m"]
    record = CheckpointRecord(group="g", partition=remote, upstream_offset=7, downstream_offset=5, metadata="m")
    emitted = GroupCheckpoint(
        checkpoint=record, written=(5, 3), sources={"t": 7, "a": 1}, unsubscribed=frozenset("cb"), writer=b"us"
    ).encode()
    assert (emitted.key, emitted.value) == record.encode()
    assert emitted.headers == (
        (b"mirror-ray.written", bytes.fromhex("00000000000000050000000000000003")),
        (b"mirror-ray.writer", b"us"),
        (b"mirror-ray.sources", b'{"t":7,"a":1}'),
        (b"mirror-ray.unsubscribed", b'["b","c"]'),
    )
    plain = GroupCheckpoint(checkpoint=record, written=(5,)).encode()
    assert [name for name, _ in plain.headers] == [b"mirror-ray.written"]
