"""Where groups go on, and what may be committed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.failover.left_behind import lost_if_gone, reread_if_gone
from mirror_ray.groups.commit_rules import KeepOffset, TargetOffset, WriteOffset, decide_failback, decide_failover
from mirror_ray.groups.translated_offset import by_checkpoint, within_log
from mirror_ray.offsets.translation import NOTHING_COPIED, LogBounds, Translation

OFFSETS = st.integers(0, 50)
LOGS = st.tuples(OFFSETS, OFFSETS).map(lambda ends: LogBounds(min(ends), max(ends)))
AHEAD = Translation(offset=5, exact=False, waits=True, reason="it stands at 9 on the source, the copy at 5")


def test_nothing_was_copied() -> None:
    """An empty remote partition is read from its start; one with records of others is not guessed about."""
    nothing = Translation(offset=None, reason=NOTHING_COPIED)
    assert within_log(nothing, LogBounds(3, 3)) == Translation(offset=3)
    assert within_log(nothing, LogBounds(0, 3)).offset is None


def test_ahead_of_the_copy() -> None:
    """A group goes on at the end of the copy, never beyond, and it is said that this is before its place."""
    assert within_log(AHEAD, LogBounds(0, 8)) == AHEAD
    assert within_log(AHEAD, LogBounds(0, 3)).offset is None


@given(st.none() | OFFSETS, st.none() | OFFSETS, LOGS)
def test_a_known_place_lies_within_the_log(said: int | None, by_map: int | None, log: LogBounds) -> None:
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
    log = LogBounds(10, 90)
    assert reread_if_gone(40, 35, log) == 5
    assert reread_if_gone(40, None, log) == 30
    assert reread_if_gone(None, 35, log) == 0
