"""What a partition's map says of a position, and what is to be read where it says too little. Pure.

``back`` is the way from the remote partition to the source's; else it is the way there.
"""

from __future__ import annotations

from mirror_ray.offsets.segments import BetweenSegments, ExactPosition, SegmentMap
from mirror_ray.offsets.translate import NOTHING_COPIED, Translation


def answer(places: SegmentMap, offset: int, *, back: bool) -> Translation | BetweenSegments:
    """Where a position is on the other side; or the gap in which it is to be looked for.

    Of one that was not copied yet: the end of the copy, not exact.
    """
    if places.empty:
        return Translation(offset=None, reason=NOTHING_COPIED)
    place = places.to_source(offset) if back else places.to_target(offset)
    if isinstance(place, BetweenSegments):
        return place
    if isinstance(place, ExactPosition):
        return Translation(offset=place.offset)
    if back:
        why = f"it stands at {offset} on the target, behind all that was copied, up to {places.head.target}"
        return Translation(offset=None, reason=why)
    # Whoever stands behind the head has read all that was copied: under traffic there is always something more.
    head = places.head
    why = f"it stands at {offset} on the source, the copy at {head.source}"
    return Translation(offset=head.target, exact=False, waits=True, reason=why)


def answer_in_gap(gap: BetweenSegments, inside: SegmentMap, offset: int, *, back: bool) -> Translation:
    """Where a position that lies in a gap is, by the map of the gap."""
    found = inside.to_source(offset) if back else inside.to_target(offset)
    if isinstance(found, ExactPosition):
        return Translation(offset=found.offset)
    return Translation(offset=gap.before.source if back else gap.before.target)


def answer_before_gap(gap: BetweenSegments, why: str, *, back: bool, again: bool = False) -> Translation:
    """The place that can be told of a position in a gap while it is not known what lies there."""
    return Translation(offset=gap.after.source if back else gap.after.target, exact=False, again=again, reason=why)
