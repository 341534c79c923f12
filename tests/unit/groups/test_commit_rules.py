"""A group's offset on the target is replaced by its own successor alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.groups.commit_rules import KeepOffset, TargetOffset, WriteOffset, decide_sync


def standing(
    committed: int | None, written: tuple[int, ...], translated: int, *, went_back: bool = False
) -> TargetOffset:
    """Shorter."""
    return TargetOffset(committed=committed, written=written, translated=translated, went_back=went_back)


@pytest.mark.parametrize(
    ("group", "done"),
    [
        (standing(None, (), 7), WriteOffset(7)),
        (standing(5, (5,), 7), WriteOffset(7)),
        (standing(7, (), 7), KeepOffset()),
        (standing(7, (7,), 5, went_back=True), WriteOffset(5)),
        # Deleted on the target, by somebody or because it expired.
        (standing(None, (5,), 7), WriteOffset(7)),
        # We crashed between saying what would be written and writing it.
        (standing(5, (6, 5), 7), WriteOffset(7)),
        (standing(6, (6, 5), 7), WriteOffset(7)),
        (standing(6, (5, 6), 5), WriteOffset(5)),
    ],
)
def test_what_is_done(group: TargetOffset, done: KeepOffset | WriteOffset) -> None:
    """The plain cases."""
    assert decide_sync(group) == done


@pytest.mark.parametrize(
    ("group", "why"),
    [
        (standing(6, (5,), 7), "offset 6 on the target was committed there by somebody else"),
        (standing(6, (), 7), "by somebody else"),
        (standing(7, (7,), 5), "not seen to go back"),
        (standing(7, (8, 7), 5), "not seen to go back"),
        (standing(7, (7, 5), 5), "not seen to go back"),
    ],
)
def test_what_is_left_alone(group: TargetOffset, why: str) -> None:
    """With a reason."""
    done = decide_sync(group)
    assert isinstance(done, KeepOffset)
    assert why in str(done.reason)


def test_where_both_sides_write_no_group_is_put_back() -> None:
    """Not even where it was seen to go back: two flows that follow each other's places would go on without end."""
    group = replace(standing(7, (7,), 5, went_back=True), both_sides_write=True)
    assert decide_sync(group) == KeepOffset(
        "it stands at 7 on the target; where both sides write, no group is put back"
    )
    assert decide_sync(replace(group, translated=9)) == WriteOffset(9)


OFFSET = st.integers(0, 5)


@given(
    group=st.builds(
        TargetOffset,
        committed=st.none() | OFFSET,
        written=st.lists(OFFSET, max_size=2).map(tuple),
        translated=OFFSET,
        went_back=st.booleans(),
    )
)
def test_nobody_elses_commit_is_replaced(group: TargetOffset) -> None:
    """And nothing goes back unless it was meant to."""
    done = decide_sync(group)
    if isinstance(done, WriteOffset):
        assert done.offset == group.translated
        assert group.committed is None or group.committed in group.written
        meant = group.written[:1] == (group.translated,)
        assert group.committed is None or group.went_back or meant or done.offset > group.committed
