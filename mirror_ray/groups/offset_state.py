"""The committed offsets of a flow's groups on both sides, and what the group sync is to do about them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mirror_ray.groups.commit_rules import ACTIVE, KeepOffset, TargetOffset, WriteOffset, decide_sync, has_gone_back
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.translation import Translation
from mirror_ray.records.mm2_records import CheckpointRecord


class GroupPartition(NamedTuple):
    """One group, one partition of the source."""

    group: str
    partition: TopicPartition


@dataclass(slots=True, eq=False)
class GroupOffset:
    """What is known of one group and one partition."""

    key: GroupPartition
    source: CommittedOffset | None = None
    translation: Translation | None = None
    #: Of the partition's map, when ``translation`` was made.
    version: int = -1
    #: The last checkpoint that was emitted, and the committed offsets in its header.
    checkpoint: CheckpointRecord | None = None
    emitted_written: tuple[int, ...] = ()
    #: What we may have committed on the target: the offset meant to be committed, then its predecessor.
    written: tuple[int, ...] = ()
    #: Committed on the target when it was last read; None: nothing, or it was not read.
    on_target: int | None = None
    #: Whether the source offset went back since the last commit.
    went_back: bool = False
    #: Why the translated offset is not committed on the target.
    reason: str | None = None
    #: Where several topics are merged: the remote partition that this entry is for, and the source offsets by topic, as
    #: they are now and as the last checkpoint has them.
    merged: TopicPartition | None = None
    sources: dict[str, int] = field(default_factory=dict)
    emitted_sources: dict[str, int] = field(default_factory=dict)
    #: Of such an entry: the other topics that are merged there and that the group does not read, now and as emitted.
    unsubscribed: frozenset[str] = frozenset()
    emitted_unsubscribed: frozenset[str] = frozenset()
    #: Of an entry that is part of a merged one: its translation in status.
    shown: Translation | None = None

    @property
    def to_commit(self) -> tuple[int, str]:
        """Offset and metadata that ``GroupOffsetState.compare`` wants to be committed."""
        return self.written[0], self.source.metadata if self.source else ""


class GroupOffsetState:
    """All groups of one flow, by their source partitions.

    Attributes:
        groups: Every group's partitions.
        untranslated: Offsets without an exact translation.
        unsynced: Translated offsets that are not known to be committed on the target.
        unemitted: Offsets that may have a checkpoint to be emitted.
        unrecorded: Offsets that changed on the source since the commit history recorded them.
        merged: Entries that stand for several topics of a group, by group and remote partition.
    """

    def __init__(self) -> None:
        self.groups: dict[str, dict[TopicPartition, GroupOffset]] = {}
        self.untranslated: set[GroupOffset] = set()
        self.unsynced: set[GroupOffset] = set()
        self.unemitted: set[GroupOffset] = set()
        self.unrecorded: set[GroupOffset] = set()
        self.merged: dict[str, dict[TopicPartition, GroupOffset]] = {}

    def entry(self, group: str, partition: TopicPartition) -> GroupOffset:
        """The entry of a group and a partition, made where there is none."""
        entries = self.groups.setdefault(group, {})
        entry = entries.get(partition)
        if entry is None:
            entry = entries[partition] = GroupOffset(GroupPartition(group, partition))
        return entry

    def restore(self, partition: TopicPartition, checkpoint: CheckpointRecord, written: tuple[int, ...]) -> None:
        """Take a checkpoint that an earlier life of ours emitted, or MM2, or another system; by source partition.

        A system that is being taken over may not know yet what this life has committed: that remains ours.
        """
        self._restore(self.entry(checkpoint.group, partition), checkpoint, written)

    def merged_entry(self, group: str, remote: TopicPartition) -> GroupOffset:
        """The entry that stands for a group in a remote partition of several topics, made where there is none."""
        entries = self.merged.setdefault(group, {})
        entry = entries.get(remote)
        if entry is None:
            entry = entries[remote] = GroupOffset(GroupPartition(group, remote), merged=remote)
        return entry

    def restore_merged(
        self,
        checkpoint: CheckpointRecord,
        written: tuple[int, ...],
        sources: Mapping[str, int],
        unsubscribed: frozenset[str] = frozenset(),
    ) -> None:
        """As ``restore``, of a remote partition of several topics."""
        entry = self.merged_entry(checkpoint.group, checkpoint.partition)
        self._restore(entry, checkpoint, written)
        entry.sources = entry.emitted_sources = dict(sources)
        entry.unsubscribed = entry.emitted_unsubscribed = unsubscribed

    def merge(
        self,
        group: str,
        remote: TopicPartition,
        lead: CommittedOffset,
        translation: Translation,
        sources: Mapping[str, int],
        *,
        unsubscribed: frozenset[str] = frozenset(),
    ) -> None:
        """Take the one translation of a group in a remote partition of several topics.

        ``lead``: the committed offset that it is of. ``sources``: the offsets in all of the topics. ``unsubscribed``:
        those that the group does not read.
        """
        entry = self.merged_entry(group, remote)
        if entry.unsubscribed != unsubscribed:
            self.unemitted.add(entry)
        entry.went_back |= has_gone_back(entry.sources, sources)
        moved = entry.translation is None or entry.translation.offset != translation.offset
        if entry.sources != sources or moved:
            self.unemitted.add(entry)
        entry.source, entry.translation, entry.sources = lead, translation, dict(sources)
        entry.unsubscribed = unsubscribed
        entry.reason = entry.reason if entry.reason and not moved else translation.reason
        if translation.offset is None:
            self.unsynced.discard(entry)
        elif moved:
            self.unsynced.add(entry)

    def keep_merged(self, kept: Collection[tuple[str, TopicPartition]]) -> None:
        """Drop merged entries other than these; on the target groups stay as they are."""
        for group, entries in self.merged.items():
            for remote, entry in entries.items():
                if entry.source is not None and (group, remote) not in kept:
                    entry.source = entry.translation = None
                    self.unsynced.discard(entry)

    def committed(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Take all offsets that a group has committed on the source. What it has no longer stays on the target."""
        for partition, now in offsets.items():
            entry = self.entry(group, partition)
            if now == entry.source:
                continue
            before = _source_offset(entry)
            entry.went_back |= before is not None and now.offset < before
            entry.source, entry.translation, entry.version = now, None, -1
            self.untranslated.add(entry)
            self.unrecorded.add(entry)
            self.unsynced.discard(entry)
        entries = self.groups.get(group, {})
        for partition in entries.keys() - offsets.keys():
            entry = entries[partition]
            if entry.source is not None:
                self.unrecorded.add(entry)
            entry.source = None
            self.untranslated.discard(entry)
            self.unsynced.discard(entry)

    def to_translate(self, versions: Mapping[TopicPartition, int]) -> Iterator[tuple[GroupOffset, int]]:
        """Yield the offsets to translate: those without an exact translation, where the map has changed since."""
        for entry in self.untranslated:
            if entry.source is not None and entry.version != versions.get(entry.key.partition, 0):
                yield entry, entry.source.offset

    def translated(self, entry: GroupOffset, offset: int, version: int, found: Translation) -> None:
        """Take the translation of a source offset, by that version of the map."""
        if entry.source is None or entry.source.offset != offset:
            return
        if found.offset is not None and (entry.translation is None or entry.translation.offset != found.offset):
            self.unsynced.add(entry)
            self.unemitted.add(entry)
        entry.translation, entry.version, entry.reason = found, version, found.reason
        if found.offset is not None and found.exact:
            self.untranslated.discard(entry)

    def recheck(self) -> None:
        """What is known of the target may be old: compare every offset anew."""
        for entries in (*self.groups.values(), *self.merged.values()):
            for entry in entries.values():
                if entry.source is not None and entry.translation is not None and entry.translation.offset is not None:
                    self.unsynced.add(entry)

    @staticmethod
    def is_unexplained(entry: GroupOffset, on_target: int | None) -> bool:
        """Whether ``on_target`` is new, and by no checkpoint that was read: by a newer one, or by somebody else."""
        return on_target is not None and on_target not in (*entry.written, entry.on_target)

    def compare(
        self, entry: GroupOffset, on_target: int | None, *, both_sides_write: bool = False
    ) -> WriteOffset | None:
        """What to commit on the target, where ``on_target`` is committed and the group is not active.

        Checkpoints were read after ``on_target``, if it ``is_unexplained``.
        """
        entry.on_target = on_target
        if on_target is not None and entry.written and on_target not in entry.written:
            # Somebody else has replaced what we had committed: set back to that, it would not be ours either.
            entry.written = ()
            self.unemitted.add(entry)
        if entry.translation is None or entry.translation.offset is None:
            return None
        decision = decide_sync(
            TargetOffset(
                committed=on_target,
                written=entry.written,
                translated=entry.translation.offset,
                went_back=entry.went_back,
                both_sides_write=both_sides_write,
            )
        )
        if isinstance(decision, WriteOffset):
            entry.written = (decision.offset,) if on_target is None else (decision.offset, on_target)
            self.unemitted.add(entry)
            return decision
        entry.reason = decision.reason or entry.translation.reason
        if decision == KeepOffset():
            if entry.written[:1] == (on_target,):
                # What was meant is committed there: its predecessor is no longer ours.
                entry.written = entry.written[:1]
            self._settled(entry)
        return None

    def wrote(self, entry: GroupOffset, error: str | None) -> None:
        """Take the result of the commit that ``compare`` asked for; None: it succeeded."""
        if error is None:
            entry.written = entry.written[:1]
            entry.on_target = entry.written[0]
            entry.reason = entry.translation.reason if entry.translation else None
            self._settled(entry)
        else:
            entry.reason = error
            if error == ACTIVE:
                entry.written = entry.written[1:]
                self.unemitted.add(entry)

    def active(self, group: str) -> None:
        """The group has members on the target: its offsets there are left alone."""
        for entry in (*self.groups.get(group, {}).values(), *self.merged.get(group, {}).values()):
            if entry in self.unsynced:
                entry.reason = ACTIVE

    def checkpoint(self, entry: GroupOffset, remote: TopicPartition) -> CheckpointRecord | None:
        """The checkpoint of an ``unemitted`` entry; None: there is none, or it was emitted already."""
        if entry.source is None or entry.translation is None or entry.translation.offset is None:
            return None
        checkpoint = CheckpointRecord(
            group=entry.key.group,
            partition=remote,
            upstream_offset=entry.source.offset,
            downstream_offset=entry.translation.offset,
            metadata=entry.source.metadata,
        )
        known = (entry.checkpoint, entry.emitted_written, entry.emitted_sources, entry.emitted_unsubscribed)
        return checkpoint if (checkpoint, entry.written, entry.sources, entry.unsubscribed) != known else None

    def emitted(self, entry: GroupOffset, checkpoint: CheckpointRecord | None, written: tuple[int, ...]) -> None:
        """The checkpoint is in the topic, with ``written`` in its header; None: there was none to emit."""
        if checkpoint is not None:
            entry.checkpoint, entry.emitted_written, entry.emitted_sources = checkpoint, written, entry.sources
            entry.emitted_unsubscribed = entry.unsubscribed
        self.unemitted.discard(entry)

    def forget(self, groups: Collection[str]) -> None:
        """Forget groups that are gone on the source; on the target they stay as they are."""
        for group in groups:
            self.committed(group, {})

    def _restore(self, entry: GroupOffset, checkpoint: CheckpointRecord, written: tuple[int, ...]) -> None:
        on_target = entry.on_target
        if on_target is not None and on_target in entry.written and on_target not in written:
            entry.written = (*written, on_target)
            self.unemitted.add(entry)
        else:
            entry.written = written
        entry.checkpoint, entry.emitted_written = checkpoint, written
        # An offset before its predecessor was to be committed only because the source offset had gone back.
        entry.went_back = any(written[0] < before for before in written[1:])

    def _settled(self, entry: GroupOffset) -> None:
        self.unsynced.discard(entry)
        entry.went_back = False


def _source_offset(entry: GroupOffset) -> int | None:
    if entry.source is not None:
        return entry.source.offset
    return entry.checkpoint.upstream_offset if entry.checkpoint is not None else None
