"""Where a flow and its routes have to stop so that none of them is ahead of another. Pure.

What transforms say of a record decides in which topic it is, so they may change only where all of these have come to
the same source offset: before it the earlier ones hold for all, behind it the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirror_ray.model.names import TopicPartition

#: Source offsets that one of them has reached, by partition; None: it has not begun, and can't now.
Positions = Mapping[TopicPartition, int | None]


def stops(family: Sequence[Positions]) -> list[dict[TopicPartition, int]]:
    """How far each has still to copy, by partition; one that has not begun is waited for by none.

    ``family``: the flow, and then its routes, each with those of the flow's partitions that it has, too.
    """
    furthest = _furthest(family)
    return [
        {each: furthest[each] for each, at in positions.items() if each in furthest and at != furthest[each]}
        for positions in family
    ]


def aligned(family: Sequence[Positions]) -> dict[TopicPartition, int]:
    """The partitions at the same source offset in all that have them, each with that offset."""
    return {
        each: offset
        for each, offset in _furthest(family).items()
        if all(positions.get(each, offset) == offset for positions in family)
    }


def _furthest(family: Sequence[Positions]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for each, at in family[0].items():
        known = [at, *(positions[each] for positions in family[1:] if each in positions)]
        offsets = [offset for offset in known if offset is not None]
        if len(offsets) == len(known):
            found[each] = max(offsets)
    return found
