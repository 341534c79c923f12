"""OffsetFetch and OffsetCommit by hand: a round over thousands of groups passes through here.

Versions from Kafka 2.4 on (the first ones that are flexible), as for Metadata. OffsetFetch asks for all offsets of each
group, and for what is committed: an offset that a transaction still holds back is not shown, and does not fail the
group (``require_stable`` is false).

Sources: OffsetFetchRequest.json and OffsetCommitRequest.json with their responses; KIP-709 (many groups in a request).
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mirror_ray.kafka.errors import ErrorInfo, error_info
from mirror_ray.kafka.primitives import compact_text, read_uvarint, skip_tags, uvarint
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition

OFFSET_FETCH_KEY = 9
OFFSET_FETCH_VERSIONS = (6, 9)
FIRST_MANY_GROUPS_VERSION = 8

OFFSET_COMMIT_KEY = 8
OFFSET_COMMIT_VERSIONS = (8, 9)

#: What decoding raises at bytes that are no such response.
UNREADABLE = (struct.error, IndexError, UnicodeDecodeError)

_ALL_TOPICS = b"\0"
_NO_TAGS = b"\0"
_COMMITTED_ONLY, _STABLE_ONLY = b"\0", b"\1"
#: No member id, member epoch -1: a client that is no member asks.
_NO_MEMBER = b"\0\xff\xff\xff\xff"
#: Generation -1, member id "", no instance id: Kafka's simple consumer, which commits only while nobody else can.
_SIMPLE_CONSUMER = b"\xff\xff\xff\xff\x01\0"

_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_FETCHED_HEAD = struct.Struct(">iqi")
#: A fetched partition whose metadata is one byte: the length of nothing, or of null.
_FETCHED = struct.Struct(">iqiBhB")
_TO_COMMIT = struct.Struct(">iqi")
_COMMITTED = struct.Struct(">ihB")
_NO_LEADER_EPOCH = -1
_NO_TEXT = compact_text(b"")


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """All that a group has committed; a partition with an error has no known offset."""

    offsets: dict[TopicPartition, CommittedOffset]
    errors: dict[TopicPartition, ErrorInfo]


class FetchedGroup(NamedTuple):
    """One group of an OffsetFetch response. ``raw``: its bytes there, None when they were what was expected."""

    group: str
    raw: bytes | None
    error_code: int = 0
    offsets: GroupOffsets | None = None


def encode_offset_fetch(version: int, groups: Sequence[str], *, stable: bool = False) -> bytes:
    """A request for all committed offsets of ``groups``: of one group before version 8.

    ``stable``: an offset that is being committed in an open transaction is an error (KIP-447), from version 7 on.
    """
    require_stable = _STABLE_ONLY if stable else _COMMITTED_ONLY
    if version < FIRST_MANY_GROUPS_VERSION:
        (group,) = groups
        return compact_text(group.encode()) + _ALL_TOPICS + (require_stable if version >= 7 else b"") + _NO_TAGS
    member = _NO_MEMBER if version >= 9 else b""
    entries = [compact_text(group.encode()) + member + _ALL_TOPICS + _NO_TAGS for group in groups]
    return uvarint(len(groups) + 1) + b"".join(entries) + require_stable + _NO_TAGS


def decode_offset_fetch(
    version: int, body: memoryview, asked: Sequence[str], expected: Mapping[str, bytes]
) -> tuple[list[FetchedGroup], int]:
    """What the groups of a response have committed, and ``throttle_time_ms``.

    ``asked``: the groups of the request, in its order. ``expected``: what :attr:`FetchedGroup.raw` was last for a
    group; one whose bytes are the same is not decoded.

    Raises:
        UNREADABLE: The bytes are no such response.
    """
    data = bytes(body)
    (throttle_ms,) = _INT.unpack_from(data)
    if version < FIRST_MANY_GROUPS_VERSION:
        (group,) = asked
        return [_read_group(data, 4, group, expected.get(group))[0]], throttle_ms
    length, at = read_uvarint(data, 4)
    fetched: list[FetchedGroup] = []
    for _ in range(length - 1):
        size, start = read_uvarint(data, at)
        group = str(data[start : start + size - 1], "utf-8")
        found, at = _read_group(data, start + size - 1, group, expected.get(group))
        fetched.append(found)
    return fetched, throttle_ms


def _read_group(data: bytes, start: int, group: str, expected: bytes | None) -> tuple[FetchedGroup, int]:
    # No encoding of a group is the beginning of another one's, so to begin with the expected bytes is to be them.
    if expected is not None and data.startswith(expected, start):
        return FetchedGroup(group, None), start + len(expected)
    found = GroupOffsets({}, {})
    length, at = read_uvarint(data, start)
    for _ in range(length - 1):
        at = _read_topic(data, at, found)
    (error_code,) = _SHORT.unpack_from(data, at)
    end = skip_tags(data, at + _SHORT.size)
    return FetchedGroup(group, data[start:end], error_code, found), end


def _read_topic(data: bytes, at: int, found: GroupOffsets) -> int:
    size, at = read_uvarint(data, at)
    topic = str(data[at : at + size - 1], "utf-8")
    count, at = read_uvarint(data, at + size - 1)
    offsets, unpack, size_bytes = found.offsets, _FETCHED.unpack_from, _FETCHED.size
    for _ in range(count - 1):
        index, offset, leader_epoch, metadata_size, error_code, tags = unpack(data, at)
        metadata = ""
        if metadata_size <= 1 and not tags:
            at += size_bytes
        else:
            metadata, error_code, at = _read_tail(data, at + _FETCHED_HEAD.size)
        if error_code:
            found.errors[_partition(topic, index)] = error_info(error_code)
        elif offset >= 0:
            offsets[_partition(topic, index)] = CommittedOffset(offset, leader_epoch, metadata)
    return skip_tags(data, at)


def _read_tail(data: bytes, at: int) -> tuple[str, int, int]:
    """A fetched partition from its metadata on, whatever its form."""
    size, at = read_uvarint(data, at)
    end = at + max(size - 1, 0)
    (error_code,) = _SHORT.unpack_from(data, end)
    return str(data[at:end], "utf-8"), error_code, skip_tags(data, end + _SHORT.size)


@functools.lru_cache(maxsize=1 << 16)
def _partition(topic: str, index: int) -> TopicPartition:
    """Thousands of groups read the same partitions: one object for all of them."""
    return TopicPartition(topic, index)


def encode_offset_commit(group: str, offsets: Iterable[tuple[TopicPartition, tuple[int, str]]]) -> bytes:
    """A simple consumer's commit of (offset, metadata) for partitions, versions 8 and 9; without a leader epoch."""
    topics: dict[str, list[bytes]] = {}
    for partition, (offset, metadata) in offsets:
        entry = _TO_COMMIT.pack(partition.partition, offset, _NO_LEADER_EPOCH)
        text = compact_text(metadata.encode()) if metadata else _NO_TEXT
        topics.setdefault(partition.topic, []).append(entry + text + _NO_TAGS)
    out = compact_text(group.encode()) + _SIMPLE_CONSUMER + uvarint(len(topics) + 1)
    for topic, entries in topics.items():
        out += compact_text(topic.encode()) + uvarint(len(entries) + 1) + b"".join(entries) + _NO_TAGS
    return out + _NO_TAGS


def decode_offset_commit(body: memoryview) -> tuple[dict[TopicPartition, int], int]:
    """The error code of each partition of a commit, 0 where it was done, and ``throttle_time_ms``.

    Raises:
        UNREADABLE: The bytes are no such response.
    """
    data = bytes(body)
    codes: dict[TopicPartition, int] = {}
    (throttle_ms,) = _INT.unpack_from(data)
    topics, at = read_uvarint(data, 4)
    for _ in range(topics - 1):
        size, at = read_uvarint(data, at)
        topic = str(data[at : at + size - 1], "utf-8")
        count, at = read_uvarint(data, at + size - 1)
        for _ in range(count - 1):
            index, code, tags = _COMMITTED.unpack_from(data, at)
            at = skip_tags(data, at + _COMMITTED.size - 1) if tags else at + _COMMITTED.size
            codes[_partition(topic, index)] = code
        at = skip_tags(data, at)
    return codes, throttle_ms
