"""Where every consumer group stands on both sides, and what is to be done about it. Pure.

Checkpoints are MM2's (``MirrorCheckpointTask``), and our memory: a header says which offset is about to be committed on
the target, and which one was committed there before. It is in the topic before the commit is sent.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.group_sync import Keep, Standing, Write, decide
from mirror_ray.offsets.translate import Translation
from mirror_ray.records.internal import Checkpoint

WRITTEN_HEADER: Final = b"mirror-ray.written"
#: Tells our own checkpoints from those of others.
WRITER_HEADER: Final = b"mirror-ray.writer"

ACTIVE: Final = "the group is active on the target"


class Committed(NamedTuple):
    """A group's committed offset."""

    offset: int
    metadata: str = ""


class GroupPartition(NamedTuple):
    """One group, one partition of the source."""

    group: str
    partition: TopicPartition


@dataclass(slots=True)
class Entry:
    """What is known of one group and one partition."""

    source: Committed | None = None
    translation: Translation | None = None
    #: Of the partition's map, when ``translation`` was made.
    version: int = -1
    #: The last checkpoint that was emitted, and what its header said.
    checkpoint: Checkpoint | None = None
    told: tuple[int, ...] = ()
    #: What we may have committed on the target: meant to be, then before.
    written: tuple[int, ...] = ()
    #: Whether the source's offset went back since it was written.
    went_back: bool = False
    #: Why the group does not stand on the target where it stands on the source.
    reason: str | None = None


class GroupBook:
    """All groups of one flow, by their source partitions.

    Attributes:
        groups: Every group's partitions.
        untranslated: What has no exact place yet.
        unsynced: What has a place, and is not known to stand there on the target.
        unsaid: What may have a checkpoint to be emitted.
    """

    def __init__(self) -> None:
        self.groups: dict[str, dict[TopicPartition, Entry]] = {}
        self.untranslated: set[GroupPartition] = set()
        self.unsynced: set[GroupPartition] = set()
        self.unsaid: set[GroupPartition] = set()

    def entry(self, key: GroupPartition) -> Entry:
        """The entry of a key that is in one of the sets."""
        return self.groups[key.group][key.partition]

    def remember(self, partition: TopicPartition, checkpoint: Checkpoint, written: tuple[int, ...]) -> None:
        """Take a checkpoint that somebody else emitted: an earlier life of ours, or MM2; by source partition."""
        entry = self.groups.setdefault(checkpoint.group, {}).setdefault(partition, Entry())
        entry.checkpoint, entry.written, entry.told = checkpoint, written, written

    def committed(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Take all offsets that a group has committed on the source. What it has no longer stays on the target."""
        entries = self.groups.setdefault(group, {})
        for partition, now in offsets.items():
            entry = entries.setdefault(partition, Entry())
            if now == entry.source:
                continue
            before = _source_offset(entry)
            entry.went_back |= before is not None and now.offset < before
            entry.source, entry.translation, entry.version = now, None, -1
            key = GroupPartition(group, partition)
            self.untranslated.add(key)
            self.unsynced.discard(key)
        for partition in entries.keys() - offsets.keys():
            entries[partition].source = None
            self.untranslated.discard(GroupPartition(group, partition))
            self.unsynced.discard(GroupPartition(group, partition))

    def to_translate(self, versions: Mapping[TopicPartition, int]) -> Iterator[tuple[GroupPartition, int]]:
        """Yield what to look up: source offsets without an exact place, where the map has changed since."""
        for key in self.untranslated:
            entry = self.entry(key)
            if entry.source is not None and entry.version != versions.get(key.partition, 0):
                yield key, entry.source.offset

    def translated(self, key: GroupPartition, offset: int, version: int, found: Translation) -> None:
        """Take the place of a source offset, by that version of the map."""
        entry = self.entry(key)
        if entry.source is None or entry.source.offset != offset:
            return
        if found.offset is not None and (entry.translation is None or entry.translation.offset != found.offset):
            self.unsynced.add(key)
            self.unsaid.add(key)
        entry.translation, entry.version, entry.reason = found, version, found.reason
        if found.offset is not None and found.exact:
            self.untranslated.discard(key)

    def look_again(self) -> None:
        """What was known of the target may be old: every offset is to be compared anew."""
        for group, entries in self.groups.items():
            for partition, entry in entries.items():
                if entry.source is not None and entry.translation is not None and entry.translation.offset is not None:
                    self.unsynced.add(GroupPartition(group, partition))

    def compare(self, key: GroupPartition, on_target: int | None) -> Write | None:
        """What to commit on the target, where the group stands at ``on_target`` and is not active."""
        entry = self.entry(key)
        if entry.translation is None or entry.translation.offset is None:
            return None
        act = decide(
            Standing(
                committed=on_target,
                written=entry.written,
                translated=entry.translation.offset,
                went_back=entry.went_back,
            )
        )
        if isinstance(act, Write):
            entry.written = (act.offset,) if on_target is None else (act.offset, on_target)
            self.unsaid.add(key)
            return act
        entry.reason = act.reason or entry.translation.reason
        if act == Keep():
            self._settled(key, entry)
        return None

    def wrote(self, key: GroupPartition, error: str | None) -> None:
        """What became of ``compare``'s commit; None: it was taken."""
        entry = self.entry(key)
        if error is None:
            entry.written = entry.written[:1]
            entry.reason = entry.translation.reason if entry.translation else None
            self._settled(key, entry)
        else:
            entry.reason = error
            if error == ACTIVE:
                entry.written = entry.written[1:]
                self.unsaid.add(key)

    def active(self, group: str) -> None:
        """The group has members on the target: its offsets there are its own business."""
        for partition, entry in self.groups.get(group, {}).items():
            if GroupPartition(group, partition) in self.unsynced:
                entry.reason = ACTIVE

    def to_commit(self, key: GroupPartition) -> tuple[int, str]:
        """Offset and metadata that ``compare`` wants to be committed."""
        entry = self.entry(key)
        return entry.written[0], entry.source.metadata if entry.source else ""

    def checkpoint(self, key: GroupPartition, remote: TopicPartition) -> Checkpoint | None:
        """The checkpoint of a key that is ``unsaid``; None: there is none, or it was emitted already."""
        entry = self.entry(key)
        if entry.source is None or entry.translation is None or entry.translation.offset is None:
            return None
        checkpoint = Checkpoint(
            group=key.group,
            partition=remote,
            upstream_offset=entry.source.offset,
            downstream_offset=entry.translation.offset,
            metadata=entry.source.metadata,
        )
        return checkpoint if (checkpoint, entry.written) != (entry.checkpoint, entry.told) else None

    def said(self, key: GroupPartition, checkpoint: Checkpoint | None, written: tuple[int, ...]) -> None:
        """It is in the topic, with that header; None: there was none to be emitted."""
        if checkpoint is not None:
            entry = self.entry(key)
            entry.checkpoint, entry.told = checkpoint, written
        self.unsaid.discard(key)

    def forget(self, groups: Collection[str]) -> None:
        """Groups that are gone on the source; on the target they stay as they are."""
        for group in groups:
            self.committed(group, {})

    def _settled(self, key: GroupPartition, entry: Entry) -> None:
        self.unsynced.discard(key)
        entry.went_back = False


def encode_written(written: tuple[int, ...]) -> bytes:
    """The header's value."""
    return struct.pack(f">{len(written)}q", *written)


def decode_written(checkpoint: Checkpoint, headers: tuple[tuple[bytes, bytes | None], ...]) -> tuple[int, ...]:
    """What a checkpoint of an earlier life says was written. MM2 has no header, and commits what it emits."""
    value = dict(headers).get(WRITTEN_HEADER)
    if value is None or len(value) % 8:
        return (checkpoint.downstream_offset,)
    return struct.unpack(f">{len(value) // 8}q", value)


def _source_offset(entry: Entry) -> int | None:
    if entry.source is not None:
        return entry.source.offset
    return entry.checkpoint.upstream_offset if entry.checkpoint is not None else None
