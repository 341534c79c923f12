"""Says of every append to a target partition, and of every pair of offsets, whether it is right."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from mirror_ray.model.offset_pair import OffsetPair
from tests.model.source import SourcePartition

#: A source record: in which incarnation of the log it was written, and its offset.
Origin = tuple[int, int]


class Wrong(AssertionError):  # noqa: N818 - an assertion about the world, not an error of it
    """The copy is not the source's records, once each, in order."""


@dataclass(slots=True)
class Judge:
    """Follows one target partition. Each record's value says which record of ``source`` it is a copy of.

    ``history`` outlives what retention and compaction take from the target's log.
    """

    source: SourcePartition
    #: Source offsets, the end not included, that the assignment leaves out.
    left_out: set[int] = field(default_factory=set)
    #: Where copying begins.
    begins: int = 0
    history: list[Origin] = field(default_factory=list)
    #: Target offset of each.
    offsets: list[int] = field(default_factory=list)
    #: So much of ``history`` lies before the pair from which somebody decided to go on.
    before: int = 0

    def goes_on(self, source_offset: int) -> None:
        """Somebody has decided where to go on: what is before that on the target is not what follows is behind."""
        self.before, self.begins = len(self.history), source_offset

    def appended(self, target_offset: int, values: list[bytes]) -> None:
        """A batch of ours was appended.

        Raises:
            Wrong: A record is there already, comes too early, or behind one that it should follow.
        """
        for place, value in enumerate(values):
            incarnation, offset = map(int, value.split(b"."))
            self._follows((incarnation, offset))
            self.history.append((incarnation, offset))
            self.offsets.append(target_offset + place)

    def truncated(self, end: int) -> None:
        """The target's log ends there now."""
        at = bisect_left(self.offsets, end)
        del self.history[at:], self.offsets[at:]
        self.before = min(self.before, at)

    def _follows(self, after: Origin) -> None:
        behind_any = len(self.history) > self.before
        before = self.history[-1] if behind_any else (0, -1)
        newest = max(before[0], after[0])
        if before[1] >= after[1]:
            raise Wrong(f"record {after} is appended behind {before}: twice, or out of order")
        if behind_any and not (self._is_in(before, newest) and self._is_in(after, newest)):
            raise Wrong(f"record {after} is appended behind {before}, which is of another log")
        if newest == self.source.incarnation:
            missing = self.missing(before[1] + 1, after[1])
            if missing:
                raise Wrong(f"record {after} is appended behind {before}, and {missing} are lost")

    def _is_in(self, record: Origin, incarnation: int) -> bool:
        return all(record[1] < fork for fork in self.source.forks[record[0] : incarnation])

    def missing(self, first: int, end: int) -> list[int]:
        """Offsets of records in a range that should be copied: those there now, and those that retention took."""
        found, first = [], max(first, self.begins)
        for offsets in (self.source.removed, self.source.visible):
            found += offsets[bisect_left(offsets, first) : bisect_left(offsets, end)]
        return [offset for offset in found if offset not in self.left_out]

    def pair(self, anchor: OffsetPair) -> None:
        """Check that a pair of offsets belongs together.

        Raises:
            Wrong: It does not.
        """
        at = bisect_left(self.offsets, anchor.target_offset)
        before = self.history[at - 1] if at > self.before else (0, -1)
        if before[1] >= anchor.source_offset:
            raise Wrong(f"{anchor}, but {before} is before it on the target")
        # One that the source was cleaned of meanwhile may be, when a request of a lost connection was handled late.
        if at < len(self.history) and self.missing(self.history[at][1], anchor.source_offset):
            raise Wrong(f"{anchor}, but {self.history[at]} is behind it on the target")
        if at <= self.before or self._is_in(before, self.source.incarnation):
            missing = self.missing(before[1] + 1, anchor.source_offset)
            if missing:
                raise Wrong(f"{anchor}, but {missing} before it are not on the target")

    @property
    def complete(self) -> bool:
        """Whether everything that the source shows now is on the target, and the target's last record is in it."""
        behind_any = len(self.history) > self.before
        last = self.history[-1] if behind_any else (0, -1)
        there = not behind_any or self._is_in(last, self.source.incarnation)
        return there and not self.missing(last[1] + 1, self.source.end)
