"""Waits between attempts."""

from __future__ import annotations

from mirror_ray.replication.backoff import backoff_s


def test_a_wait_doubles_up_to_its_limit() -> None:
    """From the first one on."""
    assert [backoff_s(attempt, 0.05, 2.0) for attempt in (0, 1, 5, 6, 7)] == [0.05, 0.1, 1.6, 2.0, 2.0]


def test_attempts_may_go_on_for_months() -> None:
    """A partition that is stopped for days, or a broker that is unreachable, is still looked at again."""
    assert backoff_s(1_000_000, 2.0, 30.0) == 30.0
