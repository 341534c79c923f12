"""The map against a copy that is known record by record: what it says exactly is right, whatever it has forgotten."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.offset_pair import SEQUENCE_MODULUS
from mirror_ray.model.segment import Segment
from mirror_ray.offsets.map import BeyondMap, ExactOffset, MapLookup, SegmentGap, SegmentMap, thinned


@dataclass
class Copy:
    """Every record's source and target offset, and the map of them."""

    limit: int
    segments: SegmentMap = field(init=False)
    sources: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    source_end: int = 0
    target_end: int = 0

    def __post_init__(self) -> None:
        self.segments = SegmentMap(self.limit)

    def run(self, source_hole: int, target_hole: int, length: int, *, told: bool) -> None:
        """Copy records behind a hole; a crash may keep the map from being told."""
        segment = Segment(self.source_end + source_hole, self.target_end + target_hole, length, len(self.sources))
        self.sources += range(segment.source, segment.source + length)
        self.targets += range(segment.target, segment.target + length)
        self.source_end, self.target_end = segment.source + length, segment.target + length
        if told:
            self.segments.add(segment, self.source_end)

    def lose(self, records: int) -> None:
        """The target loses its end; the source's same records are copied again, in one go."""
        cut = len(self.sources) - records
        again = self.sources[cut:]
        self.target_end = self.targets[cut] if again else self.target_end
        del self.sources[cut:], self.targets[cut:]
        for source in again:
            self.source_end = source
            self.run(0, 0, 1, told=True)

    def target_of(self, source: int) -> int:
        """The target offset of the first record that is not before ``source``."""
        at = bisect_left(self.sources, source)
        return self.targets[at] if at < len(self.targets) else self.target_end

    def source_of(self, target: int) -> int:
        """The other way round."""
        at = bisect_left(self.targets, target)
        return self.sources[at] if at < len(self.sources) else self.source_end


RUN = st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(1, 5), st.booleans())


@given(
    runs=st.lists(RUN, min_size=1, max_size=60), limit=st.integers(4, 20), shared=st.booleans(), lost=st.integers(0, 12)
)
def test_what_is_exact_is_right(runs: list[tuple[int, int, int, bool]], limit: int, shared: bool, lost: int) -> None:
    """In both directions; what is not known is bounded on both sides, and the bounds are right."""
    copy = Copy(limit)
    for number, (source_hole, target_hole, length, told) in enumerate(runs):
        if number == len(runs) // 2:
            copy.lose(min(lost, len(copy.sources)))
        copy.run(source_hole, target_hole if shared else 0, length, told=told or number == len(runs) - 1)
    assert len(copy.segments) <= limit
    for source in range(copy.source_end + 1):
        _agrees(copy.segments.to_target(source), copy.target_of(source), "target")
    for target in range(copy.target_end + 1):
        _agrees(copy.segments.to_source(target), copy.source_of(target), "source")


def _agrees(place: MapLookup, truth: int, side: str) -> None:
    match place:
        case ExactOffset(offset):
            assert offset == truth
        case SegmentGap(after, before):
            assert getattr(after, side) <= truth <= getattr(before, side)
        case BeyondMap():
            raise AssertionError("everything was told in the end")


def test_every_edge() -> None:
    """Below the first record, in a hole, at the head, behind it."""
    segments = SegmentMap()
    assert isinstance(segments.to_target(0), BeyondMap)
    segments.add(Segment(100, 0, 10, 0), 115)
    assert [segments.to_target(offset) for offset in (0, 100, 105, 110, 115)] == [
        ExactOffset(offset) for offset in (0, 0, 5, 10, 10)
    ]
    assert isinstance(segments.to_target(116), BeyondMap)
    segments.add(Segment(120, 10, 1, 10), 121)
    assert [segments.to_target(offset) for offset in (109, 112, 119, 120, 121)] == [
        ExactOffset(offset) for offset in (9, 10, 10, 10, 11)
    ]
    segments.reached(130)
    assert segments.to_target(130) == ExactOffset(11)
    assert [segments.to_source(offset) for offset in (0, 9, 10, 11)] == [
        ExactOffset(offset) for offset in (100, 109, 120, 130)
    ]


def test_a_log_without_holes_is_one_segment() -> None:
    """Also where a crash kept some of it from being told."""
    segments = SegmentMap()
    for first in (0, 10, 30, 40):
        segments.add(Segment(first, first, 10, first), first + 10)
    assert list(segments) == [Segment(0, 0, 50, 0)]


def test_memory_is_bounded_by_the_limit() -> None:
    """A hole behind every record, a hundred thousand times; the newest quarter stays exact."""
    segments = SegmentMap(1000)
    for number in range(100_000):
        segments.add(Segment(2 * number, number, 1, number), 2 * number + 2)
    assert len(segments) <= 1000
    assert all(segments.to_target(2 * number) == ExactOffset(number) for number in range(99_750, 100_000))
    assert isinstance(segments.to_target(1_001), SegmentGap)


def test_below_what_is_copied_anew_is_its_beginning() -> None:
    """A group from before begins there: nothing of the copy that was given up is looked for."""
    segments = SegmentMap()
    segments.add(Segment(100, 0, 50, 0), 150)
    segments.add(Segment(80, 50, 0, 50), 80)
    segments.add(Segment(80, 50, 70, 50), 150)
    assert segments.to_target(10) == ExactOffset(50)
    assert segments.to_target(100) == ExactOffset(70)


def test_what_is_left_out_is_a_small_share_of_the_way_to_the_end() -> None:
    """However often it is thinned: between two neighbours, and so for whoever has to read what lies there."""
    kept: list[int] = []
    for first in range(0, 100_000, 100):
        kept += range(10 * first, 10 * first + 1_000, 10)
        if len(kept) > 500:
            chosen, _ = thinned(kept, 500)
            kept = [kept[at] for at in chosen]
    assert kept[0] == 0
    assert len(kept) <= 500
    gaps = [(newer - older, kept[-1] - newer) for older, newer in pairwise(kept)]
    assert all(gap <= max(10, to_end / 20) for gap, to_end in gaps)


def test_what_is_cut_off_inside_a_segment_is_forgotten() -> None:
    """What was copied again goes to where it was copied now, and no further."""
    segments = SegmentMap()
    segments.add(Segment(0, 0, 10, 0), 10)
    segments.add(Segment(5, 5, 2, 5), 7)
    assert segments.to_target(6) == ExactOffset(6)
    assert isinstance(segments.to_target(8), BeyondMap)


def test_what_the_target_lost_is_forgotten_though_the_source_went_on() -> None:
    """As by an answer that passes over what was lost."""
    segments = SegmentMap()
    segments.add(Segment(0, 0, 5, 0), 5)
    segments.add(Segment(10, 5, 5, 5), 15)
    segments.add(Segment(20, 2, 3, 2), 23)
    assert [segments.to_source(target) for target in (1, 2, 4)] == [ExactOffset(1), ExactOffset(20), ExactOffset(22)]
    assert segments.to_target(12) == ExactOffset(2)


def test_numbers_begin_again_at_nothing() -> None:
    """As sequences do; what others wrote between is no record of the flow."""
    segments = SegmentMap()
    segments.add(Segment(0, 0, 2, SEQUENCE_MODULUS - 1), 2)
    segments.add(Segment(5, 7, 1, 1), 6)
    assert segments.to_target(3) == ExactOffset(7)
