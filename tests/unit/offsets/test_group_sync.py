"""A group's offset on the target is replaced by its own successor alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.offsets.group_sync import Keep, Standing, Write, decide


def standing(
    committed: int | None, written: int | None, translated: int, *, went_back: bool = False, active: bool = False
) -> Standing:
    """Shorter."""
    return Standing(committed=committed, written=written, translated=translated, went_back=went_back, active=active)


@pytest.mark.parametrize(
    ("group", "done"),
    [
        (standing(None, None, 7), Write(7)),
        (standing(5, 5, 7), Write(7)),
        (standing(7, None, 7), Keep()),
        (standing(7, 7, 7, active=True), Keep()),
        (standing(7, 7, 5, went_back=True), Write(5)),
        # Deleted on the target, by somebody or because it expired.
        (standing(None, 5, 7), Write(7)),
    ],
)
def test_what_is_done(group: Standing, done: Keep | Write) -> None:
    """The plain cases."""
    assert decide(group) == done


@pytest.mark.parametrize(
    ("group", "why"),
    [
        (standing(5, 5, 7, active=True), "active on the target"),
        (standing(6, 5, 7), "offset 6 on the target was committed there by somebody else"),
        (standing(6, None, 7), "by somebody else"),
        (standing(7, 7, 5), "not seen to go back"),
    ],
)
def test_what_is_left_alone(group: Standing, why: str) -> None:
    """With a reason."""
    done = decide(group)
    assert isinstance(done, Keep)
    assert why in str(done.reason)


OFFSET = st.integers(0, 5)


@given(
    group=st.builds(
        Standing,
        committed=st.none() | OFFSET,
        written=st.none() | OFFSET,
        translated=OFFSET,
        went_back=st.booleans(),
        active=st.booleans(),
    )
)
def test_nobody_elses_commit_is_replaced(group: Standing) -> None:
    """And nothing is written while the group is active."""
    done = decide(group)
    if isinstance(done, Write):
        assert not group.active
        assert done.offset == group.translated
        assert group.committed is None or group.committed == group.written
        assert group.committed is None or group.went_back or done.offset > group.committed
