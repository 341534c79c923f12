"""Offsets that the source's log has no record at, where the target's log has to come to the same offsets.

A transaction that is aborted leaves a marker in each of its partitions, which takes one offset and which no consumer
ever sees. Fillers in it take further offsets; ``read_uncommitted`` consumers see those. So a short gap is filled by as
many transactions as it has offsets, a longer one by fillers and one marker (docs/decisions/0012).
"""

from __future__ import annotations

from typing import Final, NamedTuple

#: Fillers of one transaction: a batch of them takes the target's broker some tens of milliseconds.
MOST_FILLERS: Final = 100_000


class OffsetGap(NamedTuple):
    """Offsets from ``start`` to before ``end``, one at least."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """How many they are."""
        return self.end - self.start


def fillers_of(gap: OffsetGap, most_markers: int) -> int:
    """How many fillers the next transaction needs beside its marker.

    A gap of up to ``most_markers`` offsets, 1 or more, is filled by markers alone, one by one.
    """
    return 0 if gap.length <= most_markers else min(gap.length - 1, MOST_FILLERS)
