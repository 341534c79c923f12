"""Merges the offsets of groups in remote topics that several topics are copied into, by what the clusters hold."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from mirror_ray.groups.checkpoints import GroupCheckpoint
from mirror_ray.groups.merged_topics import (
    GroupRemote,
    MergedPart,
    UncommittedTopic,
    merge,
    uncommitted_topics,
    unsubscribed_topics,
)
from mirror_ray.groups.offset_state import GroupOffset, GroupOffsetState
from mirror_ray.groups.translated_offset import TranslatedOffset
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.group_coordinators import GroupCoordinators
from mirror_ray.kafka.group_listing import describe_members
from mirror_ray.kafka.leader_requests import EARLIEST, LATEST, IsolationLevel
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.subscription import Subscription
from mirror_ray.offsets.flow_maps import FlowMaps, FlowTranslator, translate_many
from mirror_ray.offsets.log_bounds import log_bounds
from mirror_ray.offsets.translation import ReadableBounds, Translation, within

_UNKNOWN: Final = Translation(offset=None, reason="its place is being looked up")
_NO_ANSWER: Final = Translation(offset=None, reason="the leader of its partition on the source does not answer")
#: How long the source is read for the translation of first offsets; a later round has it.
_READ_WITHIN_S: Final = 1.0
_NO_LOG: Final = ReadableBounds(-1, -1)
#: The first offset of a log whose leader does not answer.
_NOT_KNOWN: Final = -1
#: A group's members are described again after so long.
_DESCRIBE_AGAIN_S: Final = 10.0


class GroupReads(NamedTuple):
    """What is known of the topics that groups read."""

    subscriptions: Mapping[str, Subscription]
    unsubscribed: Mapping[GroupRemote, Collection[str]]


#: Nothing is known of any group.
NOT_KNOWN: Final = GroupReads({}, {})


async def first_offsets(
    source: ClusterConnections, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Where the logs of partitions start; those whose leader does not answer are left out."""
    if not partitions:
        return {}
    starts = await source.list_offsets(dict.fromkeys(partitions, EARLIEST), "read_uncommitted")
    return {partition: answer.offset for partition, answer in starts.items() if not answer.error_code}


async def first_uncommitted(
    maps: FlowTranslator,
    source: ClusterConnections,
    committed: Mapping[GroupRemote, Collection[str]],
    reads: GroupReads,
) -> dict[UncommittedTopic, int]:
    """What groups may yet have to read of topics that are merged, with the first offset of each.

    ``committed``: the topics in which each group has committed, of those that are merged there.
    """
    merged_from = {remote: maps.merged_from(remote) for _, remote in committed}
    found = list(uncommitted_topics(committed, merged_from, reads.subscriptions, reads.unsubscribed))
    starts = await first_offsets(source, {topic.source for topic in found})
    # A log whose start can't be asked begins at its first record, wherever that is now.
    return {topic: starts.get(topic.source, 0) for topic in found}


async def first_translations(
    partitions: Collection[TopicPartition], maps: FlowMaps, source: ClusterConnections
) -> dict[TopicPartition, tuple[int, Translation]]:
    """Where the source's logs start, and the translations of that."""
    starts = await first_offsets(source, partitions)
    await maps.refresh(partitions)
    remotes = {partition: remote for partition in starts if (remote := maps.remote_partition(partition)) is not None}
    asked = [(remote, starts[partition]) for partition, remote in remotes.items()]
    translations = await translate_many(asked, _READ_WITHIN_S)
    found = dict.fromkeys(partitions, (_NOT_KNOWN, _NO_ANSWER))
    return found | {
        partition: (starts[partition], translation)
        for partition, translation in zip(remotes, translations, strict=True)
    }


async def at_log_end(
    source: ClusterConnections, committed: Collection[tuple[TopicPartition, int]], isolation_level: IsolationLevel
) -> set[tuple[TopicPartition, int]]:
    """The offsets behind which the source holds nothing for the flow; without those whose leader does not answer."""
    if not committed:
        return set()
    ends = await source.list_offsets(dict.fromkeys((partition for partition, _ in committed), LATEST), isolation_level)
    return {
        (partition, offset)
        for partition, offset in committed
        if not ends[partition].error_code and offset >= ends[partition].offset
    }


async def merge_translated(
    offsets: Sequence[TranslatedOffset],
    logs: Mapping[TopicPartition, ReadableBounds],
    source: ClusterConnections,
    isolation_level: IsolationLevel,
) -> list[TranslatedOffset]:
    """The same offsets; where several are of one group in one remote partition they have one translation.

    ``logs``: of the remote partitions, just asked.
    """
    together: dict[GroupRemote, list[int]] = defaultdict(list)
    for number, offset in enumerate(offsets):
        if offset.destination is not None and offset.destination in logs:
            together[offset.group, offset.destination].append(number)
    several = {remote: numbers for remote, numbers in together.items() if len(numbers) > 1}
    # A group at the end of a topic that came back has read no more of the other side than was copied.
    asked = {_committed(offsets[n]) for numbers in several.values() for n in numbers if not offsets[n].back}
    at_end = await at_log_end(source, asked, isolation_level)
    found = list(offsets)
    for (_, remote), numbers in several.items():
        parts = [_part(offsets[n], at_end, logs[remote]) for n in numbers]
        for number, translation in zip(numbers, merge(parts, logs[remote].end).translations, strict=True):
            found[number] = replace(offsets[number], translation=translation)
    return found


def _committed(offset: TranslatedOffset) -> tuple[TopicPartition, int]:
    return offset.origin, offset.origin_offset or 0


def _part(offset: TranslatedOffset, at_end: Collection[tuple[TopicPartition, int]], log: ReadableBounds) -> MergedPart:
    return MergedPart(
        topic=offset.origin.topic,
        committed=offset.origin_offset or 0,
        translation=offset.translation if offset.assumed is None else within(offset.translation, log),
        at_end=_committed(offset) in at_end,
        assumed=offset.assumed,
    )


class MergedGroups:
    """Keeps the one entry of the state that stands for all of a group's topics in such a remote partition."""

    def __init__(
        self,
        state: GroupOffsetState,
        maps: FlowMaps,
        source: ClusterConnections,
        target: ClusterConnections,
        isolation_level: IsolationLevel,
    ) -> None:
        self._state, self._maps = state, maps
        self._source, self._target, self._isolation_level = source, target, isolation_level
        self._coordinators = GroupCoordinators(source)
        self._subscriptions: dict[str, Subscription] = {}
        self._described_s: dict[str, float] = {}

    async def merge(self, kinds: Mapping[str, str]) -> None:
        """Merge, after every group's offsets were translated. ``kinds``: of the groups on the source.

        Raises:
            OSError, MirrorError: A cluster can't be asked now; what it was for stays as it was.
        """
        if not self._maps.rules.names:
            return
        entries = self._entries()
        offsets = {remote: [_translated(remote, entry) for entry in found] for remote, found in entries.items()}
        unsubscribed = await self._add_uncommitted(offsets, kinds)
        several = {remote: found for remote, found in offsets.items() if len(found) > 1}
        logs = await log_bounds(self._target, {remote for _, remote in several})
        asked = {_committed(offset) for found in several.values() for offset in found}
        at_end = await at_log_end(self._source, asked, self._isolation_level)
        for remote, found in offsets.items():
            log = logs.get(remote[1], _NO_LOG)
            if remote not in several or log != _NO_LOG:
                parts = [_part(offset, at_end, log) for offset in found]
                self._take(remote, entries[remote], parts, log.end, unsubscribed[remote])
        self._state.keep_merged(entries.keys())

    def _entries(self) -> dict[GroupRemote, list[GroupOffset]]:
        found: dict[GroupRemote, list[GroupOffset]] = {}
        for group, entries in self._state.groups.items():
            for partition, entry in sorted(entries.items()):
                remote = self._maps.remote_partition(partition) if entry.source is not None else None
                if remote is not None and remote.merges:
                    found.setdefault((group, remote.remote), []).append(entry)
        return found

    async def _add_uncommitted(
        self, offsets: Mapping[GroupRemote, list[TranslatedOffset]], kinds: Mapping[str, str]
    ) -> dict[GroupRemote, frozenset[str]]:
        """Add what groups may have to read from its first record on; returns the topics that they don't read."""
        merged_from = {remote: self._maps.merged_from(remote) for _, remote in offsets}
        topics = {remote: {offset.origin.topic for offset in found} for remote, found in offsets.items()}
        others = {
            remote: [partition for partition in merged_from[remote[1]] if partition.topic not in topics[remote]]
            for remote in offsets
        }
        subscriptions = await self._describe(
            {group: kinds.get(group, "") for (group, _), found in others.items() if found}
        )
        unsubscribed = {
            remote: unsubscribed_topics(
                subscriptions.get(remote[0]), found, self._state.merged_entry(*remote).unsubscribed
            )
            for remote, found in others.items()
        }
        uncommitted = list(uncommitted_topics(topics, merged_from, subscriptions, unsubscribed))
        first = await first_translations({topic.source for topic in uncommitted}, self._maps, self._source)
        for topic in uncommitted:
            offset, translation = first[topic.source]
            offsets[topic.group, topic.remote].append(assumed_offset(topic, offset, translation))
        return unsubscribed

    async def _describe(self, kinds: Mapping[str, str]) -> Mapping[str, Subscription]:
        """What the members of these groups read, of those whose members say it; some seconds old at most."""
        now_s = time.monotonic()
        late = {group for group, at_s in self._described_s.items() if now_s - at_s > _DESCRIBE_AGAIN_S}
        due = {group: kind for group, kind in kinds.items() if group in late or group not in self._described_s}
        found = await describe_members(self._coordinators, due)
        kept = {group: known for group, known in self._subscriptions.items() if group in kinds and group not in due}
        self._subscriptions = kept | found
        asked = {group: self._described_s[group] for group in self._described_s.keys() & kinds.keys()}
        self._described_s = asked | dict.fromkeys(due, now_s)
        return self._subscriptions

    def _take(
        self,
        remote: GroupRemote,
        entries: Sequence[GroupOffset],
        parts: Sequence[MergedPart],
        end: int,
        unsubscribed: frozenset[str],
    ) -> None:
        merged = merge(parts, end)
        # Behind the entries' parts come those of topics in which the group has committed nothing.
        for entry, translation in zip(entries, merged.translations, strict=False):
            entry.shown = translation
        number = parts.index(merged.lead)
        before = self._state.merged_entry(*remote).sources
        sources = {
            part.topic: part.committed if part.committed != _NOT_KNOWN else before.get(part.topic, _NOT_KNOWN)
            for part in parts
        }
        lead = entries[number].source if number < len(entries) else None
        self._state.merge(
            *remote,
            lead or CommittedOffset(merged.lead.committed),
            merged.translations[number],
            sources,
            unsubscribed=unsubscribed,
        )

    def restore(self, found: GroupCheckpoint) -> None:
        """Take a checkpoint that somebody else emitted, by what it or its topic's name says of its source."""
        checkpoint, rules = found.checkpoint, self._maps.rules
        remote = checkpoint.partition
        if rules.is_routed_to(remote.topic) or (rules.flow.route and remote.topic != rules.flow.route):
            # Of the same group, by the flow itself or by another route of it.
            return
        if rules.merges(remote.topic):
            self._state.restore_merged(checkpoint, found.written, found.sources, found.unsubscribed)
            return
        named = next(iter(found.sources), None)
        partition = TopicPartition(named, remote.partition) if named else self._maps.source_of(remote)
        if partition is not None:
            self._state.restore(partition, checkpoint, found.written)

    def remote_of(self, entry: GroupOffset) -> TopicPartition | None:
        """The partition on the target where to commit for an entry; None: nowhere, or another entry stands for it."""
        remote = self._maps.remote_partition(entry.key.partition) if entry.merged is None else None
        if remote is not None:
            return None if remote.merges else remote.remote
        return entry.merged

    def sources_of(self, entry: GroupOffset) -> Mapping[str, int]:
        """The source offsets of an entry by topic, where the remote topic's name does not tell its source."""
        if entry.merged is not None or entry.source is None:
            return entry.sources
        remote = self._maps.remote_partition(entry.key.partition)
        return {entry.key.partition.topic: entry.source.offset} if remote is not None and remote.named else {}


def _translated(remote: GroupRemote, entry: GroupOffset) -> TranslatedOffset:
    return TranslatedOffset(
        group=remote[0],
        origin=entry.key.partition,
        origin_offset=entry.source.offset if entry.source is not None else 0,
        destination=remote[1],
        translation=entry.translation or _UNKNOWN,
    )


def assumed_offset(topic: UncommittedTopic, first: int, translation: Translation) -> TranslatedOffset:
    """The offset of a group that has committed none; ``first``: where the log starts, and its translation."""
    return TranslatedOffset(
        group=topic.group,
        origin=topic.source,
        origin_offset=first,
        destination=topic.remote,
        translation=translation,
        assumed=topic.why,
    )
