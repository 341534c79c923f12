"""Checkpoints of consumer groups: MM2's records, and our memory of what was committed on the target.

A header says which offset is about to be committed, and which one was committed there before. The checkpoint is in the
topic before the commit is sent.
"""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_reader import InternalTopicReader
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.model.errors import CorruptRecordError
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.mm2_records import CheckpointRecord

log = logging.getLogger(__name__)

WRITTEN_HEADER: Final = b"mirror-ray.written"
#: Tells our own checkpoints from those of others.
WRITER_HEADER: Final = b"mirror-ray.writer"
#: Where the remote topic's name does not tell its source: the source topics, and the group's offset in each.
SOURCES_HEADER: Final = b"mirror-ray.sources"
#: Of such a checkpoint: the other topics that are merged there, and that the group does not read.
UNSUBSCRIBED_HEADER: Final = b"mirror-ray.unsubscribed"

Headers = Sequence[tuple[bytes, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCheckpoint:
    """A group's checkpoint for one remote partition, and what was committed by it."""

    checkpoint: CheckpointRecord
    #: The target offset meant to be committed, then the one that was committed before.
    written: tuple[int, ...]
    #: Where the remote topic's name does not tell its source: the topics, and the offset in each.
    sources: Mapping[str, int] = field(default_factory=dict)
    #: Where several topics are merged: those that the group does not read, as its members were last described.
    unsubscribed: frozenset[str] = frozenset()
    #: Who emitted it; empty: a failover, or MM2.
    writer: bytes = b""

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None, headers: Headers) -> GroupCheckpoint:
        """Read a record of a checkpoints topic.

        Raises:
            CorruptRecordError: It is no checkpoint.
        """
        checkpoint = CheckpointRecord.decode(key, value)
        found = dict(headers)
        return cls(
            checkpoint=checkpoint,
            written=_decode_written(checkpoint, found.get(WRITTEN_HEADER)),
            sources=decode_sources(found.get(SOURCES_HEADER)),
            unsubscribed=decode_unsubscribed(found.get(UNSUBSCRIBED_HEADER)),
            writer=found.get(WRITER_HEADER) or b"",
        )

    def encode(self) -> KeyedRecord:
        """The record of the checkpoints topic."""
        key, value = self.checkpoint.encode()
        headers = [(WRITTEN_HEADER, encode_written(self.written))]
        if self.writer:
            headers.append((WRITER_HEADER, self.writer))
        if self.sources:
            headers.append((SOURCES_HEADER, _json(dict(self.sources))))
        if self.unsubscribed:
            headers.append((UNSUBSCRIBED_HEADER, _json(sorted(self.unsubscribed))))
        return KeyedRecord(key, value, tuple(headers))


def unsubscribed_by(
    checkpoints: Mapping[str, Mapping[TopicPartition, GroupCheckpoint]],
) -> dict[tuple[str, TopicPartition], frozenset[str]]:
    """By group and remote partition, the merged topics that the group does not read."""
    return {
        (group, remote): checkpoint.unsubscribed
        for group, by_partition in checkpoints.items()
        for remote, checkpoint in by_partition.items()
    }


def encode_written(written: tuple[int, ...]) -> bytes:
    """The value of ``WRITTEN_HEADER``."""
    return struct.pack(f">{len(written)}q", *written)


def _decode_written(checkpoint: CheckpointRecord, value: bytes | None) -> tuple[int, ...]:
    """MM2 has no such header, and commits what it emits."""
    if value is None or len(value) % 8:
        return (checkpoint.downstream_offset,)
    return struct.unpack(f">{len(value) // 8}q", value)


def decode_sources(value: bytes | None) -> dict[str, int]:
    """Read the value of ``SOURCES_HEADER``; one that does not parse counts as missing."""
    found = _parsed(value)
    return {str(topic): int(offset) for topic, offset in found.items()} if isinstance(found, dict) else {}


def decode_unsubscribed(value: bytes | None) -> frozenset[str]:
    """Read the value of ``UNSUBSCRIBED_HEADER``; one that does not parse counts as missing."""
    found = _parsed(value)
    return frozenset(map(str, found)) if isinstance(found, list) else frozenset()


def _parsed(value: bytes | None) -> Any:
    try:
        return json.loads(value) if value else None
    except ValueError:
        return None


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class CheckpointTopic:
    """Reads a flow's checkpoints topic in order, and appends to it."""

    def __init__(self, target: ClusterConnections, topic: str) -> None:
        self._reader, self._writer = InternalTopicReader(target, topic), InternalTopicWriter(target, topic)

    async def read(self) -> tuple[list[GroupCheckpoint], bool]:
        """The next checkpoints, and whether the topic was read to its end. Records that don't parse are skipped."""
        _, records, complete = await self._reader.read()
        found = []
        for record in records:
            if record.value is not None:
                try:
                    found.append(GroupCheckpoint.decode(record.key, record.value, record.headers))
                except CorruptRecordError as error:
                    log.warning("topic %s, offset %d: %s", self._reader.topic, record.offset, error)
        return found, complete

    async def append(self, checkpoints: Collection[GroupCheckpoint]) -> None:
        """Append checkpoints."""
        if checkpoints:
            await self._writer.append([checkpoint.encode() for checkpoint in checkpoints])
