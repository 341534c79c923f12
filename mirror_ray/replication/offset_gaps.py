"""Offsets that the source's log has no record at, where the target's log has to come to the same offsets.

The marker of an aborted transaction takes one offset, and no consumer ever sees it. Fillers in the transaction take
further offsets; ``read_uncommitted`` consumers see those. So a short gap is filled by as many markers as it has
offsets, a longer one by fillers and few markers (docs/decisions/0012).
"""

from __future__ import annotations

from typing import Final, NamedTuple

#: Fillers of one transaction: a batch of them takes the target's broker some tens of milliseconds.
MOST_FILLERS: Final = 100_000
#: Left behind fillers for markers that are written one by one: the transaction's own may be written twice.
SPARE_OFFSETS: Final = 8


class OffsetGap(NamedTuple):
    """Offsets from ``start`` to before ``end``, one at least."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """How many they are."""
        return self.end - self.start


def fillers_of(gap: OffsetGap, most_markers: int, spare: int = 0) -> int:
    """How many fillers the next transaction needs beside its marker; ``spare`` offsets are left where there are more.

    A gap of up to ``most_markers`` offsets, 1 or more, is filled by markers alone.
    """
    return 0 if gap.length <= most_markers else min(gap.length - 1 - min(spare, gap.length - 2), MOST_FILLERS)
