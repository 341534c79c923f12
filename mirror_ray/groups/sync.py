"""The group sync of one flow: reads the groups' offsets on the source, translates and commits them on the target.

A round reads all groups' offsets on the source (what has not changed costs next to nothing), translates what is new,
emits checkpoints, and commits on the target what ``commit_rules`` allow. Every round begins where the last one ended,
so one that breaks off is made up for by the next.
"""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from mirror_ray.config.settings import FlowSettings
from mirror_ray.groups.checkpoints import CheckpointTopic, GroupCheckpoint
from mirror_ray.groups.commit_history_topic import HistoryWriter
from mirror_ray.groups.commit_rules import ACTIVE, WITHOUT_MEMBERS
from mirror_ray.groups.merged_groups import MergedGroups
from mirror_ray.groups.offset_state import GroupOffset, GroupOffsetState
from mirror_ray.groups.source_groups import SourceGroups
from mirror_ray.groups.status import group_statuses
from mirror_ray.groups.translated_offset import NOT_COPIED
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import ErrorInfo
from mirror_ray.kafka.group_coordinators import GroupCoordinators
from mirror_ray.kafka.group_listing import GroupListing, ListedGroup, list_groups
from mirror_ray.kafka.group_offsets import ACTIVE as GROUP_ACTIVE
from mirror_ray.kafka.group_offsets import OffsetReader, commit_offsets
from mirror_ray.model.names import TopicPartition
from mirror_ray.observe.groups import GroupStatus
from mirror_ray.offsets.flow_maps import FlowMaps, translate_many
from mirror_ray.offsets.log_bounds import log_bounds
from mirror_ray.offsets.translation import Translation, within

#: So often every group's offset on the target is compared anew: somebody may have deleted it, or it expired.
_RECHECK_S: Final = 60.0
#: How long a round waits for the source to be read for offsets that the maps have forgotten; the next one has them.
_READ_WITHIN_S: Final = 1.0

#: By group: the remote partitions to commit, and the entries that they are of.
_Commits = dict[str, dict[TopicPartition, GroupOffset]]


class GroupOffsetSync:
    """Syncs one flow's groups, or those of them that ``accepts`` lets through. ``begin`` comes first, then ``round``.

    Attributes:
        state: The offsets of all groups.
        problems: What could not be asked in the last round, by group; "" stands for the cluster.
    """

    def __init__(
        self,
        flow: FlowSettings,
        source: ClusterConnections,
        target: ClusterConnections,
        maps: FlowMaps,
        audit_log: AuditLog,
        *,
        accepts: Callable[[str], bool] = lambda _: True,
        history: HistoryWriter | None = None,
    ) -> None:
        """``audit_log`` keeps what is committed, ``history`` what groups have committed, round by round."""
        self.state = GroupOffsetState()
        self.problems: dict[str, str] = {}
        self._flow, self._maps, self._accepts, self._history = flow, maps, accepts, history
        self._target, self._audit_log = target, audit_log
        # A route has nothing to do with other topics, which are the flow's own business.
        covers = {} if flow.route is None else {"covers": maps.rules.should_replicate_topic}
        self._source_groups = SourceGroups(flow.groups, source, accepts, **covers)
        self._merged = MergedGroups(self.state, maps, source, target, flow.fetch.isolation_level)
        self._checkpoints = CheckpointTopic(target, maps.rules.policy.checkpoints_topic(flow.name.source))
        self._writer_id = uuid.uuid4().bytes
        self._coordinators = GroupCoordinators(target)
        self._target_reader = OffsetReader(self._coordinators)
        self._target_listing: GroupListing | None = None
        self._on_target: dict[str, dict[TopicPartition, int]] = {}
        #: On the monotonic clock.
        self._synced_s = self._compared_s = float("-inf")

    async def begin(self) -> None:
        """Read the maps, and the checkpoints of earlier lives."""
        await self._maps.ready()
        await self._read_checkpoints()

    def sync_at_once(self) -> None:
        """Do all that there is to do in the next round, whatever the intervals are."""
        self._synced_s = self._compared_s = float("-inf")
        self._source_groups.list_at_once()

    async def read_source(self) -> None:
        """Read what groups have committed on the source, and write that into the history."""
        await self._source_groups.read(self.state)
        if self._history is not None:
            await self._history.write(self.state, self._source_groups.problems)

    async def round(self) -> None:
        """Do one round. What could not be done is done by a later one."""
        self.problems.clear()
        await self._read_checkpoints()
        await self.read_source()
        self.problems |= self._source_groups.problems
        await self._translate()
        await self._merge()
        now_s = time.monotonic()
        commits: _Commits = {}
        groups = self._flow.groups
        if groups.sync_offsets_enabled and now_s - self._synced_s >= groups.sync_offsets_interval_s:
            self._synced_s = now_s
            commits = await self._compare(now_s)
        await self._emit()
        await self._commit(commits)

    def statuses(self) -> Iterator[GroupStatus]:
        """Yield the status of every group, by name."""

        def remote_of(partition: TopicPartition) -> tuple[TopicPartition, bool] | None:
            remote = self._maps.remote_partition(partition)
            return (remote.remote, remote.back) if remote is not None else None

        return group_statuses(
            self._flow.name,
            self.state,
            remote_of,
            listed={name: (group.kind, group.state) for name, group in self._listed().items()},
            without_offsets=self._source_groups.without_offsets,
            problems=self.problems,
            synced=self._flow.groups.sync_offsets_enabled,
        )

    def _listed(self) -> dict[str, ListedGroup]:
        listing = self._source_groups.listing
        return {} if listing is None else listing.groups | listing.unknown

    async def _read_checkpoints(self) -> None:
        """Restore what others emitted: earlier lives of ours, MM2, and whoever else syncs groups."""
        complete = False
        while not complete:
            checkpoints, complete = await self._checkpoints.read()
            for found in checkpoints:
                if found.writer != self._writer_id and self._accepts(found.checkpoint.group):
                    self._merged.restore(found)

    async def _translate(self) -> None:
        await self._maps.prepare()
        partitions = {entry.key.partition for entry in self.state.untranslated}
        remotes = {partition: self._maps.remote_partition(partition) for partition in partitions}
        versions = {partition: remote.version for partition, remote in remotes.items() if remote is not None}
        pending = list(self.state.to_translate(versions))
        if pending:
            await self._maps.refresh({entry.key.partition for entry, _ in pending})
        copied = []
        for entry, offset in pending:
            remote = remotes[entry.key.partition]
            if remote is not None:
                copied.append((entry, remote, offset))
            else:
                reason = self._maps.why_not(entry.key.partition) or NOT_COPIED
                self.state.translated(entry, offset, 0, Translation(offset=None, reason=reason))
        found = await translate_many([(remote, offset) for _, remote, offset in copied], _READ_WITHIN_S)
        translated = list(zip(copied, found, strict=True))
        logs = await log_bounds(
            self._target,
            {remote.remote for (_, remote, _), translation in translated if translation.offset is not None},
        )
        for (entry, remote, offset), translation in translated:
            # By the version from before: if the map has changed since, it is asked again.
            version = -1 if translation.retry else versions[entry.key.partition]
            if translation.offset is None:
                self.state.translated(entry, offset, version, translation)
            elif remote.remote in logs:
                self.state.translated(entry, offset, version, within(translation, logs[remote.remote]))

    async def _compare(self, now_s: float) -> _Commits:
        """Compare with what is committed on the target; returns what is to be committed there."""
        if now_s - self._compared_s >= _RECHECK_S:
            self._compared_s = now_s
            self.state.recheck()
        by_group: dict[str, list[GroupOffset]] = defaultdict(list)
        for entry in list(self.state.unsynced):
            remote = self._maps.remote_partition(entry.key.partition) if entry.merged is None else None
            if self._merged.remote_of(entry) is None or (remote is not None and remote.back):
                self.state.unsynced.discard(entry)
            else:
                by_group[entry.key.group].append(entry)
        if not by_group:
            return {}
        self._target_listing = await list_groups(self._coordinators, self._target_listing)
        for name in [name for name in by_group if _is_active(self._target_listing, name)]:
            self.state.active(name)
            del by_group[name]
        read = await self._target_reader.read(list(by_group))
        self.problems |= {group: f"its offsets on the target: {error}" for group, error in read.failed.items()}
        for group, offsets in read.changed.items():
            self._on_target[group] = {p: found.offset for p, found in offsets.offsets.items() if found.offset >= 0}
        compared = {group: entries for group, entries in by_group.items() if group not in read.failed}
        if any(self._is_unexplained(entry) for entries in compared.values() for entry in entries):
            # A system that is being taken over may have committed since: it emits its checkpoints before.
            await self._read_checkpoints()
            await self._merge()
        commits: _Commits = defaultdict(dict)
        for group, entries in compared.items():
            committed = self._on_target.get(group, {})
            for entry in entries:
                partition = self._merged.remote_of(entry)
                both = (remote := self._maps.remote_partition(entry.key.partition)) is not None and remote.both
                if partition is not None and self.state.compare(entry, committed.get(partition), both_sides_write=both):
                    commits[group][partition] = entry
        return commits

    def _is_unexplained(self, entry: GroupOffset) -> bool:
        partition = self._merged.remote_of(entry)
        committed = self._on_target.get(entry.key.group, {})
        return partition is not None and self.state.is_unexplained(entry, committed.get(partition))

    async def _merge(self) -> None:
        await self._merged.merge({name: group.kind for name, group in self._listed().items()})

    async def _emit(self) -> None:
        """Emit the checkpoints that are due, before anything is committed by them."""
        due: list[tuple[GroupOffset, GroupCheckpoint | None, tuple[int, ...]]] = []
        for entry in self.state.unemitted:
            remote, written = self._merged.remote_of(entry), entry.written
            checkpoint = self.state.checkpoint(entry, remote) if remote is not None else None
            found = None
            if checkpoint is not None:
                found = GroupCheckpoint(
                    checkpoint=checkpoint,
                    written=written,
                    sources=self._merged.sources_of(entry),
                    unsubscribed=entry.unsubscribed,
                    writer=self._writer_id,
                )
            due.append((entry, found, written))
        await self._checkpoints.append([found for _, found, _ in due if found is not None])
        for entry, found, written in due:
            self.state.emitted(entry, found.checkpoint if found is not None else None, written)

    async def _commit(self, entries: Mapping[str, Mapping[TopicPartition, GroupOffset]]) -> None:
        if not entries:
            return
        commits = {
            group: {remote: entry.to_commit for remote, entry in of_group.items()}
            for group, of_group in entries.items()
        }
        done = await commit_offsets(self._coordinators, commits, self._audit_log, self._on_target)
        for group, answers in done.items():
            for remote, error in answers.items():
                self.state.wrote(entries[group][remote], _reason(error))


def _is_active(listing: GroupListing, group: str) -> bool:
    listed = listing.groups.get(group) or listing.unknown.get(group)
    return listed is not None and (listed.state not in WITHOUT_MEMBERS or listed.kind == "share")


def _reason(error: ErrorInfo | None) -> str | None:
    if error is None:
        return None
    return ACTIVE if error == GROUP_ACTIVE else f"its commit on the target was refused: {error.name}"
