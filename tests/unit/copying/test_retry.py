"""When a partition that could not go on is looked at again."""

from __future__ import annotations

from mirror_ray.copying.retry import Retry


def test_what_passes_does_not_put_off_a_stop() -> None:
    """A topic that its leader does not know for some seconds is tried soon after the first stop, then ever later."""
    retry = Retry()
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
