"""A place that a log does not have is none, or the next one that it has."""

from __future__ import annotations

import pytest

from mirror_ray.model.segment import Segment
from mirror_ray.offsets.map import SegmentMap
from mirror_ray.offsets.translation import ReadableBounds, Translation, answer, within


@pytest.mark.parametrize(("offset", "found"), [(4, 5), (5, 5), (7, 7), (9, 9), (10, None), (None, None)])
def test_a_place_is_within_its_log(offset: int | None, found: int | None) -> None:
    """What retention took can't be read; an end that was lost is no place."""
    translation = within(Translation(offset=offset), ReadableBounds(5, 9))
    assert translation.offset == found
    assert (translation.reason is not None) == (offset == 10)


@pytest.mark.parametrize(("offset", "found", "exact"), [(9, 9, True), (10, 10, True), (20, 10, False), (22, 10, False)])
def test_a_preserved_offset_in_a_gap_that_is_not_filled_yet_waits(offset: int, found: int, *, exact: bool) -> None:
    """The source was read up to 22, and has no record to copy from 10 on: where offsets are translated, 10 is exact."""
    segments = SegmentMap()
    segments.add(Segment(0, 0, 10, 0), 22)
    preserved = answer(segments, offset, back=False, preserved=True)
    assert isinstance(preserved, Translation)
    assert (preserved.offset, preserved.exact, preserved.waits) == (found, exact, not exact)
    assert answer(segments, offset, back=False) == Translation(offset=found)
