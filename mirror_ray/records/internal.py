"""MM2's internal records: heartbeats, checkpoints and offset syncs, byte for byte as MM2 4.3.0 writes them.

Sources: ``Heartbeat``, ``Checkpoint`` and ``OffsetSync`` in ``org.apache.kafka.connect.mirror``; Kafka's
``protocol.types``: big-endian integers, strings as UTF-8 behind an INT16 length.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self

from mirror_ray.model.errors import CorruptRecordError
from mirror_ray.model.names import TopicPartition

_VERSION: Final = 0
_LONGEST_STRING_BYTES: Final = 0x7FFF
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_INT64_TWICE: Final = struct.Struct(">qq")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Says that ``source`` could be reached, and the flow to ``target`` was up, at a point in time."""

    source_alias: str
    target_alias: str
    timestamp_ms: int

    def encode(self) -> tuple[bytes, bytes]:
        """Write it as (key, value).

        Raises:
            ValueError: A string or number does not fit the format.
        """
        return _string(self.source_alias) + _string(self.target_alias), _pack(">hq", _VERSION, self.timestamp_ms)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """Read it from a record of a heartbeats topic.

        Raises:
            CorruptRecordError: The bytes are no heartbeat.
        """
        keys = _Reader("heartbeat key", key)
        source, target = keys.string(), keys.string()
        keys.end()
        values = _Reader("heartbeat value", value)
        values.version()
        (timestamp_ms,) = values.numbers(_INT64)
        values.end()
        return cls(source_alias=source, target_alias=target, timestamp_ms=timestamp_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A consumer group's position on both sides; ``downstream_offset`` is ready to be committed.

    ``partition`` is the one on the target: MM2 writes the remote topic's name.
    """

    group: str
    partition: TopicPartition
    upstream_offset: int
    downstream_offset: int
    metadata: str = ""

    def encode(self) -> tuple[bytes, bytes]:
        """Write it as (key, value).

        Raises:
            ValueError: A string or number does not fit the format.
        """
        key = _string(self.group) + _string(self.partition.topic) + _pack(">i", self.partition.partition)
        value = _pack(">hqq", _VERSION, self.upstream_offset, self.downstream_offset) + _string(self.metadata)
        return key, value

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """Read it from a record of a checkpoints topic.

        Raises:
            CorruptRecordError: The bytes are no checkpoint.
        """
        keys = _Reader("checkpoint key", key)
        group, partition = keys.string(), keys.partition()
        keys.end()
        values = _Reader("checkpoint value", value)
        values.version()
        upstream, downstream = values.numbers(_INT64_TWICE)
        metadata = values.string()
        values.end()
        return cls(
            group=group,
            partition=partition,
            upstream_offset=upstream,
            downstream_offset=downstream,
            metadata=metadata,
        )


def checkpoint_group(key: bytes | None) -> str:
    """The group that a checkpoint's key begins with: a topic of many groups is searched without decoding all of it.

    Raises:
        CorruptRecordError: The bytes are no checkpoint's key.
    """
    return _Reader("checkpoint key", key).string()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSync:
    """The source record at ``upstream_offset`` is the target record at ``downstream_offset``.

    ``partition`` is the source's.
    """

    partition: TopicPartition
    upstream_offset: int
    downstream_offset: int

    def encode(self) -> tuple[bytes, bytes]:
        """Write it as (key, value).

        Raises:
            ValueError: A string or number does not fit the format.
        """
        key = _string(self.partition.topic) + _pack(">i", self.partition.partition)
        return key, _pack(">qq", self.upstream_offset, self.downstream_offset)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """Read it from a record of an offset-syncs topic.

        Raises:
            CorruptRecordError: The bytes are no offset sync.
        """
        keys = _Reader("offset sync key", key)
        partition = keys.partition()
        keys.end()
        values = _Reader("offset sync value", value)
        upstream, downstream = values.numbers(_INT64_TWICE)
        values.end()
        return cls(partition=partition, upstream_offset=upstream, downstream_offset=downstream)


def _pack(layout: str, *numbers: int) -> bytes:
    try:
        return struct.pack(layout, *numbers)
    except struct.error as error:
        raise ValueError(f"{numbers} do not fit the format: {error}") from error


def _string(text: str) -> bytes:
    data = text.encode()
    if len(data) > _LONGEST_STRING_BYTES:
        raise ValueError(
            f"a string of {len(data)} bytes ({text[:40]!r}...) is over {_LONGEST_STRING_BYTES}, Kafka's longest"
        )
    return len(data).to_bytes(2, "big") + data


class _Reader:
    """Takes one field after the other from a key or value."""

    __slots__ = ("_data", "_position", "_what")

    def __init__(self, what: str, data: bytes | None) -> None:
        if data is None:
            raise CorruptRecordError(f"{what}: it is null")
        self._what = what
        self._data = data
        self._position = 0

    def string(self) -> str:
        (length,) = self.numbers(_INT16)
        if length < 0:
            raise self._error(f"its string length is {length}")
        start = self._position
        self._position = start + length
        raw = self._data[start : self._position]
        if len(raw) < length:
            raise self._too_short(self._position)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise self._error(f"its string is not UTF-8 ({error.reason})") from error

    def partition(self) -> TopicPartition:
        topic = self.string()
        return TopicPartition(topic, *self.numbers(_INT32))

    def version(self) -> None:
        (version,) = self.numbers(_INT16)
        if version != _VERSION:
            raise self._error(f"its version is {version}, only {_VERSION} is known")

    def numbers(self, layout: struct.Struct) -> tuple[int, ...]:
        try:
            numbers = layout.unpack_from(self._data, self._position)
        except struct.error:
            raise self._too_short(self._position + layout.size) from None
        self._position += layout.size
        return numbers

    def end(self) -> None:
        left = len(self._data) - self._position
        if left:
            raise self._error(f"{left} bytes follow its end")

    def _too_short(self, needed: int) -> CorruptRecordError:
        return self._error(f"it ends after {len(self._data)} bytes, {needed} are needed")

    def _error(self, problem: str) -> CorruptRecordError:
        return CorruptRecordError(f"{self._what}: {problem}: {self._data[:40].hex(' ')}")
