"""MM2's internal records: heartbeats, checkpoints and offset syncs, byte for byte as MM2 4.3.0 writes them.

Sources: ``Heartbeat``, ``Checkpoint`` and ``OffsetSync`` in ``org.apache.kafka.connect.mirror``; Kafka's
``protocol.types``: big-endian integers, strings as UTF-8 behind an INT16 length.

``encode`` raises ValueError for what does not fit the format, ``decode`` CorruptRecordError for other bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self

from mirror_ray.model.names import TopicPartition
from mirror_ray.records.fields import FieldReader, pack, string

_VERSION: Final = 0
_INT64: Final = struct.Struct(">q")
_INT64_TWICE: Final = struct.Struct(">qq")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRecord:
    """The cluster ``source`` could be reached, and the flow to ``target`` was up, at a point in time."""

    source_alias: str
    target_alias: str
    timestamp_ms: int

    def encode(self) -> tuple[bytes, bytes]:
        """Write it as (key, value)."""
        return string(self.source_alias) + string(self.target_alias), pack(">hq", _VERSION, self.timestamp_ms)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """Read it from a record of a heartbeats topic."""
        keys = FieldReader("heartbeat key", key)
        source, target = keys.string(), keys.string()
        keys.end()
        values = FieldReader("heartbeat value", value)
        values.version(_VERSION)
        (timestamp_ms,) = values.numbers(_INT64)
        values.end()
        return cls(source_alias=source, target_alias=target, timestamp_ms=timestamp_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """A consumer group's position on both sides; ``downstream_offset`` is ready to be committed.

    ``partition`` is the one on the target: MM2 writes the remote topic's name.
    """

    group: str
    partition: TopicPartition
    upstream_offset: int
    downstream_offset: int
    metadata: str = ""

    def encode(self) -> tuple[bytes, bytes]:
        """Write it as (key, value)."""
        key = string(self.group) + string(self.partition.topic) + pack(">i", self.partition.partition)
        value = pack(">hqq", _VERSION, self.upstream_offset, self.downstream_offset) + string(self.metadata)
        return key, value

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """Read it from a record of a checkpoints topic."""
        keys = FieldReader("checkpoint key", key)
        group, partition = keys.string(), keys.partition()
        keys.end()
        values = FieldReader("checkpoint value", value)
        values.version(_VERSION)
        upstream, downstream = values.numbers(_INT64_TWICE)
        metadata = values.string()
        values.end()
        return cls(
            group=group, partition=partition, upstream_offset=upstream, downstream_offset=downstream, metadata=metadata
        )


def checkpoint_group(key: bytes | None) -> str:
    """The group that a checkpoint's key begins with, so that a topic of many groups is searched without decoding all.

    Raises:
        CorruptRecordError: The bytes are no checkpoint's key.
    """
    return FieldReader("checkpoint key", key).string()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSyncRecord:
    """The source record at ``upstream_offset`` is the target record at ``downstream_offset``.

    ``partition`` is the source's.
    """

    partition: TopicPartition
    upstream_offset: int
    downstream_offset: int

    def encode(self) -> tuple[bytes, bytes]:
        """Write it as (key, value)."""
        key = string(self.partition.topic) + pack(">i", self.partition.partition)
        return key, pack(">qq", self.upstream_offset, self.downstream_offset)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """Read it from a record of an offset-syncs topic."""
        keys = FieldReader("offset sync key", key)
        partition = keys.partition()
        keys.end()
        values = FieldReader("offset sync value", value)
        upstream, downstream = values.numbers(_INT64_TWICE)
        values.end()
        return cls(partition=partition, upstream_offset=upstream, downstream_offset=downstream)
