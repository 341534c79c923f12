"""Groups of batches that are committed together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.replication.commit_groups import CommitGroups


def test_the_last_batch_that_is_ready_ends_its_group() -> None:
    """Nothing waits for batches that may never come."""
    groups = CommitGroups()
    assert not groups.ends("p", 1000, 0.0, more=True)
    assert groups.ends("p", 1000, 0.0, more=False)


def test_a_group_ends_when_it_is_large_or_old() -> None:
    """However much there is behind it."""
    groups = CommitGroups(largest_bytes=3000, longest_s=1.0)
    assert [groups.ends("large", 1000, 0.0, more=True) for _ in range(3)] == [False, False, True]
    assert [groups.ends("old", 1, now_s, more=True) for now_s in (0.0, 0.5, 1.0)] == [False, False, True]


def test_a_commit_begins_new_groups_of_all_that_the_request_holds() -> None:
    """Also of those for whose sake it was not sent."""
    groups = CommitGroups(largest_bytes=3000)
    assert not groups.ends("a", 2000, 0.0, more=True)
    assert groups.ends("b", 10, 0.0, more=False)
    groups.committing(["a", "b"])
    assert not groups.ends("a", 2000, 0.0, more=True)


def test_without_groups_each_batch_is_committed() -> None:
    """As ``largest_bytes`` 0 says."""
    assert CommitGroups(largest_bytes=0).ends("p", 1, 0.0, more=True)


@given(st.lists(st.tuples(st.integers(1, 2000), st.floats(0, 0.3), st.booleans()), min_size=1))
def test_what_is_not_committed_stays_small_and_young(steps: list[tuple[int, float, bool]]) -> None:
    """What went out with acks=1 is less than a group, and the next batch after its time commits it."""
    groups = CommitGroups(largest_bytes=5000, longest_s=1.0)
    now_s, open_bytes, began_s = 0.0, 0, 0.0
    for size, pause_s, more in steps:
        now_s += pause_s
        began_s = began_s if open_bytes else now_s
        open_bytes += size
        if groups.ends("p", size, now_s, more=more):
            groups.committing(["p"])
            open_bytes = 0
        else:
            assert more
            assert open_bytes < 5000
            assert now_s - began_s < 1.0
