"""Where a group goes on in a remote topic that several of the topics that it reads were copied into. Pure.

One offset has to stand for several. It is the least of their places, so that no record is passed over; what the group
has read already of the other topics behind it is read again. A topic of which the group has read all holds nothing up:
what comes of it is written behind the end of the remote one.

A topic in which the group has committed nothing holds it up, too, from that topic's first record on: where it would
begin there, its ``auto.offset.reset`` alone says. It counts for nothing only where the group's members were seen not to
read it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from mirror_ray.model.names import TopicPartition
from mirror_ray.model.subscription import Subscription
from mirror_ray.offsets.translation import Translation

#: Of a checkpoint whose remote topic the map or a pattern names: the source topics, and the group's offset in each.
SOURCES_HEADER: Final = b"mirror-ray.sources"
#: Of such a checkpoint: the other topics that are merged there, and that the group does not read.
UNSUBSCRIBED_HEADER: Final = b"mirror-ray.unsubscribed"

#: A group, and a remote partition of several topics.
GroupThere = tuple[str, TopicPartition]


class SourcePosition(NamedTuple):
    """A group's position in one of the source topics."""

    topic: str
    committed: int
    #: By the map of its partition.
    place: Translation
    #: Whether the source holds nothing behind the position, seen after ``end`` of the remote partition was.
    at_end: bool
    #: Why the group's position there is the first record that there is; None: it has committed one.
    assumed: str | None = None


class UncommittedTopic(NamedTuple):
    """A partition that is copied into the same remote one, and in which a group has committed nothing."""

    there: GroupThere
    source: TopicPartition
    #: Why it counts.
    why: str


def unread(
    committed: Mapping[GroupThere, Collection[str]],
    merged_from: Mapping[TopicPartition, Collection[TopicPartition]],
    subscriptions: Mapping[str, Subscription],
    unsubscribed: Mapping[GroupThere, Collection[str]],
) -> Iterator[UncommittedTopic]:
    """Yield the partitions that groups may yet have to read from their first record on.

    Args:
        committed: The topics in which each group has committed, of those that are merged there.
        merged_from: What is copied into each remote partition.
        subscriptions: What the members of groups read, of groups that have some.
        unsubscribed: Topics that each group's members did not read when they were last seen.
    """
    for there, topics in committed.items():
        group, remote = there
        subscription = subscriptions.get(group)
        for source in merged_from.get(remote, ()):
            if source.topic in topics:
                continue
            where = f"{source.topic}, which is copied into the same topic"
            if subscription is None and source.topic not in unsubscribed.get(there, ()):
                why = f"no members were seen that tell whether it reads {where}, and it has committed nothing there"
                yield UncommittedTopic(there, source, why)
            elif subscription is not None and subscription.covers(source.topic):
                yield UncommittedTopic(there, source, f"it reads {where}, and has committed nothing there")


def not_read(
    subscription: Subscription | None, others: Collection[TopicPartition], before: Collection[str]
) -> frozenset[str]:
    """Of the topics in which a group has committed nothing those that its members don't read, as far as was seen."""
    topics = {each.topic for each in others}
    if subscription is None:
        return frozenset(topics.intersection(before))
    return frozenset(topic for topic in topics if not subscription.covers(topic))


class MergedOffset(NamedTuple):
    """What holds for all parts; ``offset`` None: a place is not known yet."""

    offset: int | None
    #: The part whose place it is.
    lead: SourcePosition
    #: Of each part, as it is shown.
    places: tuple[Translation, ...]


def merge(parts: Sequence[SourcePosition], end: int) -> MergedOffset:
    """One offset for all parts; at least one is given.

    Args:
        parts: The group's positions.
        end: Where the remote partition ended, before it was seen which parts are ``at_end``.
    """
    if len(parts) == 1:
        return MergedOffset(parts[0].place.offset, parts[0], (parts[0].place,))
    open_ones = [part for part in parts if _bound(part, end) is None]
    if open_ones:
        lead = open_ones[0]
        why = lead.assumed or f"it reads {lead.topic}, too"
        why = f"{why}: {lead.place.reason}" if lead.place.reason else why
        nowhere = tuple(
            part.place if part in open_ones else Translation(offset=None, waits=True, reason=why) for part in parts
        )
        return MergedOffset(None, lead, nowhere)
    lead = min(parts, key=lambda part: (_bound(part, end), part.topic))
    offset = _bound(lead, end)
    return MergedOffset(offset, lead, tuple(_shown(part, lead, offset or 0) for part in parts))


def _bound(part: SourcePosition, end: int) -> int | None:
    """No record that the part has not read is before this offset; None: that can't be told."""
    if part.at_end:
        return max(end, part.place.offset or 0)
    return part.place.offset


def _shown(part: SourcePosition, lead: SourcePosition, offset: int) -> Translation:
    own = part.place.offset
    if part.assumed is not None:
        return Translation(offset=offset, exact=False, reason=part.assumed)
    if own is None or own <= offset:
        return Translation(offset=offset, exact=part.place.exact, waits=part.place.waits, reason=part.place.reason)
    if lead.assumed is not None:
        why = f"{lead.assumed}: up to {own} it may read again"
    else:
        why = f"it stands before that in {lead.topic}, which is copied into the same topic: up to {own} it reads again"
    return replace(part.place, offset=offset, exact=False, reason=why)


def has_gone_back(before: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Whether a group reads a topic again, or another one than before; nothing ``before``: nobody knows."""
    return bool(before) and any(offset < before.get(topic, offset + 1) for topic, offset in now.items())


def encode_sources(sources: Mapping[str, int]) -> bytes:
    """The header's value."""
    return json.dumps(dict(sources), separators=(",", ":")).encode()


def unsubscribed_header(topics: Collection[str]) -> tuple[tuple[bytes, bytes], ...]:
    """The header of a checkpoint whose group does not read these topics."""
    return ((UNSUBSCRIBED_HEADER, json.dumps(sorted(topics), separators=(",", ":")).encode()),) if topics else ()


def decode_unsubscribed(headers: Sequence[tuple[bytes, bytes | None]]) -> frozenset[str]:
    """The topics that a checkpoint says its group does not read."""
    value = dict(headers).get(UNSUBSCRIBED_HEADER)
    try:
        found = json.loads(value) if value else []
    except ValueError:
        return frozenset()
    return frozenset(map(str, found)) if isinstance(found, list) else frozenset()


def decode_sources(headers: Sequence[tuple[bytes, bytes | None]]) -> dict[str, int]:
    """The source topics of a checkpoint, and the offsets there; none: the remote topic's name tells."""
    value = dict(headers).get(SOURCES_HEADER)
    try:
        found = json.loads(value) if value else {}
    except ValueError:
        return {}
    return {str(topic): int(offset) for topic, offset in found.items()} if isinstance(found, dict) else {}
