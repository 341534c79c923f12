"""What would be left behind: every record in the leader's log, whatever was copied, and every group that went on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.failover.left_behind import LeftBehind, PartitionEnds, has_gone_on, left_behind, outcome_of
from mirror_ray.failover.plan import FailoverStep
from mirror_ray.groups.translated_offset import TranslatedOffset
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from tests.support.factories import translated_offset

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 1)


def ends(copied_to: int | None, log_end: int, *, log_start: int = 0, stable: int | None = None) -> PartitionEnds:
    """Of one partition; all stable, unless said."""
    return PartitionEnds(
        log_start=log_start, stable=log_end if stable is None else stable, log_end=log_end, copied_to=copied_to
    )


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.one_of(st.none(), st.integers(0, 60)))
def test_nothing_is_left_behind_only_where_every_record_was_copied(
    log_start: int, stable: int, unstable: int, copied_to: int | None
) -> None:
    """Records lie from the log's start to the leader's end; those of open transactions can't have been copied."""
    seen = ends(copied_to, log_start + stable + unstable, log_start=log_start, stable=log_start + stable)
    missing = [n for n in range(seen.log_start, seen.log_end) if copied_to is None or n >= copied_to]
    found = left_behind({ORDERS: seen})
    assert found.written == ({ORDERS: len(missing)} if missing else {})
    assert found.unstable == ({ORDERS: unstable} if unstable else {})
    assert found.records == bool(missing or unstable)


def test_what_is_said_of_records() -> None:
    """Topics, how many, and what to do; back to the producers."""
    found = left_behind({ORDERS: ends(500, 1000), BILLS: ends(7, 9, stable=8), TopicPartition("x", 0): ends(3, 3)})
    done = outcome_of(found, "A", "A->B catches up", or_gone="; --source-is-gone goes on without")
    assert done is not None
    assert (done.outcome, done.back_to) == ("blocked", FailoverStep.PRODUCERS)
    assert done.figures == {
        "written": {"orders": 500, "bills": 2},
        "open_transactions": {"bills": 1},
        "partitions": {str(ORDERS): 500, str(BILLS): 2},
    }
    assert done.summary == (
        "written on A since it was copied to its end: 500 offsets in orders, 2 offsets in bills; in transactions that"
        " are open, or not on all replicas yet: 1 offsets in bills. Stop the producers, then run this again:"
        " A->B catches up; --source-is-gone goes on without"
    )


def test_what_is_said_of_groups_and_of_nothing() -> None:
    """Records come first: whoever goes back to the producers looks for the groups again."""
    done = outcome_of(LeftBehind(groups=["g"]), "A", "")
    assert done is not None
    assert (done.back_to, done.figures) == (FailoverStep.OFFSETS, {"active": ["g"]})
    both = outcome_of(LeftBehind(written={ORDERS: 1}, groups=["g"]), "A", "")
    assert both is not None
    assert both.back_to == FailoverStep.PRODUCERS
    assert outcome_of(LeftBehind(), "A", "") is None


def test_a_group_that_has_gone_on() -> None:
    """Forward or back, or begun in a partition of the flow; what has expired says nothing."""

    def place(offset: int | None) -> TranslatedOffset:
        return translated_offset(ORDERS, offset, ORDERS, 1)

    assert has_gone_on([place(5)], {ORDERS: CommittedOffset(6)})
    assert has_gone_on([place(5)], {ORDERS: CommittedOffset(4)})
    assert not has_gone_on([place(5)], {ORDERS: CommittedOffset(5), BILLS: CommittedOffset(1)})
    assert has_gone_on([place(5)], {ORDERS: CommittedOffset(5), BILLS: CommittedOffset(1)}, {BILLS})
    assert not has_gone_on([place(5)], {}, {ORDERS, BILLS})
    assert has_gone_on([place(None)], {ORDERS: CommittedOffset(6)})
