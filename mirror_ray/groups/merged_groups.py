"""Groups of remote topics that several topics are copied into: brings their positions together, round by round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from mirror_ray.groups.merged_topics import (
    SOURCES_HEADER,
    GroupThere,
    SourcePosition,
    UncommittedTopic,
    decode_sources,
    decode_unsubscribed,
    encode_sources,
    merge,
    not_read,
    unread,
    unsubscribed_header,
)
from mirror_ray.groups.offset_state import GroupOffset, GroupOffsetState, decode_written
from mirror_ray.groups.subscriptions import Subscriptions, first_offsets
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.group_coordinators import GroupCoordinators
from mirror_ray.kafka.leader_requests import LATEST, IsolationLevel
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.flow_maps import FlowMaps, translate_many
from mirror_ray.offsets.translation import LogBounds, Translation, within
from mirror_ray.offsets.translator import log_bounds
from mirror_ray.records.mm2_records import CheckpointRecord

_UNKNOWN = Translation(offset=None, reason="its place is being looked up")
_NOT_ASKED = "the leader of its partition on the source does not answer"
#: So long a round waits for the source to be read for the places of first records; a later one has them.
_READ_WITHIN_S = 1.0
_NO_LOG = LogBounds(-1, -1)
#: Where a log begins whose leader can't be asked.
_NOT_KNOWN = -1


async def read_to_the_end(
    source: ClusterConnections, committed: Collection[tuple[TopicPartition, int]], isolation_level: IsolationLevel
) -> set[tuple[TopicPartition, int]]:
    """Those positions behind which the source holds nothing for the flow; one that can't be asked is left out.

    Raises:
        ClusterUnreachableError: No broker answers.
    """
    if not committed:
        return set()
    ends = await source.list_offsets(dict.fromkeys((each for each, _ in committed), LATEST), isolation_level)
    return {(each, offset) for each, offset in committed if not ends[each].error_code and offset >= ends[each].offset}


class GroupPosition(NamedTuple):
    """A group's, in one source partition, and its place on the target."""

    group: str
    source: TopicPartition
    committed: int
    #: None: it has none.
    target: TopicPartition | None
    translation: Translation
    #: Whether its records were copied from the target, so that others there may be in other topics here.
    back: bool = False
    #: See ``SourcePosition``.
    assumed: str | None = None


async def merge_positions(
    positions: Sequence[GroupPosition],
    logs: Mapping[TopicPartition, LogBounds],
    source: ClusterConnections,
    isolation_level: IsolationLevel,
) -> list[Translation]:
    """The places, where several of one group in one remote partition have the one that holds for all of them.

    ``logs``: of the remote partitions, just asked.

    Raises:
        ClusterUnreachableError: The source does not answer.
    """
    together: dict[GroupThere, list[int]] = defaultdict(list)
    for number, each in enumerate(positions):
        if each.target is not None and each.target in logs:
            together[each.group, each.target].append(number)
    several = {there: numbers for there, numbers in together.items() if len(numbers) > 1}
    # What is at the end of such a topic has read no more of the target than was copied: its place is the place.
    ends = (positions[n] for numbers in several.values() for n in numbers if not positions[n].back)
    asked = {(each.source, each.committed) for each in ends}
    at_end = await read_to_the_end(source, asked, isolation_level)
    places = [each.translation for each in positions]
    for (_, remote), numbers in several.items():
        parts = [_part(positions[n], at_end, logs[remote]) for n in numbers]
        for number, place in zip(numbers, merge(parts, logs[remote].end).places, strict=True):
            places[number] = place
    return places


def _part(position: GroupPosition, at_end: Collection[tuple[TopicPartition, int]], log: LogBounds) -> SourcePosition:
    return SourcePosition(
        topic=position.source.topic,
        committed=position.committed,
        place=position.translation if position.assumed is None else within(position.translation, log),
        at_end=(position.source, position.committed) in at_end,
        assumed=position.assumed,
    )


def _position(there: GroupThere, entry: GroupOffset) -> GroupPosition:
    group, remote = there
    committed = entry.source.offset if entry.source is not None else 0
    return GroupPosition(group, entry.key.partition, committed, remote, entry.translation or _UNKNOWN)


def first_position(left: UncommittedTopic, first: int, place: Translation) -> GroupPosition:
    """The position of a group that has committed none; ``first``: where the log begins, ``place``: where that is."""
    group, remote = left.there
    return GroupPosition(group, left.source, first, remote, place, assumed=left.why)


async def first_places(
    partitions: Collection[TopicPartition], maps: FlowMaps, source: ClusterConnections
) -> dict[TopicPartition, tuple[int, Translation]]:
    """Where the source's logs begin, and where that is on the target, as the maps say it.

    Raises:
        ClusterUnreachableError: No broker answers.
    """
    starts = await first_offsets(source, partitions)
    await maps.refresh(partitions)
    known = {each: remote for each in starts if (remote := maps.remote_partition(each)) is not None}
    translations = await translate_many([(remote, starts[each]) for each, remote in known.items()], _READ_WITHIN_S)
    found = dict.fromkeys(partitions, (_NOT_KNOWN, Translation(offset=None, reason=_NOT_ASKED)))
    return found | {each: (starts[each], place) for each, place in zip(known, translations, strict=True)}


class MergedGroups:
    """Keeps the one entry that stands for all of a group's topics in such a remote partition."""

    def __init__(
        self,
        book: GroupOffsetState,
        maps: FlowMaps,
        source: ClusterConnections,
        target: ClusterConnections,
        isolation_level: IsolationLevel,
    ) -> None:
        self._book, self._maps = book, maps
        self._source, self._target, self._isolation_level = source, target, isolation_level
        self._members = Subscriptions(GroupCoordinators(source))

    async def merge_sides(self, kinds: Mapping[str, str]) -> None:
        """After every group's positions were translated. ``kinds``: of the groups on the source, see ``ListedGroup``.

        Raises:
            OSError, MirrorError: A cluster can't be asked now; what it was for stays as it was.
        """
        if not self._maps.rules.names:
            return
        found = self._committed()
        positions = {there: [_position(there, entry) for entry in entries] for there, entries in found.items()}
        unsubscribed = await self._add_unread(positions, kinds)
        several = {there: each for there, each in positions.items() if len(each) > 1}
        ends = await log_bounds(self._target, {remote for _, remote in several})
        asked = {(each.source, each.committed) for every in several.values() for each in every}
        at_end = await read_to_the_end(self._source, asked, self._isolation_level)
        for there, entries in found.items():
            log = ends.get(there[1], _NO_LOG)
            if there not in several or log != _NO_LOG:
                parts = [_part(each, at_end, log) for each in positions[there]]
                self._take(there, entries, parts, log.end, unsubscribed[there])
        self._book.drop_merged(found.keys())

    def _committed(self) -> dict[GroupThere, list[GroupOffset]]:
        found: dict[GroupThere, list[GroupOffset]] = {}
        for group, entries in self._book.groups.items():
            for partition, entry in sorted(entries.items()):
                route = self._maps.remote_partition(partition) if entry.source is not None else None
                if route is not None and route.merges:
                    found.setdefault((group, route.remote), []).append(entry)
        return found

    async def _add_unread(
        self, positions: Mapping[GroupThere, list[GroupPosition]], kinds: Mapping[str, str]
    ) -> dict[GroupThere, frozenset[str]]:
        """Add what groups may have to read from its first record on; returns the topics that they don't read."""
        merged_from = {remote: self._maps.merged_from(remote) for _, remote in positions}
        topics = {there: {each.source.topic for each in every} for there, every in positions.items()}
        others = {
            there: [each for each in merged_from[there[1]] if each.topic not in topics[there]] for there in positions
        }
        described = {group: kinds.get(group, "") for (group, _), each in others.items() if each}
        subscriptions = await self._members.look(described)
        unsubscribed = {
            there: not_read(subscriptions.get(there[0]), each, self._book.merged_entry(*there).unsubscribed)
            for there, each in others.items()
        }
        left = list(unread(topics, merged_from, subscriptions, unsubscribed))
        places = await first_places({each.source for each in left}, self._maps, self._source)
        for each in left:
            positions[each.there].append(first_position(each, *places[each.source]))
        return unsubscribed

    def _take(
        self,
        there: GroupThere,
        entries: Sequence[GroupOffset],
        parts: Sequence[SourcePosition],
        end: int,
        unsubscribed: frozenset[str],
    ) -> None:
        merged = merge(parts, end)
        # What stands behind the entries are positions that the group has not committed.
        for entry, place in zip(entries, merged.places, strict=False):
            entry.shown = place
        number = parts.index(merged.lead)
        before = self._book.merged_entry(*there).sources
        sources = {
            part.topic: part.committed if part.committed != _NOT_KNOWN else before.get(part.topic, _NOT_KNOWN)
            for part in parts
        }
        lead = entries[number].source if number < len(entries) else None
        self._book.merge(
            *there,
            lead or CommittedOffset(merged.lead.committed),
            merged.places[number],
            sources,
            unsubscribed=unsubscribed,
        )

    def remember(self, checkpoint: CheckpointRecord, headers: tuple[tuple[bytes, bytes | None], ...]) -> None:
        """Take a checkpoint that somebody else emitted, by what it says or its topic's name says of its source."""
        written, sources, remote = decode_written(checkpoint, headers), decode_sources(headers), checkpoint.partition
        rules = self._maps.rules
        if rules.is_routed_to(remote.topic) or (rules.flow.route and remote.topic != rules.flow.route):
            # Of the same group, by the flow itself or by another route of it.
            return
        if rules.merges(remote.topic):
            self._book.remember_merged(checkpoint, written, sources, decode_unsubscribed(headers))
            return
        named = next(iter(sources), None)
        partition = TopicPartition(named, remote.partition) if named else self._maps.source_of(remote)
        if partition is not None:
            self._book.remember(partition, checkpoint, written)

    def remote_of(self, entry: GroupOffset) -> TopicPartition | None:
        """The partition on the target where an entry's group is to stand; None: nowhere, or another stands for it."""
        route = self._maps.remote_partition(entry.key.partition) if entry.merged is None else None
        if route is not None:
            return None if route.merges else route.remote
        return entry.merged

    def sources_of(self, entry: GroupOffset) -> tuple[tuple[bytes, bytes], ...]:
        """The headers that say where a checkpoint's remote topic came from, where its name does not tell."""
        sources: Mapping[str, int] = entry.sources
        if entry.merged is None and entry.source is not None:
            route = self._maps.remote_partition(entry.key.partition)
            sources = {entry.key.partition.topic: entry.source.offset} if route is not None and route.named else {}
        told = ((SOURCES_HEADER, encode_sources(sources)),) if sources else ()
        return (*told, *unsubscribed_header(entry.unsubscribed))
