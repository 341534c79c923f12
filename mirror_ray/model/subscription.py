"""Which topics a group's members read."""

from __future__ import annotations

import re
from typing import NamedTuple


class Subscription(NamedTuple):
    """What all members of a group have subscribed to, or are assigned partitions of."""

    topics: frozenset[str]
    #: Patterns that the broker resolves (KIP-848).
    patterns: frozenset[str] = frozenset()

    def covers(self, topic: str) -> bool:
        """Whether a member reads the topic, or may: a pattern that Python can't read may fit anything."""
        return topic in self.topics or any(_may_fit(pattern, topic) for pattern in self.patterns)


def _may_fit(pattern: str, topic: str) -> bool:
    try:
        return re.fullmatch(pattern, topic) is not None
    except re.error:
        return True
