"""Limits hold whatever answers bring, over any time that one looks at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.names import FlowName
from mirror_ray.model.quota import QuotaShare, ThrottleCounter
from mirror_ray.replication.throttle import FetchThrottle

_FLOW = FlowName("A", "B")
_MOST_BATCH = 200_000


class Reading:
    """One fetcher over topics that always have more."""

    def __init__(self, allowance: QuotaShare) -> None:
        self.pacer, self.now_s = FetchThrottle(), 0.0
        self.pacer.follow(allowance, self.now_s)
        self.taken: list[tuple[float, str, int]] = []

    def run(self, until_s: float, topics: dict[str, list[int]], took_s: float = 0.001) -> None:
        """Read each topic's sizes over and over."""
        turn = 0
        while self.now_s < until_s:
            wait_s = self.pacer.wait_s(self.now_s)
            free = [topic for topic in topics if not wait_s and not self.pacer.topic_wait_s(topic, self.now_s)]
            for topic in free:
                size = topics[topic][turn % len(topics[topic])]
                self.pacer.took(topic, size, self.now_s)
                self.taken.append((self.now_s, topic, size))
            turn += 1
            waits = [self.pacer.topic_wait_s(topic, self.now_s) for topic in topics]
            self.now_s += max(wait_s or (0.0 if free else min(waits)), took_s)

    def rate(self, topic: str | None = None, since_s: float = 0.0) -> float:
        """Bytes a second."""
        sizes = [size for at_s, name, size in self.taken if topic in (None, name) and at_s >= since_s]
        return sum(sizes) / (self.now_s - since_s)


_SIZES = st.lists(st.integers(1, _MOST_BATCH), min_size=1, max_size=20)


@given(rate=st.integers(50_000, 50_000_000), sizes=_SIZES)
def test_a_limit_is_kept_in_the_mean_and_is_used(rate: int, sizes: list[int]) -> None:
    """Never exceeded by more than one answer and what a bucket holds; as fast as the answers come up to it."""
    reading = Reading(QuotaShare(flow=_FLOW, bytes_per_s=float(rate)))
    reading.run(5.0, {"t": sizes})
    assert reading.rate() * reading.now_s <= rate * (reading.now_s + 0.5) + _MOST_BATCH
    possible = min(rate, sum(sizes) / len(sizes) / 0.003)
    assert reading.rate() >= 0.95 * possible - _MOST_BATCH / 5


@given(rate=st.integers(100_000, 5_000_000), sizes=_SIZES)
def test_a_topic_with_a_limit_leaves_the_others_alone(rate: int, sizes: list[int]) -> None:
    """It keeps to its own; the other is read each time."""
    reading = Reading(QuotaShare(flow=_FLOW, topics=(("slow", float(rate)),)))
    reading.run(5.0, {"slow": sizes, "fast": [10_000]})
    assert reading.rate("slow") * reading.now_s <= rate * (reading.now_s + 0.5) + _MOST_BATCH
    assert reading.rate("fast") > 1_000_000


def test_who_comes_first_gets_nearly_all_and_the_others_a_tenth() -> None:
    """While the first has more than the limit; what it leaves is the others'."""
    allowance = QuotaShare(flow=_FLOW, bytes_per_s=1e6, ranks=(("first", 0),), usual_rank=1)
    reading = Reading(allowance)
    reading.run(20.0, {"first": [20_000], "later": [20_000]})
    assert reading.rate() == pytest.approx(1e6, rel=0.05)
    assert reading.rate("later") == pytest.approx(1e5, rel=0.3)
    reading.run(40.0, {"later": [20_000]})
    assert reading.rate("later", since_s=21.0) == pytest.approx(1e6, rel=0.05)


def test_what_is_owed_is_owed_under_another_limit_too() -> None:
    """A limit that changes is none that begins anew; without limits nobody waits."""
    pacer = FetchThrottle()
    assert not pacer.on
    assert pacer.follow(QuotaShare(flow=_FLOW, bytes_per_s=1_000.0), 0.0)
    pacer.took("t", 10_000, 1.0)
    assert pacer.wait_s(1.0) == pytest.approx(9.5, rel=0.01)
    assert pacer.follow(QuotaShare(flow=_FLOW, bytes_per_s=10_000.0), 1.0)
    assert pacer.wait_s(1.0) == pytest.approx(0.95, rel=0.01)
    assert not pacer.follow(QuotaShare(flow=_FLOW, bytes_per_s=10_000.0), 1.0)
    assert pacer.follow(None, 1.0)
    assert pacer.wait_s(1.0) == 0.0
    assert pacer.answer_bytes() is None


def test_answers_are_small_where_limits_are() -> None:
    """Of a topic with its own limit smaller than the flow's."""
    pacer = FetchThrottle()
    pacer.follow(QuotaShare(flow=_FLOW, bytes_per_s=100e6, topics=(("slow", 1e6), ("crawling", 1.0))), 0.0)
    assert pacer.answer_bytes() == 10_000_000
    assert pacer.partition_bytes("slow") == 100_000
    assert pacer.partition_bytes("crawling") == 16 << 10
    assert pacer.partition_bytes("other") == 10_000_000


def test_seconds_that_several_wait_count_once() -> None:
    """And those of each cause apart."""
    still = ThrottleCounter()
    for now_s, wait_s in ((0.0, 2.0), (1.0, 0.5), (1.5, 1.0), (10.0, 1.0)):
        still.wait(now_s, wait_s)
    assert still.seconds == pytest.approx(3.5)
    pacer = FetchThrottle()
    pacer.throttled_by_source(2.0, 0.0)
    pacer.throttled_by_target(3.0, 0.0)
    assert (pacer.held.limit_s, pacer.held.source_s, pacer.held.target_s) == (0.0, 2.0, 3.0)
