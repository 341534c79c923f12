"""The next sequence of a pair: the target offset's, until it has one of its own."""

from __future__ import annotations

import pytest

from mirror_ray.model.offset_pair import OffsetPair


@pytest.mark.parametrize(
    ("anchor", "following"),
    [
        (OffsetPair(0, 0), 0),
        (OffsetPair(9, 7), 7),
        (OffsetPair(9, 2**31 - 1), 2**31 - 1),
        (OffsetPair(9, 2**31 + 5), 5),
        (OffsetPair(9, 7, 0), 0),
        (OffsetPair(9, 7, 3), 3),
    ],
)
def test_the_next_sequence(anchor: OffsetPair, following: int) -> None:
    """They begin again at 0 behind 2^31 - 1: the protocol's field holds no more."""
    assert anchor.next_sequence == following


def test_leader_epochs_do_not_tell_pairs_apart() -> None:
    """They are notes on a pair, which stays the same."""
    assert OffsetPair(1, 2, 3, 4, 5) == OffsetPair(1, 2, 3)
