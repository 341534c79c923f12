"""How far MM2 has really come, by what the target holds: MM2 commits its source offsets only once a minute.

MM2 copies in order. When it is started again, or its producer sends a batch again, it goes back and repeats. So behind
the record of MM2's source offset the target holds runs of the source's records, each of which begins where an earlier
one has been. Such a *chain* is searched, from a record that can't be mistaken for another one up to the target's end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressMatch:
    """What the end of the target's log tells."""

    #: So many of the source's records behind MM2's source offset are on the target for sure, the first ones.
    copied: int
    #: At most so many of the records behind those may be there, too, as far as the window reaches.
    doubtful: int
    #: Why not more is known; None: ``copied`` is all.
    reason: str | None = None
    #: The source offset behind the last one of those copied; None: none of them was.
    next_offset: int | None = None

    @property
    def exact(self) -> bool:
        """Whether nothing is lost and nothing doubled if copying goes on behind ``copied``."""
        return self.reason is None

    @property
    def alike(self) -> bool:
        """Whether any record of the target is for sure one of the source's around MM2's source offset."""
        return self.reason != NOTHING_ALIKE


NOTHING_ALIKE = "none of the records at the target's end is for sure one of the source's around MM2's note"
NOT_ALL_ALIKE = (
    "the target ends with records that are not the source's in their order: cleaned, transformed, or others'"
)
ENDS_EARLY = "the target ends before the record that MM2 noted: it was left out by MM2, or lost by the target"


def match(
    before: Sequence[bytes], behind: Sequence[bytes], target: Sequence[bytes], pairs: Mapping[int, int] | None = None
) -> ProgressMatch:
    """Find the target's end among the source's records.

    Args:
        before: Contents of the source's records up to the one that MM2 noted, the newest ones in order.
        behind: Of those behind it.
        target: Of the last records of the target.
        pairs: By position in ``target``, the position in ``before`` and ``behind``, counted through, that MM2 published
            of it: they hold where the contents agree.

    Guarantees: records of ``behind`` count as copied only if the target holds them in order and without a gap, behind
    a record of ``before`` that no other one of either list equals, or that ``pairs`` names: the last such one. So where
    contents come round again it is rather too few than too many, as long as ``target`` reaches back to MM2's note.
    """
    chain = _Chain(before, behind, pairs or {})
    for number, content in enumerate(target):
        chain.take(number, content)
    return chain.result()


class _Chain:
    def __init__(self, before: Sequence[bytes], behind: Sequence[bytes], pairs: Mapping[int, int]) -> None:
        self._source = [*before, *behind]
        self._noted = len(before)
        self._pairs = pairs
        self._positions: dict[bytes, list[int]] = {}
        for position, content in enumerate(self._source):
            self._positions.setdefault(content, []).append(position)
        #: Where the source's next record would be; None: outside of a chain.
        self._next: int | None = None
        #: How far the last chain came, and those before it; None: there was none.
        self._top: int | None = None
        self._furthest = 0
        #: Records outside of chains: first positions of those that the source has, and others behind the last chain.
        self._loose: list[int] = []
        self._strange = 0

    def take(self, number: int, content: bytes) -> None:
        """The next record of the target."""
        following, found = self._next, self._positions.get(content, [])
        if following is not None and following < len(self._source) and self._source[following] == content:
            self._reach(following)
        elif (position := self._beginning(number, found)) is not None:
            # Contents may come round again: what is nearer to the end counts.
            self._furthest, self._top = max(self._furthest, self._top or 0), None
            self._reach(position)
        elif following is not None and found and found[0] < (self._top or 0):
            self._reach(max(position for position in found if position < (self._top or 0)))
        else:
            self._next = None
            self._loose += found[:1]
            self._strange += not found

    def _beginning(self, number: int, found: Sequence[int]) -> int | None:
        """Which record of the source a chain can begin with here; None: it is none, or can't be told from another."""
        named = self._pairs.get(number)
        if named is not None and named in found:
            return named
        # Without any record up to the note, the first one behind it is where MM2 began.
        first = self._noted == 0 and self._next is None
        return found[0] if len(found) == 1 and (found[0] < self._noted or (first and found[0] == 0)) else None

    def _reach(self, position: int) -> None:
        self._next, self._strange = position + 1, 0
        self._top = max(self._top or 0, position + 1)

    def result(self) -> ProgressMatch:
        left = len(self._source) - self._noted
        if self._top is None:
            return ProgressMatch(copied=0, doubtful=left, reason=NOTHING_ALIKE)
        top = max(self._top, self._noted)
        there = {position for position in self._loose if position >= top} | set(range(top, self._furthest))
        doubtful = min(len(there) + self._strange, len(self._source) - top)
        if self._next is None or doubtful:
            return ProgressMatch(copied=top - self._noted, doubtful=doubtful, reason=NOT_ALL_ALIKE)
        return ProgressMatch(
            copied=top - self._noted, doubtful=0, reason=ENDS_EARLY if self._top < self._noted else None
        )
