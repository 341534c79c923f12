"""The Fetch request and response, by hand: the response's record bytes are handed on as views, never copied.

Versions 11 (Kafka 2.3), 12 (flexible), 13 to 15 (topic ids, KIP-516) and 16 (leader hints, KIP-951) are spoken.
Sources: KIP-227 (sessions), KIP-392 (nearest replica), Kafka's FetchRequest.json and FetchResponse.json.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from mirror_ray.kafka.leader_hints import LeaderHint, read_leader_hint, read_nodes
from mirror_ray.kafka.metadata import BrokerAddress
from mirror_ray.kafka.primitives import (
    array_length,
    compact_text,
    read_plain_topic,
    read_tags,
    read_topic,
    read_uvarint,
    skip_tags,
    topic_key,
)
from mirror_ray.model.errors import CorruptBatchError

API_KEY = 1
LOWEST_VERSION = 11
HIGHEST_VERSION = 16
FIRST_FLEXIBLE_VERSION = 12
FIRST_TOPIC_ID_VERSION = 13
#: From it on a request has no replica id: only followers say what they are.
_FIRST_WITHOUT_REPLICA_ID = 15

_NO_REPLICA = struct.pack(">i", -1)
_HEAD = struct.Struct(">iiibii")
_PARTITION_FLEXIBLE = struct.Struct(">iiqiqib")
_PARTITION = struct.Struct(">iiqqi")
_RESPONSE_HEAD = struct.Struct(">ihi")
_PARTITION_RESPONSE = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_INT = struct.Struct(">i")
_EPOCH_END = struct.Struct(">iq")
_DIVERGING_TAG, _LEADER_TAG = 0, 1


class PartitionKey(NamedTuple):
    """A partition as requests and responses of one version name it: by 16 id bytes, or by the name in UTF-8."""

    topic: bytes
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchParameters:
    """The parameters of a request that all its partitions share."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_partition_bytes: int
    read_committed: bool
    rack: str


class FetchPosition(NamedTuple):
    """Where to fetch from, and the leader epoch of the batch before: -1 for none known.

    By that epoch the broker checks that its log still is the one that was read so far (KIP-595).
    """

    offset: int
    last_epoch: int = -1
    #: The epoch of which the broker must be the leader, or it answers with an error (KIP-320); -1: any.
    leader_epoch: int = -1


@dataclass(slots=True)
class FetchedPartition:
    """One partition of a response. ``records`` is writable and lives in the response's own buffer."""

    key: PartitionKey
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    #: (producer id, first offset) of each aborted transaction that reaches into ``records``.
    aborted: list[tuple[int, int]]
    #: Broker to read from instead (KIP-392); -1 for this one.
    preferred_read_replica: int
    records: memoryview
    #: Where the broker's log diverges from the one that was read so far; -1: it does not.
    diverging_from: int = -1
    #: Who leads the partition, where the broker that was asked does not; None: it does not say.
    leader: LeaderHint | None = None


@dataclass(slots=True)
class FetchResponse:
    """A parsed Fetch response."""

    throttle_ms: int
    error_code: int
    session_id: int
    partitions: list[FetchedPartition]
    #: Where to connect to the leaders that it names.
    nodes: list[BrokerAddress] = field(default_factory=list)


def encode_fetch(
    version: int,
    parameters: FetchParameters,
    session: tuple[int, int],
    wanted: Mapping[PartitionKey, FetchPosition],
    forgotten: Sequence[PartitionKey],
    *,
    limits: Mapping[PartitionKey, int] = MappingProxyType({}),
) -> bytes:
    """A request's body.

    Args:
        version: 11 to 16.
        parameters: Limits and isolation.
        session: Session id and epoch (KIP-227).
        wanted: Position to fetch from, for each partition that is new or has moved.
        forgotten: Partitions to leave out from now on.
        limits: Largest number of bytes of single partitions, where it is below that of ``parameters``.
    """
    flexible, by_id = version >= FIRST_FLEXIBLE_VERSION, version >= FIRST_TOPIC_ID_VERSION
    out = bytearray(_NO_REPLICA if version < _FIRST_WITHOUT_REPLICA_ID else b"")
    out += _HEAD.pack(
        parameters.max_wait_ms,
        parameters.min_bytes,
        parameters.max_bytes,
        1 if parameters.read_committed else 0,
        *session,
    )
    topics: dict[bytes, bytearray] = {}
    counts: dict[bytes, int] = {}
    usual = parameters.max_partition_bytes
    for key, (offset, last_epoch, leader_epoch) in wanted.items():
        limit = min(usual, limits.get(key, usual))
        entries = topics.setdefault(key.topic, bytearray())
        counts[key.topic] = counts.get(key.topic, 0) + 1
        if flexible:
            entries += _PARTITION_FLEXIBLE.pack(key.partition, leader_epoch, offset, last_epoch, -1, limit, 0)
        else:
            entries += _PARTITION.pack(key.partition, leader_epoch, offset, -1, limit)
    out += array_length(flexible, len(topics))
    for topic, entries in topics.items():
        out += topic_key(by_id, flexible, topic) + array_length(flexible, counts[topic]) + entries
        if flexible:
            out.append(0)
    forgotten_topics: dict[bytes, list[int]] = {}
    for key in forgotten:
        forgotten_topics.setdefault(key.topic, []).append(key.partition)
    out += array_length(flexible, len(forgotten_topics))
    for topic, partitions in forgotten_topics.items():
        out += topic_key(by_id, flexible, topic) + array_length(flexible, len(partitions))
        out += struct.pack(f">{len(partitions)}i", *partitions)
        if flexible:
            out.append(0)
    rack = parameters.rack.encode()
    out += compact_text(rack) + b"\0" if flexible else struct.pack(">h", len(rack)) + rack
    return bytes(out)


def decode_fetch(version: int, body: memoryview) -> FetchResponse:
    """Parse a response's body; partitions' records are views into it.

    Raises:
        CorruptBatchError: The bytes are not a Fetch response of that version.
    """
    try:
        return _decode_flexible(version, body) if version >= FIRST_FLEXIBLE_VERSION else _decode_plain(body)
    except (struct.error, IndexError) as error:
        raise CorruptBatchError(f"Fetch response of {len(body)} bytes can't be parsed: {error}") from error


def _decode_flexible(version: int, body: memoryview) -> FetchResponse:
    throttle_ms, error_code, session_id = _RESPONSE_HEAD.unpack_from(body, 0)
    topics, at = read_uvarint(body, _RESPONSE_HEAD.size)
    partitions: list[FetchedPartition] = []
    for _ in range(topics - 1):
        topic, at = read_topic(version >= FIRST_TOPIC_ID_VERSION, body, at)
        count, at = read_uvarint(body, at)
        for _ in range(count - 1):
            partition, at = _flexible_partition(topic, body, at)
            partitions.append(partition)
        at = skip_tags(body, at)
    return FetchResponse(throttle_ms, error_code, session_id, partitions, read_nodes(read_tags(body, at)[0]))


def _flexible_partition(topic: bytes, body: memoryview, at: int) -> tuple[FetchedPartition, int]:
    index, error, high_watermark, stable, start = _PARTITION_RESPONSE.unpack_from(body, at)
    aborted_count, at = read_uvarint(body, at + _PARTITION_RESPONSE.size)
    aborted: list[tuple[int, int]] = []
    for _ in range(aborted_count - 1):
        aborted.append(_ABORTED.unpack_from(body, at))
        at = skip_tags(body, at + _ABORTED.size)
    (preferred,) = _INT.unpack_from(body, at)
    size, at = read_uvarint(body, at + 4)
    size = max(size - 1, 0)
    records = body[at : at + size]
    if len(records) != size:
        raise IndexError(f"records of partition {index} end {size - len(records)} bytes early")
    tags, at = read_tags(body, at + size)
    diverging_from = _EPOCH_END.unpack_from(tags[_DIVERGING_TAG])[1] if _DIVERGING_TAG in tags else -1
    fetched = FetchedPartition(
        key=PartitionKey(topic, index),
        error_code=error,
        high_watermark=high_watermark,
        last_stable_offset=stable,
        log_start_offset=start,
        aborted=aborted,
        preferred_read_replica=preferred,
        records=records,
        diverging_from=diverging_from,
        leader=read_leader_hint(tags, _LEADER_TAG),
    )
    return fetched, at


def _decode_plain(body: memoryview) -> FetchResponse:
    throttle_ms, error_code, session_id = _RESPONSE_HEAD.unpack_from(body, 0)
    at = _RESPONSE_HEAD.size
    (topics,) = _INT.unpack_from(body, at)
    at += 4
    partitions: list[FetchedPartition] = []
    for _ in range(topics):
        topic, count, at = read_plain_topic(body, at)
        for _ in range(count):
            index, error, high_watermark, stable, start = _PARTITION_RESPONSE.unpack_from(body, at)
            at += _PARTITION_RESPONSE.size
            (aborted_count,) = _INT.unpack_from(body, at)
            at += 4
            aborted = [_ABORTED.unpack_from(body, at + 16 * n) for n in range(max(aborted_count, 0))]
            at += 16 * len(aborted)
            preferred, size = struct.unpack_from(">ii", body, at)
            at += 8
            records = body[at : at + max(size, 0)]
            if len(records) != max(size, 0):
                raise IndexError(f"records of partition {index} end early")
            at += len(records)
            key = PartitionKey(topic, index)
            partitions.append(FetchedPartition(key, error, high_watermark, stable, start, aborted, preferred, records))
    return FetchResponse(throttle_ms, error_code, session_id, partitions)
