"""When a flow may read on, and how much, so that its limits hold; the time is passed in.

Buckets of bytes that fill steadily. Reading may begin while there is something in one, and what came is taken out
afterwards, also beyond its bottom: an answer that is too large is waited for later, so that the mean holds.
"""

from __future__ import annotations

from typing import Final

from mirror_ray.model.quota import QuotaShare, ThrottleCounter, ThrottledTime

#: What a bucket holds at most: a standstill of so long is made up for. Of ten seconds it is the 5 % that is promised.
_FULL_S: Final = 0.5
#: An answer brings what the limit allows in so long, or a small batch. Smaller ones would hold the limit more evenly,
#: and carry more of what is cut off at their ends, and so is read twice.
_ANSWER_S: Final = 0.1
_SMALLEST_ANSWER: Final = 16 << 10
#: What those that don't come first get in any case, of all.
_LEFT_FOR_LATER: Final = 0.1
#: Shorter waits are not worth a timer.
_SHORTEST_WAIT_S: Final = 0.002
#: A bucket that stays so full is not asked for enough by those that come first.
_LEFT_BY_OTHERS: Final = 0.5


class TokenBucket:
    """Fills with ``rate`` bytes a second."""

    __slots__ = ("_at_s", "_level", "rate")

    def __init__(self, rate: float, now_s: float) -> None:
        self.rate, self._level, self._at_s = rate, 0.0, now_s

    @property
    def full(self) -> float:
        """What it holds at most."""
        return self.rate * _FULL_S

    def level(self, now_s: float) -> float:
        """What is in it; below 0 what was taken too much."""
        self._level = min(self.full, self._level + self.rate * max(0.0, now_s - self._at_s))
        self._at_s = max(now_s, self._at_s)
        return self._level

    def take(self, size_bytes: int, now_s: float) -> None:
        """So much has come."""
        self._level = self.level(now_s) - size_bytes

    def change(self, rate: float, now_s: float) -> None:
        """Fill at another rate from now on. What is owed is owed still."""
        self.level(now_s)
        self.rate = rate
        self._level = min(self._level, self.full)

    def wait_s(self, above: float, now_s: float) -> float:
        """How long it takes until more than that is in it."""
        missing = above - self.level(now_s)
        return 0.0 if missing < 0 else max(_SHORTEST_WAIT_S, missing / self.rate)


class FetchThrottle:
    """One flow's limits in one replicator; without any it is asked for nothing."""

    def __init__(self) -> None:
        self._allowance: QuotaShare | None = None
        self._whole: TokenBucket | None = None
        #: For topics that don't come first, so that they are not left out altogether.
        self._later: TokenBucket | None = None
        self._topics: dict[str, TokenBucket] = {}
        self._ranks: dict[str, int] = {}
        self._held, self._source, self._target = ThrottleCounter(), ThrottleCounter(), ThrottleCounter()

    @property
    def on(self) -> bool:
        """Whether there are limits."""
        return self._allowance is not None

    @property
    def by_topic(self) -> bool:
        """Whether topics may have to wait by themselves."""
        return bool(self._topics) or self._later is not None

    @property
    def held(self) -> ThrottledTime:
        """How long it stood still so far."""
        return ThrottledTime(self._held.seconds, self._source.seconds, self._target.seconds)

    def follow(self, allowance: QuotaShare | None, now_s: float) -> bool:
        """Keep to other limits from now on; None: to none. Whether they are others than before."""
        if allowance == self._allowance:
            return False
        self._allowance = allowance
        whole = None if allowance is None else allowance.bytes_per_s
        ranked = allowance is not None and whole is not None and allowance.lowest_rank > 0
        self._whole = _changed(self._whole, whole, now_s)
        self._later = _changed(self._later, whole * _LEFT_FOR_LATER if ranked and whole else None, now_s)
        topics = dict(allowance.topics) if allowance is not None else {}
        self._topics = {
            topic: bucket
            for topic, rate in topics.items()
            if (bucket := _changed(self._topics.get(topic), rate, now_s)) is not None
        }
        self._ranks = dict(allowance.ranks) if allowance is not None else {}
        return True

    def wait_s(self, now_s: float) -> float:
        """How long nothing of the flow may be read."""
        return self._waits(0.0 if self._whole is None else self._whole.wait_s(0.0, now_s), now_s)

    def topic_wait_s(self, topic: str, now_s: float) -> float:
        """How long nothing of the topic may be read, though the flow may."""
        own = self._topics.get(topic)
        wait_s = 0.0 if own is None else own.wait_s(0.0, now_s)
        if self._later is not None and self._whole is not None and (rank := self._rank(topic)):
            lowest = self._allowance.lowest_rank if self._allowance is not None else 1
            left_s = self._whole.wait_s(self._whole.full * _LEFT_BY_OTHERS * rank / lowest, now_s)
            wait_s = max(wait_s, min(left_s, self._later.wait_s(0.0, now_s)))
        return self._waits(wait_s, now_s)

    def took(self, topic: str, size_bytes: int, now_s: float) -> None:
        """So many bytes of the topic have come."""
        if self._whole is not None:
            self._whole.take(size_bytes, now_s)
        if self._later is not None and self._rank(topic):
            self._later.take(size_bytes, now_s)
        own = self._topics.get(topic)
        if own is not None:
            own.take(size_bytes, now_s)

    def answer_bytes(self) -> int | None:
        """How much to ask for at a time; None: as much as one likes."""
        return None if self._whole is None else _answer(self._whole.rate)

    def partition_bytes(self, topic: str) -> int | None:
        """The same of one partition of the topic."""
        rates = [rate.rate for rate in (self._whole, self._topics.get(topic)) if rate is not None]
        if self._later is not None and self._rank(topic):
            rates.append(self._later.rate)
        return _answer(min(rates)) if rates else None

    def throttled_by_source(self, wait_s: float, now_s: float) -> None:
        """A broker of the source has asked for silence."""
        self._source.wait(now_s, wait_s)

    def throttled_by_target(self, wait_s: float, now_s: float) -> None:
        """A broker of the target has."""
        self._target.wait(now_s, wait_s)

    def _rank(self, topic: str) -> int:
        return self._ranks.get(topic, self._allowance.usual_rank if self._allowance is not None else 0)

    def _waits(self, wait_s: float, now_s: float) -> float:
        if wait_s > 0:
            self._held.wait(now_s, wait_s)
        return wait_s


def _changed(bucket: TokenBucket | None, rate: float | None, now_s: float) -> TokenBucket | None:
    if rate is None:
        return None
    if bucket is None:
        return TokenBucket(rate, now_s)
    bucket.change(rate, now_s)
    return bucket


def _answer(rate: float) -> int:
    return max(_SMALLEST_ANSWER, int(rate * _ANSWER_S))
