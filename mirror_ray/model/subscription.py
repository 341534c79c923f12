"""Which topics a group's members read."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from mirror_ray.model.patterns import Pattern

_COMPILED: Final = 256


class Subscription(NamedTuple):
    """What all members of a group have subscribed to, or are assigned partitions of."""

    topics: frozenset[str]
    #: Patterns that the broker resolves (KIP-848).
    patterns: frozenset[str] = frozenset()

    def covers(self, topic: str) -> bool:
        """Whether a member reads the topic, or may: a pattern that can't be read here may fit anything."""
        return topic in self.topics or any(_may_fit(pattern, topic) for pattern in self.patterns)


def _may_fit(pattern: str, topic: str) -> bool:
    compiled = _compiled(pattern)
    return compiled is None or compiled.fits(topic)


@lru_cache(maxsize=_COMPILED)
def _compiled(pattern: str) -> Pattern | None:
    """The broker's patterns are RE2's already (RE2/J)."""
    try:
        return Pattern(pattern)
    except ValueError:
        return None
