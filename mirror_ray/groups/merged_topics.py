"""One offset for a group in a remote topic that several of the topics that it reads are copied into.

It is the least of their translated offsets, so that no record is passed over; records of the other topics behind it
that the group has read already are read again. A topic that the group has read to its end holds nothing up: its new
records are written behind the end of the remote one.

A topic in which the group has committed nothing holds it up, too, from that topic's first record on: where it would
begin there, its ``auto.offset.reset`` alone says. It counts for nothing only where the group's members are known not to
read it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from mirror_ray.model.names import TopicPartition
from mirror_ray.model.subscription import Subscription
from mirror_ray.offsets.translation import Translation

#: A group, and a remote partition of several topics.
GroupRemote = tuple[str, TopicPartition]


class MergedPart(NamedTuple):
    """A group's offset in one of the source topics."""

    topic: str
    committed: int
    #: By the map of its partition.
    translation: Translation
    #: Whether the source holds nothing behind the offset, as read after ``end`` of the remote partition was.
    at_end: bool
    #: Why the group's offset there is the first one that there is; None: it has committed one.
    assumed: str | None = None


class UncommittedTopic(NamedTuple):
    """A partition that is copied into the same remote one, and in which a group has committed nothing."""

    group: str
    remote: TopicPartition
    source: TopicPartition
    #: Why it counts.
    why: str


def uncommitted_topics(
    committed: Mapping[GroupRemote, Collection[str]],
    merged_from: Mapping[TopicPartition, Collection[TopicPartition]],
    subscriptions: Mapping[str, Subscription],
    unsubscribed: Mapping[GroupRemote, Collection[str]],
) -> Iterator[UncommittedTopic]:
    """Yield the partitions that groups may yet have to read from their first record on.

    Args:
        committed: The topics in which each group has committed, of those that are merged there.
        merged_from: What is copied into each remote partition.
        subscriptions: What the members of groups read, of groups that have some.
        unsubscribed: Topics that each group's members did not read when they were last described.
    """
    for (group, remote), topics in committed.items():
        subscription = subscriptions.get(group)
        for source in merged_from.get(remote, ()):
            if source.topic in topics:
                continue
            which = f"{source.topic}, which is copied into the same topic"
            if subscription is None and source.topic not in unsubscribed.get((group, remote), ()):
                why = f"no members were seen that tell whether it reads {which}, and it has committed nothing there"
                yield UncommittedTopic(group, remote, source, why)
            elif subscription is not None and subscription.covers(source.topic):
                why = f"it reads {which}, and has committed nothing there"
                yield UncommittedTopic(group, remote, source, why)


def unsubscribed_topics(
    subscription: Subscription | None, others: Collection[TopicPartition], before: Collection[str]
) -> frozenset[str]:
    """The topics among ``others`` that a group's members don't read; without members those of them in ``before``."""
    topics = {partition.topic for partition in others}
    if subscription is None:
        return frozenset(topics.intersection(before))
    return frozenset(topic for topic in topics if not subscription.covers(topic))


class MergedOffset(NamedTuple):
    """The offset for all parts; ``offset`` None: one of them is not known yet."""

    offset: int | None
    #: The part whose offset it is.
    lead: MergedPart
    #: Of each part, as status has it.
    translations: tuple[Translation, ...]


def merge(parts: Sequence[MergedPart], end: int) -> MergedOffset:
    """One offset for all parts, of which there is one at least.

    ``end``: where the remote partition ended, before it was known which parts are ``at_end``.
    """
    if len(parts) == 1:
        return MergedOffset(parts[0].translation.offset, parts[0], (parts[0].translation,))
    unknown = [part for part in parts if _bound(part, end) is None]
    if unknown:
        lead = unknown[0]
        why = lead.assumed or f"it reads {lead.topic}, too"
        why = f"{why}: {lead.translation.reason}" if lead.translation.reason else why
        waiting = Translation(offset=None, waits=True, reason=why)
        translations = tuple(part.translation if part in unknown else waiting for part in parts)
        return MergedOffset(None, lead, translations)
    lead = min(parts, key=lambda part: (_bound(part, end), part.topic))
    offset = _bound(lead, end)
    return MergedOffset(offset, lead, tuple(_shown(part, lead, offset or 0) for part in parts))


def _bound(part: MergedPart, end: int) -> int | None:
    """No record that was not read of the part is before this offset; None: that is not known."""
    if part.at_end:
        return max(end, part.translation.offset or 0)
    return part.translation.offset


def _shown(part: MergedPart, lead: MergedPart, offset: int) -> Translation:
    translation = part.translation
    own = translation.offset
    if part.assumed is not None:
        return Translation(offset=offset, exact=False, reason=part.assumed)
    if own is None or own <= offset:
        return Translation(offset=offset, exact=translation.exact, waits=translation.waits, reason=translation.reason)
    if lead.assumed is not None:
        why = f"{lead.assumed}: up to {own} it may read again"
    else:
        why = f"it stands before that in {lead.topic}, which is copied into the same topic: up to {own} it reads again"
    return replace(translation, offset=offset, exact=False, reason=why)
