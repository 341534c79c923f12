"""Where a group goes on in a remote topic that several of the topics that it reads were copied into. Pure.

One offset has to stand for several. It is the least of their places, so that no record is passed over; what the group
has read already of the other topics behind it is read again. A topic of which the group has read all holds nothing up:
what comes of it is written behind the end of the remote one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from mirror_ray.offsets.translate import Translation

#: Of a checkpoint whose remote topic the map or a pattern names: the source topics, and the group's offset in each.
SOURCES_HEADER: Final = b"mirror-ray.sources"


class Part(NamedTuple):
    """A group's position in one of the source topics."""

    topic: str
    committed: int
    #: By the map of its partition.
    place: Translation
    #: Whether the source holds nothing behind the position, seen after ``end`` of the remote partition was.
    at_end: bool


class Merged(NamedTuple):
    """What holds for all parts; ``offset`` None: a place is not known yet."""

    offset: int | None
    #: The part whose place it is.
    lead: Part
    #: Of each part, as it is shown.
    places: tuple[Translation, ...]


def merge(parts: Sequence[Part], end: int) -> Merged:
    """One offset for all parts; at least one is given.

    Args:
        parts: The group's positions.
        end: Where the remote partition ended, before it was seen which parts are ``at_end``.
    """
    if len(parts) == 1:
        return Merged(parts[0].place.offset, parts[0], (parts[0].place,))
    open_ones = [part for part in parts if _bound(part, end) is None]
    if open_ones:
        lead = open_ones[0]
        why = f"it reads {lead.topic}, too: {lead.place.reason}" if lead.place.reason else f"it reads {lead.topic}, too"
        nowhere = tuple(
            part.place if part in open_ones else Translation(offset=None, waits=True, reason=why) for part in parts
        )
        return Merged(None, lead, nowhere)
    lead = min(parts, key=lambda part: (_bound(part, end), part.topic))
    offset = _bound(lead, end)
    return Merged(offset, lead, tuple(_shown(part, lead, offset or 0) for part in parts))


def _bound(part: Part, end: int) -> int | None:
    """No record that the part has not read is before this offset; None: that can't be told."""
    if part.at_end:
        return max(end, part.place.offset or 0)
    return part.place.offset


def _shown(part: Part, lead: Part, offset: int) -> Translation:
    own = part.place.offset
    if own is None or own <= offset:
        return Translation(offset=offset, exact=part.place.exact, waits=part.place.waits, reason=part.place.reason)
    why = f"it stands before that in {lead.topic}, which is copied into the same topic: up to {own} it reads again"
    return replace(part.place, offset=offset, exact=False, reason=why)


def has_gone_back(before: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Whether a group reads a topic again, or another one than before; nothing ``before``: nobody knows."""
    return bool(before) and any(offset < before.get(topic, offset + 1) for topic, offset in now.items())


def encode_sources(sources: Mapping[str, int]) -> bytes:
    """The header's value."""
    return json.dumps(dict(sources), separators=(",", ":")).encode()


def decode_sources(headers: Sequence[tuple[bytes, bytes | None]]) -> dict[str, int]:
    """The source topics of a checkpoint, and the offsets there; none: the remote topic's name tells."""
    value = dict(headers).get(SOURCES_HEADER)
    try:
        found = json.loads(value) if value else {}
    except ValueError:
        return {}
    return {str(topic): int(offset) for topic, offset in found.items()} if isinstance(found, dict) else {}
