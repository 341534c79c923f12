"""The record of a flow's commit history: groups' committed offsets on the source at one moment.

Each name is written once. Numbers are columns: the first bytes of all numbers, then the second ones, and so on; most
are zeros, so compression leaves two or three bytes of an offset.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from mirror_ray.model.committed_offset import Commits, CommittedOffset
from mirror_ray.model.errors import CorruptRecordError
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.records.fields import FieldReader, pack, string

_VERSION: Final = 0
_HEAD: Final = struct.Struct(">bbiiqq")
_COUNT: Final = struct.Struct(">i")
_LIFE_BYTES: Final = 16
_FIRST: Final = 1
_LAST: Final = 2
_KINDS: Final[tuple[Kind, ...]] = ("changes", "snapshot")
#: A row beside its names: partition, offset, leader epoch.
_ROW_BYTES: Final = 16
#: The size of one record, before compression.
_RECORD_BYTES: Final = 256 << 10

#: Whether commits that a record does not name are unchanged, or do not exist.
Kind = Literal["changes", "snapshot"]

#: How often a checkpoint actor writes all commits; between, it writes changes.
SNAPSHOT_MS: Final = 3_600_000

#: In changes, a committed offset that was deleted.
DELETED: Final = CommittedOffset(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """The commits that one checkpoint actor read in one round, or a part of them.

    A life is one run of one checkpoint actor without a break; it begins with a snapshot.
    """

    life: bytes
    #: The checkpoint actor's number, and how many there are: each reads its share of the groups.
    number: int
    of: int
    #: Counts the records of a life.
    sequence: int
    #: When the round was read, in ms since the epoch.
    at_ms: int
    kind: Kind
    #: Whether the round begins, and is complete, with this part.
    first: bool
    last: bool
    commits: Commits

    def encode(self) -> tuple[bytes, bytes]:
        """Write it as (key, value).

        Raises:
            ValueError: A string or number does not fit the format.
        """
        key = pack(">hii", _VERSION, self.number, self.of)
        flags = self.first * _FIRST + self.last * _LAST
        head = _HEAD.pack(_KINDS.index(self.kind), flags, self.number, self.of, self.sequence, self.at_ms)
        return key, pack(">h", _VERSION) + self.life + head + _encode_commits(self.commits)

    @classmethod
    def decode(cls, value: bytes | None) -> CommitRecord:
        """Read it.

        Raises:
            CorruptRecordError: The bytes are no such record.
        """
        fields = FieldReader("commit record", value)
        fields.version(_VERSION)
        life = fields.raw(_LIFE_BYTES)
        kind, flags, number, of, sequence, at_ms = fields.numbers(_HEAD)
        if kind not in range(len(_KINDS)):
            raise CorruptRecordError(f"commit record: its kind is {kind}, only 0 and 1 are known")
        commits = _decode_commits(fields)
        fields.end()
        return cls(
            life=life,
            number=number,
            of=of,
            sequence=sequence,
            at_ms=at_ms,
            kind=_KINDS[kind],
            first=bool(flags & _FIRST),
            last=bool(flags & _LAST),
            commits=commits,
        )


def pieces(commits: Commits) -> Iterator[Commits]:
    """Yield commits in parts that each fit a record; one empty part where there are none."""
    piece: dict[str, dict[TopicPartition, CommittedOffset]] = defaultdict(dict)
    size, topic = 0, ""
    for group, offsets in sorted(commits.items()):
        size += len(group)
        for partition, committed in sorted(offsets.items()):
            more = _ROW_BYTES + len(committed.metadata) + (len(partition.topic) if partition.topic != topic else 0)
            if piece and size + more > _RECORD_BYTES:
                yield piece
                piece, size = defaultdict(dict), len(group) + len(partition.topic)
            piece[group][partition] = committed
            size, topic = size + more, partition.topic
    yield piece


def _encode_commits(commits: Commits) -> bytes:
    names: dict[str, int] = {}
    runs: list[tuple[int, int, int, int]] = []
    rows: list[tuple[int, int, int]] = []
    texts: list[bytes] = []
    for group, offsets in commits.items():
        by_topic: dict[tuple[str, TopicId], list[tuple[int, CommittedOffset]]] = defaultdict(list)
        for partition, committed in offsets.items():
            by_topic[partition.topic, committed.topic_id].append((partition.partition, committed))
        for (topic, topic_id), found in by_topic.items():
            group_name, topic_name, id_name = (names.setdefault(name, len(names)) for name in (group, topic, topic_id))
            runs.append((group_name, topic_name, id_name, len(found)))
            for number, (offset, leader_epoch, metadata, _) in found:
                if metadata:
                    texts.append(pack(">i", len(rows)) + string(metadata))
                rows.append((number, offset, leader_epoch))
    parts = [_COUNT.pack(len(names)), *map(string, names), _COUNT.pack(len(runs))]
    parts += [_column("i", column) for column in zip(*runs, strict=True)]
    parts.append(_COUNT.pack(len(rows)))
    parts += [_column(code, column) for code, column in zip("iqi", zip(*rows, strict=True), strict=bool(rows))]
    return b"".join([*parts, _COUNT.pack(len(texts)), *texts])


def _decode_commits(fields: FieldReader) -> Commits:
    (count,) = fields.numbers(_COUNT)
    names = [fields.string() for _ in range(count)]
    runs = _read_columns(fields, "iiii")
    rows = _read_columns(fields, "iqi")
    (count,) = fields.numbers(_COUNT)
    texts = {fields.numbers(_COUNT)[0]: fields.string() for _ in range(count)}
    commits: dict[str, dict[TopicPartition, CommittedOffset]] = defaultdict(dict)
    partitions, offsets, leader_epochs = rows
    at = 0
    for group, topic, topic_id, length in zip(*runs, strict=True):
        named = all(0 <= name < len(names) for name in (group, topic, topic_id))
        if not (named and 0 < length <= len(offsets) - at):
            raise CorruptRecordError(
                f"commit record: its run of {length} rows of names {group}, {topic} and {topic_id} is not there"
            )
        of_group, name, of_topic = commits[names[group]], names[topic], TopicId(names[topic_id])
        for row in range(at, at + length):
            of_group[TopicPartition(name, partitions[row])] = CommittedOffset(
                offsets[row], leader_epochs[row], texts.get(row, ""), of_topic
            )
        at += length
    if at != len(offsets):
        raise CorruptRecordError(f"commit record: {len(offsets) - at} rows belong to no group")
    return dict(commits)


def _column(code: str, numbers: Sequence[int]) -> bytes:
    data = pack(f">{len(numbers)}{code}", *numbers)
    width = struct.calcsize(f">{code}")
    return b"".join(data[byte::width] for byte in range(width))


def _read_columns(fields: FieldReader, codes: str) -> list[tuple[int, ...]]:
    (count,) = fields.numbers(_COUNT)
    columns: list[tuple[int, ...]] = []
    for code in codes:
        width = struct.calcsize(f">{code}")
        apart = fields.raw(width * count)
        data = bytearray(len(apart))
        for byte in range(width):
            data[byte::width] = apart[byte * count : (byte + 1) * count]
        columns.append(struct.unpack(f">{count}{code}", data))
    return columns
