"""When a partition that could not go on is looked at again."""

from __future__ import annotations

from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.replication.retry import RetryTimes


def test_what_passes_does_not_put_off_a_stop() -> None:
    """A topic that its leader does not know for some seconds is tried soon after the first stop, then ever later."""
    retry = RetryTimes()
    while not retry.fails_for_long:
        retry.failed(0.0)
    waits = []
    for _ in range(6):
        retry.stopped(0.0)
        waits.append(retry.at_s)
    assert waits == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    retry.acknowledged()
    retry.stopped(0.0)
    assert (retry.at_s, retry.fails_for_long) == (2.0, False)


def test_a_broker_that_contradicts_at_ever_another_place_is_not_counted() -> None:
    """Somebody else of the flow may be copying on meanwhile."""
    retry = RetryTimes()
    assert not any(retry.contradicted(OffsetPair(place, place)) for place in range(20))
    assert [retry.contradicted(OffsetPair(20, 20)) for _ in range(6)] == [False] * 5 + [True]
    retry.acknowledged()
    assert not retry.contradicted(OffsetPair(20, 20))
