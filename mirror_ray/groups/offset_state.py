"""Where every consumer group stands on both sides, and what is to be done about it. Pure.

Checkpoints are MM2's (``MirrorCheckpointTask``), and our memory: a header says which offset is about to be committed on
the target, and which one was committed there before. It is in the topic before the commit is sent.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mirror_ray.groups.merged_topics import has_gone_back
from mirror_ray.groups.sync_rule import KeepOffset, TargetOffset, WriteOffset, decide
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.translation import Translation
from mirror_ray.records.mm2_records import CheckpointRecord

WRITTEN_HEADER: Final = b"mirror-ray.written"
#: Tells our own checkpoints from those of others.
WRITER_HEADER: Final = b"mirror-ray.writer"

ACTIVE: Final = "the group is active on the target"


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
    #: The last checkpoint that was emitted, and what its header said.
    checkpoint: CheckpointRecord | None = None
    told: tuple[int, ...] = ()
    #: What we may have committed on the target: meant to be, then before.
    written: tuple[int, ...] = ()
    #: Where the group stood on the target when that was last seen; None: nowhere, or it has not been looked at.
    stands: int | None = None
    #: Whether the source's offset went back since it was written.
    went_back: bool = False
    #: Why the group does not stand on the target where it stands on the source.
    reason: str | None = None
    #: Where several topics are merged: the remote partition for which this entry stands, and the positions there, by
    #: topic, as they are now and as a checkpoint has told them.
    merged: TopicPartition | None = None
    sources: dict[str, int] = field(default_factory=dict)
    told_sources: dict[str, int] = field(default_factory=dict)
    #: Of such an entry: the other topics that are merged there, and that the group does not read; and as it was told.
    unsubscribed: frozenset[str] = frozenset()
    told_unsubscribed: frozenset[str] = frozenset()
    #: Of an entry for which such a one stands: what is shown of it.
    shown: Translation | None = None

    @property
    def to_commit(self) -> tuple[int, str]:
        """Offset and metadata that ``GroupOffsetState.compare`` wants to be committed."""
        return self.written[0], self.source.metadata if self.source else ""


class GroupOffsetState:
    """All groups of one flow, by their source partitions.

    Attributes:
        groups: Every group's partitions.
        untranslated: What has no exact place yet.
        unsynced: What has a place, and is not known to stand there on the target.
        unsaid: What may have a checkpoint to be emitted.
        unrecorded: What has changed on the source since the commit history took it.
        merged: Entries that stand for several topics of a group, by group and remote partition.
    """

    def __init__(self) -> None:
        self.groups: dict[str, dict[TopicPartition, GroupOffset]] = {}
        self.untranslated: set[GroupOffset] = set()
        self.unsynced: set[GroupOffset] = set()
        self.unsaid: set[GroupOffset] = set()
        self.unrecorded: set[GroupOffset] = set()
        self.merged: dict[str, dict[TopicPartition, GroupOffset]] = {}

    def entry(self, group: str, partition: TopicPartition) -> GroupOffset:
        """The entry of a group and a partition, made where there is none."""
        entries = self.groups.setdefault(group, {})
        entry = entries.get(partition)
        if entry is None:
            entry = entries[partition] = GroupOffset(GroupPartition(group, partition))
        return entry

    def remember(self, partition: TopicPartition, checkpoint: CheckpointRecord, written: tuple[int, ...]) -> None:
        """Take a checkpoint that somebody else emitted: an earlier life of ours, or MM2; by source partition."""
        _remember(self.entry(checkpoint.group, partition), checkpoint, written)

    def merged_entry(self, group: str, remote: TopicPartition) -> GroupOffset:
        """The entry that stands for a group in a remote partition of several topics, made where there is none."""
        entries = self.merged.setdefault(group, {})
        entry = entries.get(remote)
        if entry is None:
            entry = entries[remote] = GroupOffset(GroupPartition(group, remote), merged=remote)
        return entry

    def remember_merged(
        self,
        checkpoint: CheckpointRecord,
        written: tuple[int, ...],
        sources: Mapping[str, int],
        unsubscribed: frozenset[str] = frozenset(),
    ) -> None:
        """As ``remember``, of a remote partition of several topics."""
        entry = self.merged_entry(checkpoint.group, checkpoint.partition)
        _remember(entry, checkpoint, written)
        entry.sources = entry.told_sources = dict(sources)
        entry.unsubscribed = entry.told_unsubscribed = unsubscribed

    def merge(
        self,
        group: str,
        remote: TopicPartition,
        lead: CommittedOffset,
        place: Translation,
        sources: Mapping[str, int],
        *,
        unsubscribed: frozenset[str] = frozenset(),
    ) -> None:
        """Take the one place of a group in a remote partition of several topics.

        ``lead``: the position whose place it is. ``sources``: the positions in all of them. ``unsubscribed``: see
        ``GroupOffset``.
        """
        entry = self.merged_entry(group, remote)
        if entry.unsubscribed != unsubscribed:
            self.unsaid.add(entry)
        entry.went_back |= has_gone_back(entry.sources, sources)
        moved = entry.translation is None or entry.translation.offset != place.offset
        if entry.sources != sources or moved:
            self.unsaid.add(entry)
        entry.source, entry.translation, entry.sources = lead, place, dict(sources)
        entry.unsubscribed = unsubscribed
        entry.reason = entry.reason if entry.reason and not moved else place.reason
        if place.offset is None:
            self.unsynced.discard(entry)
        elif moved:
            self.unsynced.add(entry)

    def drop_merged(self, left: Collection[tuple[str, TopicPartition]]) -> None:
        """Entries other than these stand for nothing any more; on the target groups stay as they are."""
        for group, entries in self.merged.items():
            for remote, entry in entries.items():
                if entry.source is not None and (group, remote) not in left:
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
        """Yield what to look up: source offsets without an exact place, where the map has changed since."""
        for entry in self.untranslated:
            if entry.source is not None and entry.version != versions.get(entry.key.partition, 0):
                yield entry, entry.source.offset

    def translated(self, entry: GroupOffset, offset: int, version: int, found: Translation) -> None:
        """Take the place of a source offset, by that version of the map."""
        if entry.source is None or entry.source.offset != offset:
            return
        if found.offset is not None and (entry.translation is None or entry.translation.offset != found.offset):
            self.unsynced.add(entry)
            self.unsaid.add(entry)
        entry.translation, entry.version, entry.reason = found, version, found.reason
        if found.offset is not None and found.exact:
            self.untranslated.discard(entry)

    def look_again(self) -> None:
        """What was known of the target may be old: every offset is to be compared anew."""
        for entries in (*self.groups.values(), *self.merged.values()):
            for entry in entries.values():
                if entry.source is not None and entry.translation is not None and entry.translation.offset is not None:
                    self.unsynced.add(entry)

    def compare(
        self, entry: GroupOffset, on_target: int | None, *, both_sides_write: bool = False
    ) -> WriteOffset | None:
        """What to commit on the target, where the group stands at ``on_target`` and is not active."""
        entry.stands = on_target
        if on_target is not None and entry.written and on_target not in entry.written:
            # Somebody else has replaced what we had written: put back there, it would not be ours either.
            entry.written = ()
            self.unsaid.add(entry)
        if entry.translation is None or entry.translation.offset is None:
            return None
        act = decide(
            TargetOffset(
                committed=on_target,
                written=entry.written,
                translated=entry.translation.offset,
                went_back=entry.went_back,
                both_sides_write=both_sides_write,
            )
        )
        if isinstance(act, WriteOffset):
            entry.written = (act.offset,) if on_target is None else (act.offset, on_target)
            self.unsaid.add(entry)
            return act
        entry.reason = act.reason or entry.translation.reason
        if act == KeepOffset():
            if entry.written[:1] == (on_target,):
                # What was meant is seen to stand there: where it stood before is no longer ours.
                entry.written = entry.written[:1]
            self._settled(entry)
        return None

    def wrote(self, entry: GroupOffset, error: str | None) -> None:
        """What became of ``compare``'s commit; None: it was taken."""
        if error is None:
            entry.written = entry.written[:1]
            entry.stands = entry.written[0]
            entry.reason = entry.translation.reason if entry.translation else None
            self._settled(entry)
        else:
            entry.reason = error
            if error == ACTIVE:
                entry.written = entry.written[1:]
                self.unsaid.add(entry)

    def active(self, group: str) -> None:
        """The group has members on the target: its offsets there are its own business."""
        for entry in (*self.groups.get(group, {}).values(), *self.merged.get(group, {}).values()):
            if entry in self.unsynced:
                entry.reason = ACTIVE

    def checkpoint(self, entry: GroupOffset, remote: TopicPartition) -> CheckpointRecord | None:
        """The checkpoint of an entry that is ``unsaid``; None: there is none, or it was emitted already."""
        if entry.source is None or entry.translation is None or entry.translation.offset is None:
            return None
        checkpoint = CheckpointRecord(
            group=entry.key.group,
            partition=remote,
            upstream_offset=entry.source.offset,
            downstream_offset=entry.translation.offset,
            metadata=entry.source.metadata,
        )
        known = (entry.checkpoint, entry.told, entry.told_sources, entry.told_unsubscribed)
        return checkpoint if (checkpoint, entry.written, entry.sources, entry.unsubscribed) != known else None

    def said(self, entry: GroupOffset, checkpoint: CheckpointRecord | None, written: tuple[int, ...]) -> None:
        """It is in the topic, with that header; None: there was none to be emitted."""
        if checkpoint is not None:
            entry.checkpoint, entry.told, entry.told_sources = checkpoint, written, entry.sources
            entry.told_unsubscribed = entry.unsubscribed
        self.unsaid.discard(entry)

    def forget(self, groups: Collection[str]) -> None:
        """Groups that are gone on the source; on the target they stay as they are."""
        for group in groups:
            self.committed(group, {})

    def _settled(self, entry: GroupOffset) -> None:
        self.unsynced.discard(entry)
        entry.went_back = False


def encode_written(written: tuple[int, ...]) -> bytes:
    """The header's value."""
    return struct.pack(f">{len(written)}q", *written)


def decode_written(checkpoint: CheckpointRecord, headers: tuple[tuple[bytes, bytes | None], ...]) -> tuple[int, ...]:
    """What a checkpoint of an earlier life says was written. MM2 has no header, and commits what it emits."""
    value = dict(headers).get(WRITTEN_HEADER)
    if value is None or len(value) % 8:
        return (checkpoint.downstream_offset,)
    return struct.unpack(f">{len(value) // 8}q", value)


def _remember(entry: GroupOffset, checkpoint: CheckpointRecord, written: tuple[int, ...]) -> None:
    entry.checkpoint, entry.written, entry.told = checkpoint, written, written
    # Whoever was about to commit an offset before the one that stood there had seen the source go back.
    entry.went_back = any(written[0] < before for before in written[1:])


def _source_offset(entry: GroupOffset) -> int | None:
    if entry.source is not None:
        return entry.source.offset
    return entry.checkpoint.upstream_offset if entry.checkpoint is not None else None
