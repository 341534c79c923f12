"""What became of the records of a copy. Pure."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass

#: A partition's records in their order, each by a hash, of 64 bits, of all that a copy must keep.
Prints = array


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyResult:
    """What became of the records, over all partitions."""

    copied: int = 0
    lost: int = 0
    doubled: int = 0
    #: On the target and not on the source.
    foreign: int = 0
    #: Partitions whose records are all there and stand in another order.
    reordered: int = 0

    @property
    def equal(self) -> bool:
        """Whether every record is there, once and in its place."""
        return not (self.lost or self.doubled or self.foreign or self.reordered)

    def __add__(self, other: CopyResult) -> CopyResult:
        return CopyResult(
            copied=self.copied + other.copied,
            lost=self.lost + other.lost,
            doubled=self.doubled + other.doubled,
            foreign=self.foreign + other.foreign,
            reordered=self.reordered + other.reordered,
        )


def judge(source: Prints[int], copy: Prints[int], *, finished: bool) -> CopyResult:
    """Compare one partition.

    Args:
        source: Its records.
        copy: Those of its copy.
        finished: Whether all was to be copied. If not, what comes after the last record that was copied is not missed.
    """
    if source == copy:
        return CopyResult(copied=len(copy))
    there = Counter(copy)
    if not finished:
        copied = [index for index, print_ in enumerate(source) if print_ in there]
        source = source[: copied[-1] + 1] if copied else source[:0]
    wanted = Counter(source)
    lost, more = wanted - there, there - wanted
    foreign = sum(count for print_, count in more.items() if print_ not in wanted)
    doubled = sum(more.values()) - foreign
    return CopyResult(
        copied=len(copy) - doubled - foreign,
        lost=sum(lost.values()),
        doubled=doubled,
        foreign=foreign,
        reordered=int(not lost and not more and source != copy),
    )
