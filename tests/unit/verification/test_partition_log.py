"""A piece of a log is what a consumer sees of it: old messages, quotas, and leaders that do not show it all yet."""

from __future__ import annotations

import pytest

from mirror_ray.model.errors import ClusterUnreachableError
from mirror_ray.model.names import NO_TOPIC_ID
from mirror_ray.verification import partition_log
from mirror_ray.verification.partition_log import PartitionLog
from tests.unit.kafka.fetch_leader import ORDERS, Leader, Said
from tests.unit.kafka.test_partition_reader import batch, wrapper


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_log, "_EMPTY_S", 0)


async def offsets(leader: Leader, start: int, end: int) -> list[int]:
    """Of the records that are read."""
    log = PartitionLog(leader.as_cluster(), ORDERS, NO_TOPIC_ID)
    return [record.offset async for records in log.records(start, end) for record in records]


async def test_over_a_quota_nothing_is_taken_for_empty() -> None:
    """However often the broker says that it has no room."""
    leader = Leader([*[Said(throttle_ms=1, absent=True)] * 60, Said(batch(0, 5), shown=5)])
    assert await offsets(leader, 0, 5) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("first", [100, 120])
async def test_a_range_ends_inside_old_messages(first: int) -> None:
    """The offset of a compressed message is that of the last one inside."""
    leader = Leader([Said(wrapper(100, 100) + wrapper(200, 100), shown=300)])
    assert await offsets(leader, first, 150) == [*range(first, 150)]
    assert leader.asked == [first]


async def test_a_range_ends_inside_a_batch() -> None:
    """What is behind it is cut off."""
    assert await offsets(Leader([Said(batch(0, 5) + batch(5, 5), shown=10)]), 2, 4) == [2, 3]


async def test_what_the_cleaner_left_nothing_of_ends() -> None:
    """Where the leader shows its log up to there and answers nothing."""
    leader = Leader([Said(batch(0, 3), shown=9), Said(shown=9)])
    assert await offsets(leader, 0, 9) == [0, 1, 2]
    assert leader.ends_told == 0


async def test_what_a_new_leader_does_not_show_yet_is_waited_for() -> None:
    """Its high watermark may lag for longer than a few answers."""
    leader = Leader([Said(batch(0, 3), shown=3), *[Said(shown=3)] * 60, Said(batch(3, 2), shown=5)], ends=[5])
    assert await offsets(leader, 0, 5) == [0, 1, 2, 3, 4]


async def test_a_log_that_was_truncated_ends() -> None:
    """Its leader says so itself: what was there before is gone."""
    leader = Leader([Said(batch(0, 3), shown=3), Said(shown=3)], ends=[3])
    assert await offsets(leader, 0, 5) == [0, 1, 2]


async def test_a_log_that_grew_again_shows_nothing_twice() -> None:
    """It lost its end while it was read, and its new batches lie otherwise."""
    assert await offsets(Leader([Said(batch(0, 3), shown=3), Said(batch(1, 5), shown=6)]), 0, 6) == [0, 1, 2, 3, 4, 5]


async def test_what_is_never_shown_is_no_end() -> None:
    """Records that are known to be there must not pass for missing ones."""
    with pytest.raises(ClusterUnreachableError, match="orders-0 shows its records up to 3 and ends at 5"):
        await offsets(Leader([Said(batch(0, 3), shown=3), Said(shown=3)], ends=[5]), 0, 5)
