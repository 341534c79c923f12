"""Carries a flow's consumer groups over: reads where they stand, says where that is, and puts them there.

A round reads all groups' offsets on the source (what has not changed costs next to nothing), translates what is new,
emits checkpoints, and commits on the target what ``group_sync`` allows. Every round begins where the last one ended, so
one that breaks off is made up for by the next.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from mirror_ray.config.settings import FlowSettings
from mirror_ray.groups.commit_history_topic import HistoryWriter
from mirror_ray.groups.merged_groups import MergedGroups
from mirror_ray.groups.offset_state import (
    ACTIVE,
    WRITER_HEADER,
    WRITTEN_HEADER,
    GroupOffset,
    GroupOffsetState,
    encode_written,
)
from mirror_ray.groups.source_groups import SourceGroups
from mirror_ray.groups.status import group_statuses
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import ErrorInfo
from mirror_ray.kafka.group_coordinators import GroupCoordinators
from mirror_ray.kafka.group_listing import GroupListing, ListedGroup, list_groups
from mirror_ray.kafka.group_offsets import ACTIVE as GROUP_ACTIVE
from mirror_ray.kafka.group_offsets import OffsetReader, commit_offsets
from mirror_ray.kafka.internal_topic_reader import InternalTopicReader
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.model.errors import CorruptRecordError
from mirror_ray.model.names import TopicPartition
from mirror_ray.observe.groups import GroupStatus
from mirror_ray.offsets.flow_maps import FlowMaps, translate_many
from mirror_ray.offsets.translation import Translation, within
from mirror_ray.offsets.translator import log_bounds
from mirror_ray.records.mm2_records import CheckpointRecord

log = logging.getLogger(__name__)

#: So often every group's offset on the target is compared anew: somebody may have deleted it, or it expired.
_RECHECK_S: Final = 60.0
#: So long a round waits for the source to be read for places that the maps have forgotten; the next one has them.
_READ_WITHIN_S: Final = 1.0
#: States of groups without members; "" where the broker does not say.
_WITHOUT_MEMBERS: Final = frozenset({"", "Empty", "Dead"})
_NOT_COPIED: Final = "this flow does not copy the topic"


@dataclass(slots=True)
class _Clock:
    """When what was done last, in monotonic seconds."""

    synced_s: float = float("-inf")
    compared_s: float = float("-inf")


@dataclass(slots=True)
class _TargetGroups:
    """Groups on the target."""

    coordinators: GroupCoordinators
    reader: OffsetReader = field(init=False)
    listing: GroupListing | None = None

    def __post_init__(self) -> None:
        self.reader = OffsetReader(self.coordinators)


class GroupOffsetSync:
    """One flow's groups, or of them those that ``mine`` accepts. Call ``begin`` once, then ``round`` again and again.

    Attributes:
        book: Where every group stands.
        problems: What could not be asked in the last round, by group; "" stands for the cluster.
    """

    def __init__(
        self,
        flow: FlowSettings,
        source: ClusterConnections,
        target: ClusterConnections,
        maps: FlowMaps,
        trail: AuditLog,
        *,
        mine: Callable[[str], bool] = lambda _: True,
        history: HistoryWriter | None = None,
    ) -> None:
        """``trail``: keeps what is committed. ``history``: writes down what groups have committed, round by round."""
        self._trail = trail
        self.book = GroupOffsetState()
        self.problems: dict[str, str] = {}
        self._flow, self._maps, self._mine, self._history = flow, maps, mine, history
        self._target = target
        # A route has nothing to do with other topics, of which the flow itself tells.
        covers = {} if flow.route is None else {"covers": maps.rules.should_replicate_topic}
        self._there = SourceGroups(flow.groups, source, mine, **covers)
        self._here = _TargetGroups(GroupCoordinators(target))
        topic = maps.rules.policy.checkpoints_topic(flow.name.source)
        self._merged = MergedGroups(self.book, maps, source, target, flow.fetch.isolation_level)
        self._reader, self._writer = InternalTopicReader(target, topic), InternalTopicWriter(target, topic)
        self._clock = _Clock()
        self._id = uuid.uuid4().bytes
        self._on_target: dict[str, dict[TopicPartition, int]] = {}

    async def begin(self) -> None:
        """Read the maps, and the checkpoints of earlier lives.

        Raises:
            OSError, MirrorError: They can't be read now.
        """
        await self._maps.ready()
        await self._learn()

    def hurry(self) -> None:
        """Do all that there is to do in the next round, whatever the intervals are."""
        self._clock = _Clock()
        self._there.hurry()

    async def look(self) -> None:
        """See where groups stand on the source, and write that into the history.

        Raises:
            OSError, MirrorError: The source can't be used now.
        """
        await self._there.look(self.book)
        if self._history is not None:
            await self._history.write(self.book, self._there.problems)

    async def round(self) -> None:
        """One round. What could not be done is done by a later one.

        Raises:
            OSError, MirrorError: A cluster, or the checkpoints topic, can't be used now.
        """
        self.problems.clear()
        await self._learn()
        await self.look()
        self.problems |= self._there.problems
        await self._translate()
        await self._merged.merge_sides({name: each.kind for name, each in self._listed().items()})
        now_s = time.monotonic()
        writes: dict[str, dict[TopicPartition, GroupOffset]] = {}
        groups = self._flow.groups
        if groups.sync_offsets_enabled and now_s - self._clock.synced_s >= groups.sync_offsets_interval_s:
            self._clock.synced_s = now_s
            writes = await self._compare(now_s)
        await self._emit()
        await self._write(writes)

    def statuses(self) -> Iterator[GroupStatus]:
        """Yield where every group stands, by name."""

        def remote(partition: TopicPartition) -> tuple[TopicPartition, bool] | None:
            route = self._maps.remote_partition(partition)
            return (route.remote, route.back) if route is not None else None

        return group_statuses(
            self._flow.name,
            self.book,
            remote,
            listed={name: (each.kind, each.state) for name, each in self._listed().items()},
            without_offsets=self._there.without_offsets,
            problems=self.problems,
            synced=self._flow.groups.sync_offsets_enabled,
        )

    def _listed(self) -> dict[str, ListedGroup]:
        listing = self._there.listing
        return {} if listing is None else listing.groups | listing.unknown

    async def _learn(self) -> None:
        """Read what was said in the checkpoints topic: by earlier lives, by MM2, and by whoever else carries groups."""
        complete = False
        while not complete:
            _, records, complete = await self._reader.read()
            for record in records:
                headers = dict(record.headers)
                if record.value is None or headers.get(WRITER_HEADER) == self._id:
                    continue
                try:
                    checkpoint = CheckpointRecord.decode(record.key, record.value)
                except CorruptRecordError as error:
                    log.warning("topic %s, offset %d: %s", self._reader.topic, record.offset, error)
                    continue
                if self._mine(checkpoint.group):
                    self._merged.remember(checkpoint, record.headers)

    async def _translate(self) -> None:
        await self._maps.prepare()
        routes = {
            partition: self._maps.remote_partition(partition)
            for partition in {e.key.partition for e in self.book.untranslated}
        }
        versions = {partition: route.version for partition, route in routes.items() if route is not None}
        pending = list(self.book.to_translate(versions))
        if pending:
            await self._maps.refresh({entry.key.partition for entry, _ in pending})
        copied = [(route, offset) for entry, offset in pending if (route := routes[entry.key.partition]) is not None]
        translations = iter(await translate_many(copied, _READ_WITHIN_S))
        found = [
            (entry, offset, self._not_copied(entry) if routes[entry.key.partition] is None else next(translations))
            for entry, offset in pending
        ]
        placed = {entry.key.partition for entry, _, place in found if place.offset is not None}
        remotes = {route.remote for partition in placed if (route := routes[partition]) is not None}
        bounds = await log_bounds(self._target, remotes)
        for entry, offset, place in found:
            route = routes[entry.key.partition]
            # The map may have changed since: then it is asked again.
            version = -1 if place.retry else versions.get(entry.key.partition, 0)
            if route is None or place.offset is None:
                self.book.translated(entry, offset, version, place)
            elif route.remote in bounds:
                self.book.translated(entry, offset, version, within(place, bounds[route.remote]))

    def _not_copied(self, entry: GroupOffset) -> Translation:
        return Translation(offset=None, reason=self._maps.why_not(entry.key.partition) or _NOT_COPIED)

    async def _compare(self, now_s: float) -> dict[str, dict[TopicPartition, GroupOffset]]:
        """What is to be committed on the target: by group, the remote partitions and what they are of."""
        if now_s - self._clock.compared_s >= _RECHECK_S:
            self._clock.compared_s = now_s
            self.book.look_again()
        by_group: dict[str, list[GroupOffset]] = defaultdict(list)
        for entry in list(self.book.unsynced):
            route = self._maps.remote_partition(entry.key.partition) if entry.merged is None else None
            if self._merged.remote_of(entry) is None or (route is not None and route.back):
                self.book.unsynced.discard(entry)
            else:
                by_group[entry.key.group].append(entry)
        if not by_group:
            return {}
        side = self._here
        side.listing = await list_groups(side.coordinators, side.listing)
        for name in [name for name in by_group if self._has_members(side.listing, name)]:
            self.book.active(name)
            del by_group[name]
        read = await side.reader.read(list(by_group))
        self.problems |= {group: f"its offsets on the target: {error}" for group, error in read.failed.items()}
        for group, found in read.changed.items():
            self._on_target[group] = {p: each.offset for p, each in found.offsets.items() if each.offset >= 0}
        writes: dict[str, dict[TopicPartition, GroupOffset]] = defaultdict(dict)
        for group in by_group.keys() - read.failed.keys():
            there = self._on_target.get(group, {})
            for entry in by_group[group]:
                remote = self._merged.remote_of(entry)
                both = (route := self._maps.remote_partition(entry.key.partition)) is not None and route.both
                if remote is not None and self.book.compare(entry, there.get(remote), both_sides_write=both):
                    writes[group][remote] = entry
        return writes

    def _has_members(self, listing: GroupListing, group: str) -> bool:
        listed = listing.groups.get(group) or listing.unknown.get(group)
        return listed is not None and (listed.state not in _WITHOUT_MEMBERS or listed.kind == "share")

    async def _emit(self) -> None:
        """Emit the checkpoints that are due, before anything is committed by them."""
        due: list[tuple[GroupOffset, CheckpointRecord | None, tuple[int, ...]]] = []
        records = []
        for entry in self.book.unsaid:
            remote, written = self._merged.remote_of(entry), entry.written
            checkpoint = self.book.checkpoint(entry, remote) if remote is not None else None
            due.append((entry, checkpoint, written))
            if checkpoint is not None:
                encoded, value = checkpoint.encode()
                headers = (
                    (WRITTEN_HEADER, encode_written(written)),
                    (WRITER_HEADER, self._id),
                    *self._merged.sources_of(entry),
                )
                records.append(KeyedRecord(encoded, value, headers))
        if records:
            await self._writer.append(records)
        for entry, checkpoint, written in due:
            self.book.said(entry, checkpoint, written)

    async def _write(self, writes: Mapping[str, Mapping[TopicPartition, GroupOffset]]) -> None:
        commits = {
            group: {remote: entry.to_commit for remote, entry in entries.items()} for group, entries in writes.items()
        }
        if not commits:
            return
        done = await commit_offsets(self._here.coordinators, commits, self._trail, self._on_target)
        for group, answers in done.items():
            for remote, error in answers.items():
                self.book.wrote(writes[group][remote], _reason(error))


def _reason(error: ErrorInfo | None) -> str | None:
    if error is None:
        return None
    return ACTIVE if error == GROUP_ACTIVE else f"its commit on the target was refused: {error.name}"
