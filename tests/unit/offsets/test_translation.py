"""A place that a log does not have is none, or the next one that it has."""

from __future__ import annotations

import pytest

from mirror_ray.offsets.translation import ReadableBounds, Translation, within


@pytest.mark.parametrize(("offset", "found"), [(4, 5), (5, 5), (7, 7), (9, 9), (10, None), (None, None)])
def test_a_place_is_within_its_log(offset: int | None, found: int | None) -> None:
    """What retention took can't be read; an end that was lost is no place."""
    translation = within(Translation(offset=offset), ReadableBounds(5, 9))
    assert translation.offset == found
    assert (translation.reason is not None) == (offset == 10)
