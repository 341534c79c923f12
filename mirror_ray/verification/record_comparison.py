"""Compares two sequences of records: where they differ, and how.

Records are compared pair by pair. Where two differ, the nearest point is searched for from which on both sides are the
same again; records before it were changed, are missing on the target, or are surplus there.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from mirror_ray.verification.difference import Difference, DifferenceKind, HashedRecord, RecordHash
from mirror_ray.verification.ranges import PositionPair

#: Records of each side that are searched for the point from which on both are the same again.
LOOKAHEAD = 2048
#: Records behind such a point that must be the same, too.
_SAME_RECORDS = 3
#: Matched records that are kept, to tell a doubled record from an unknown one.
_REMEMBERED = 8192
#: The comparison ends at so many unexplained differences, and at so many in all.
MAX_DIFFERENCES = 1000
MAX_KNOWN_DIFFERENCES = 100_000


class ComparedSide:
    """The records of one side that were fed and not compared yet."""

    def __init__(self, end: int, lookahead: int) -> None:
        #: The number of records that were fed so far.
        self.fed = 0
        self.records = deque[HashedRecord]()
        self.is_over = False
        self._end, self._lookahead = end, lookahead

    @property
    def wants(self) -> bool:
        """Whether more is needed before the comparison can go on."""
        return not self.is_over and len(self.records) < self._lookahead

    def feed(self, records: Sequence[HashedRecord] | None) -> None:
        """Feed the next records; None: there are no more."""
        self.is_over = records is None
        self.records.extend(records or ())
        self.fed += len(records or ())

    def ahead(self) -> list[HashedRecord]:
        """The next records, as far as the lookahead reaches."""
        return list(islice(self.records, self._lookahead))

    def offset_at(self, at: int) -> int:
        """The offset of the record at an index, or the end of the range."""
        return self.records[at].offset if at < len(self.records) else self._end

    def drop(self, count: int) -> None:
        """Drop so many records: they were compared."""
        for _ in range(count):
            self.records.popleft()


class RecordComparison:
    """Compares one range. Feed the side that ``wants`` more, then ``step``, until it is ``done``."""

    def __init__(
        self, end: PositionPair, lookahead: int = LOOKAHEAD, is_known: Callable[[Difference], bool] = lambda _: False
    ) -> None:
        """``end`` is that of the range. Differences that are ``is_known`` do not count towards giving up."""
        self.source, self.target = ComparedSide(end.source, lookahead), ComparedSide(end.target, lookahead)
        self._matched: OrderedDict[RecordHash, int] = OrderedDict()
        self._entries: list[tuple[Difference, RecordHash | None, RecordHash | None]] = []
        self._is_known = is_known
        self._unknown = 0

    @property
    def done(self) -> bool:
        """Whether there is nothing more to compare, or enough was found."""
        return self.gave_up or all(side.is_over and not side.records for side in (self.source, self.target))

    @property
    def gave_up(self) -> bool:
        """Whether so much differs that the rest was not compared."""
        return self._unknown >= MAX_DIFFERENCES or len(self._entries) >= MAX_KNOWN_DIFFERENCES

    def step(self) -> None:
        """Compare as far as what was fed allows."""
        while not self.gave_up:
            self._match()
            if not (self.source.records or self.target.records) or self.source.wants or self.target.wants:
                return
            self._explain()

    def differences(self) -> list[Difference]:
        """All differences, in order; a record that is missing at one offset and surplus at another was moved."""
        missing: dict[RecordHash, list[int]] = defaultdict(list)
        for at, (_, mine, theirs) in enumerate(self._entries):
            if mine is not None and theirs is None:
                missing[mine].append(at)
        kept: dict[int, Difference] = {at: difference for at, (difference, *_) in enumerate(self._entries)}
        for at, (difference, mine, theirs) in enumerate(self._entries):
            if mine is None and theirs is not None and missing[theirs]:
                absent = missing[theirs].pop(0)
                origin = self._entries[absent][0]
                del kept[max(at, absent)]
                kept[min(at, absent)] = Difference("moved", origin.source_offset, difference.target_offset)
        return self._with_swaps(kept)

    def _with_swaps(self, kept: dict[int, Difference]) -> list[Difference]:
        """Join two changed records that have each other's content: they were swapped."""
        changed: dict[tuple[RecordHash | None, RecordHash | None], int] = {}
        for at in sorted(kept):
            difference, mine, theirs = self._entries[at]
            if difference.kind != "changed" or kept[at].kind != "changed":
                continue
            other = changed.pop((theirs, mine), None)
            if other is None:
                changed[mine, theirs] = at
            else:
                kept[other] = Difference("swapped", kept[other].source_offset, kept[other].target_offset)
                del kept[at]
        return [kept[at] for at in sorted(kept)]

    def _match(self) -> None:
        source, target, matched = self.source.records, self.target.records, self._matched
        while source and target and source[0].hash == target[0].hash:
            matched[source[0].hash] = source[0].offset
            source.popleft()
            target.popleft()
            if len(matched) > _REMEMBERED:
                matched.popitem(last=False)

    def _explain(self) -> None:
        """Both sides begin with different records: explain them up to the point where both are the same again."""
        source, target = self.source.ahead(), self.target.ahead()
        if _swapped(source, target):
            self._add_pair("swapped", source[0], target[0])
            self._drop(2, 2)
            return
        ahead = _nearest(source, target)
        if ahead is None:
            both = min(len(source), len(target))
            sides = (self.source, self.target)
            over = all(side.is_over for side in sides) and max(len(side.records) for side in sides) == both
            ahead = (len(source), len(target)) if over or not both else (both, both)
        self._explain_block(source[: ahead[0]], target[: ahead[1]])
        self._drop(*ahead)

    def _explain_block(self, source: list[HashedRecord], target: list[HashedRecord]) -> None:
        """Pair the records that have most in common; records that are left over are missing or surplus."""
        following = self.source.offset_at(len(source)), self.target.offset_at(len(target))
        for mine, theirs in _paired(source, target):
            if mine is not None and theirs is not None:
                # Records between two differences may be equal.
                if mine.hash != theirs.hash:
                    self._add_pair("changed", mine, theirs)
            elif mine is not None:
                self._missing(mine, _at_or_behind(target, mine, source) or following[1])
            elif theirs is not None:
                self._extra(theirs, _at_or_behind(source, theirs, target) or following[0])

    def _add_pair(self, kind: DifferenceKind, mine: HashedRecord, theirs: HashedRecord) -> None:
        fields = mine.hash.differs_in(theirs.hash) if kind == "changed" else ()
        self._add(Difference(kind, mine.offset, theirs.offset, fields), mine.hash, theirs.hash)

    def _missing(self, mine: HashedRecord, offset: int) -> None:
        self._add(Difference("missing", mine.offset, offset), mine.hash, None)

    def _extra(self, theirs: HashedRecord, offset: int) -> None:
        twin = self._matched.get(theirs.hash)
        difference = (
            Difference("extra", offset, theirs.offset) if twin is None else Difference("doubled", twin, theirs.offset)
        )
        # A doubled record is not the one that is missing elsewhere.
        self._add(difference, None, theirs.hash if twin is None else None)

    def _add(self, difference: Difference, mine: RecordHash | None, theirs: RecordHash | None) -> None:
        self._entries.append((difference, mine, theirs))
        self._unknown += not self._is_known(difference)

    def _drop(self, source: int, target: int) -> None:
        self.source.drop(source)
        self.target.drop(target)


def _swapped(source: Sequence[HashedRecord], target: Sequence[HashedRecord]) -> bool:
    """Whether the next two records are swapped."""
    return len(source) > 1 and len(target) > 1 and (source[0].hash, source[1].hash) == (target[1].hash, target[0].hash)


def _nearest(source: Sequence[HashedRecord], target: Sequence[HashedRecord]) -> tuple[int, int] | None:
    """The numbers of records to skip on each side until both are the same again; None: they never are."""
    positions: dict[RecordHash, list[int]] = defaultdict(list)
    for at, record in enumerate(target):
        positions[record.hash].append(at)
    best: tuple[int, int] | None = None
    for at, record in enumerate(source):
        if best is not None and at >= sum(best):
            break
        for there in islice(positions.get(record.hash, ()), 8):
            if (best is None or at + there < sum(best)) and _are_same(source, at, target, there):
                best = (at, there)
    return best


def _are_same(source: Sequence[HashedRecord], at: int, target: Sequence[HashedRecord], there: int) -> bool:
    mine, theirs = source[at : at + 1 + _SAME_RECORDS], target[there : there + 1 + _SAME_RECORDS]
    return [record.hash for record in mine] == [record.hash for record in theirs]


def _paired(
    source: Sequence[HashedRecord], target: Sequence[HashedRecord]
) -> Iterable[tuple[HashedRecord | None, HashedRecord | None]]:
    """Pair each record of the shorter side with one of the longer side, in order, so that they have most in common."""
    if len(source) > len(target):
        return [(mine, theirs) for theirs, mine in _paired(target, source)]
    pairs: list[tuple[HashedRecord | None, HashedRecord | None]] = []
    at = 0
    for number, mine in enumerate(source):
        last = len(target) - (len(source) - number)
        best = min(range(at, last + 1), key=lambda n: (len(mine.hash.differs_in(target[n].hash)), n))
        pairs += [(None, theirs) for theirs in target[at:best]]
        pairs.append((mine, target[best]))
        at = best + 1
    return [*pairs, *((None, theirs) for theirs in target[at:])]


def _at_or_behind(there: Sequence[HashedRecord], record: HashedRecord, here: Sequence[HashedRecord]) -> int | None:
    """The offset on the other side for a record that is on one side only: that of the record at its index, if any."""
    at = next(n for n, other in enumerate(here) if other is record)
    return there[at].offset if at < len(there) else None
