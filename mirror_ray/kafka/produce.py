"""The Produce request and response, by hand: batches are sent from the buffers they were received in.

Versions 8 (Kafka 2.4), 9 (flexible), 10 to 12 (leader hints, KIP-951) and 13 (topic ids) are spoken. Source: Kafka's
ProduceRequest.json and ProduceResponse.json. A request carries at most one batch for each partition: the broker refuses
a second one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mirror_ray.kafka.fetch import PartitionKey
from mirror_ray.kafka.leader_hints import LeaderHint, read_leader_hint, read_nodes
from mirror_ray.kafka.metadata import BrokerAddress
from mirror_ray.kafka.primitives import (
    array_length,
    compact_text,
    read_compact_text,
    read_plain_topic,
    read_tags,
    read_topic,
    read_uvarint,
    skip_tags,
    topic_key,
)
from mirror_ray.model.errors import CorruptBatchError

API_KEY = 0
LOWEST_VERSION = 8
HIGHEST_VERSION = 13
#: With later ones a transaction's records add their partition to it (KIP-890).
HIGHEST_ADDED_VERSION = 11
FIRST_FLEXIBLE_VERSION = 9
FIRST_TOPIC_ID_VERSION = 13
#: ``acks``: answered when all in-sync replicas have the batches, or when the leader has.
ALL_REPLICAS, LEADER_ALONE = -1, 1

_HEAD = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")
_INT = struct.Struct(">i")
_ANSWER = struct.Struct(">ihqqq")
#: Behind an answer, as a rule: no errors of records, no message, no tags.
_NOTHING_MORE = b"\1\0\0"
_LEADER_TAG = 0


@dataclass(slots=True)
class ProducedPartition:
    """The answer for one batch."""

    key: PartitionKey
    error_code: int
    base_offset: int
    error_message: str | None
    #: Who leads the partition, where the broker that was asked does not; None: it does not say.
    leader: LeaderHint | None = None


class ProduceResponse(NamedTuple):
    """A parsed Produce response."""

    partitions: list[ProducedPartition]
    throttle_ms: int
    #: Where to connect to the leaders that it names.
    nodes: list[BrokerAddress]


def encode_produce(
    version: int,
    acks: int,
    timeout_ms: int,
    batches: Sequence[tuple[PartitionKey, memoryview]],
    transactional_id: bytes | None = None,
) -> list[bytes | memoryview]:
    """A request's body in parts; the batches are parts of their own and are not copied.

    ``transactional_id``: of the transaction that the batches belong to.
    """
    flexible, by_id = version >= FIRST_FLEXIBLE_VERSION, version >= FIRST_TOPIC_ID_VERSION
    topics: dict[bytes, list[tuple[int, memoryview]]] = {}
    for key, batch in batches:
        topics.setdefault(key.topic, []).append((key.partition, batch))
    head = _transactional_id(flexible, transactional_id) + _HEAD.pack(acks, timeout_ms)
    pending = head + array_length(flexible, len(topics))
    no_tags = b"\0" if flexible else b""
    parts: list[bytes | memoryview] = []
    for topic, partitions in topics.items():
        pending += topic_key(by_id, flexible, topic) + array_length(flexible, len(partitions))
        for partition, batch in partitions:
            parts += (pending + _INT.pack(partition) + array_length(flexible, len(batch)), batch)
            pending = no_tags
        pending += no_tags
    parts.append(pending + no_tags)
    return parts


def _transactional_id(flexible: bool, name: bytes | None) -> bytes:
    if name is None:
        return b"\0" if flexible else _LENGTH.pack(-1)
    return compact_text(name) if flexible else _LENGTH.pack(len(name)) + name


def decode_produce(version: int, body: memoryview) -> ProduceResponse:
    """Parse a response's body.

    Raises:
        CorruptBatchError: The bytes are not a Produce response of that version.
    """
    try:
        return _decode_flexible(version, body) if version >= FIRST_FLEXIBLE_VERSION else _decode_plain(body)
    except (struct.error, IndexError) as error:
        raise CorruptBatchError(f"Produce response of {len(body)} bytes can't be parsed: {error}") from error


def _decode_flexible(version: int, body: memoryview) -> ProduceResponse:
    answers: list[ProducedPartition] = []
    topics, at = read_uvarint(body, 0)
    for _ in range(topics - 1):
        topic, at = read_topic(version >= FIRST_TOPIC_ID_VERSION, body, at)
        count, at = read_uvarint(body, at)
        for _ in range(count - 1):
            index, error, base_offset, _time, _start = _ANSWER.unpack_from(body, at)
            at += _ANSWER.size
            if body[at : at + 3] == _NOTHING_MORE:
                answers.append(ProducedPartition(PartitionKey(topic, index), error, base_offset, None))
                at += 3
                continue
            record_errors, at = read_uvarint(body, at)
            message: str | None = None
            for _ in range(record_errors - 1):
                text, at = read_compact_text(body, at + 4)
                message = message or text
                at = skip_tags(body, at)
            text, at = read_compact_text(body, at)
            tags, at = read_tags(body, at)
            leader = read_leader_hint(tags, _LEADER_TAG)
            answers.append(ProducedPartition(PartitionKey(topic, index), error, base_offset, text or message, leader))
        at = skip_tags(body, at)
    (throttle_ms,) = _INT.unpack_from(body, at)
    return ProduceResponse(answers, throttle_ms, read_nodes(read_tags(body, at + _INT.size)[0]))


def _decode_plain(body: memoryview) -> ProduceResponse:
    answers: list[ProducedPartition] = []
    (topics,) = _INT.unpack_from(body, 0)
    at = 4
    for _ in range(topics):
        topic, count, at = read_plain_topic(body, at)
        for _ in range(count):
            index, error, base_offset, _time, _start = _ANSWER.unpack_from(body, at)
            at += _ANSWER.size
            (record_errors,) = _INT.unpack_from(body, at)
            at += 4
            message: str | None = None
            for _ in range(record_errors):
                text, at = _nullable(body, at + 4)
                message = message or text
            text, at = _nullable(body, at)
            answers.append(ProducedPartition(PartitionKey(topic, index), error, base_offset, text or message))
    (throttle_ms,) = _INT.unpack_from(body, at)
    return ProduceResponse(answers, throttle_ms, [])


def _nullable(body: memoryview, at: int) -> tuple[str | None, int]:
    (size,) = _LENGTH.unpack_from(body, at)
    if size < 0:
        return None, at + 2
    return str(body[at + 2 : at + 2 + size], "utf-8", "replace"), at + 2 + size
