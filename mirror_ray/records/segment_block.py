"""The record of a flow's segments topic: one block of one partition's segments.

Integers are columns, so that they compress well. Where transforms made the records the value is of version 1, and ends
with their identity and the source offset from which on they did; where offsets are preserved it is of version 2, and
ends so, too.
"""

from __future__ import annotations

import struct
from typing import Final

from mirror_ray.model.errors import CorruptRecordError
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.model.segment import BlockKey, Segment, SegmentBlock
from mirror_ray.records.fields import FieldReader, pack, string

_VERSION: Final = 0
_TRANSFORMED: Final = 1
_PRESERVED: Final = 2
_INT16: Final = struct.Struct(">h")
_KEY_END: Final = struct.Struct(">iqq")
_VALUE_HEAD: Final = struct.Struct(">qi")


def encode_key(key: BlockKey) -> bytes:
    """The key: of all versions of the block the newest one is kept, and a tombstone deletes it."""
    return (
        pack(">h", _VERSION)
        + string(key.source.topic)
        + string(key.source_topic_id)
        + string(key.target_topic_id)
        + pack(">iqq", key.source.partition, key.epoch, key.first)
    )


def encode_value(block: SegmentBlock) -> bytes:
    """The value."""
    count = len(block.segments)
    version = _PRESERVED if block.preserved else _TRANSFORMED if block.transforms else _VERSION
    head = pack(">hqi", version, block.source_next, count)
    columns = zip(*block.segments, strict=True)
    end = b"" if version == _VERSION else string(block.transforms) + pack(">q", block.transforms_since)
    return head + b"".join(pack(f">{count}q", *column) for column in columns) + end


def decode_block(key: bytes | None, value: bytes | None) -> SegmentBlock:
    """Read a record that is not a tombstone.

    Raises:
        CorruptRecordError: The bytes are no block.
    """
    keys = FieldReader("segment block key", key)
    keys.version(_VERSION)
    topic, source_id, target_id = keys.string(), TopicId(keys.string()), TopicId(keys.string())
    partition, epoch, first = keys.numbers(_KEY_END)
    keys.end()
    values = FieldReader("segment block value", value)
    (version,) = values.numbers(_INT16)
    if version not in (_VERSION, _TRANSFORMED, _PRESERVED):
        raise CorruptRecordError(f"segment block value: its version is {version}, only 0 to 2 are known")
    source_next, count = values.numbers(_VALUE_HEAD)
    columns = [values.int64s(count) for _ in Segment._fields]
    transforms, since = "", 0
    if version != _VERSION:
        transforms = values.string()
        (since,) = values.int64s(1)
    values.end()
    segments = tuple(map(Segment, *columns))
    if not segments or segments[0].source != first:
        raise CorruptRecordError(f"segment block of {topic}-{partition}: it does not begin at offset {first}")
    return SegmentBlock(
        source=TopicPartition(topic, partition),
        source_topic_id=source_id,
        target_topic_id=target_id,
        epoch=epoch,
        segments=segments,
        source_next=source_next,
        transforms=transforms,
        transforms_since=since,
        preserved=version == _PRESERVED,
    )
