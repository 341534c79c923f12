"""Makes the data: topics of batches of exactly the size that is asked for, held back until they are opened."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final, cast

from crc32c import crc32c

from mirror_ray.lab.bench.clients import create_topic
from mirror_ray.lab.bench.measurements import DataSpec
from mirror_ray.lab.bench.wire import Wire
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.records.batch import TRANSACTIONAL_BIT, Codec
from mirror_ray.records.decode import DecodedRecord, prefixed, write_varint
from mirror_ray.records.repack import encode

#: The longest that a broker allows by default; a sitting is shorter.
_TRANSACTION_MS: Final = 900_000
_SEED: Final = 7
_WORD_BYTES: Final = 20
#: Of the number that each record begins with.
_NUMBER_BYTES: Final = 10
_CRC_AT, _CRC_FROM, _PRODUCER_AT = 17, 21, 43
_LENGTH_AT: Final = 8


class PreparedTopics:
    """Ready batches, made once for all that need them and kept in files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._made: dict[DataSpec, Path] = {}

    def batches(self, data: DataSpec) -> list[bytes]:
        """The batches of a topic, in their order; the partitions take them in turn."""
        if data not in self._made:
            path = self._directory / f"{len(self._made)}.batches"
            with path.open("wb") as file:
                file.writelines(_make(data))
            self._made[data] = path
        return list(_split(self._made[data].read_bytes()))


class Backlog:
    """The records of one topic, written within one transaction: committed readers see none before `open`."""

    def __init__(self, cluster: DevCluster, topic: str, data: DataSpec, shelf: PreparedTopics) -> None:
        """Create the topic and fill it. The cluster has one broker.

        Raises:
            MirrorError: The cluster did not take it.
        """
        self.topic = topic
        self.data = data
        self._address = cluster.bootstrap
        create_topic(cluster, topic, data.partitions, data.configs())
        with Wire(self._address) as wire:
            self._producer = wire.begin(topic, _TRANSACTION_MS)
            wire.add_partitions(topic, self._producer, topic, data.partitions)
            wire.produce(topic, _within(self._producer, data, shelf.batches(data)), transactional_id=topic)

    def open(self) -> None:
        """Let all of it be seen, at once."""
        with Wire(self._address) as wire:
            wire.commit(self.topic, self._producer)


def fill(cluster: DevCluster, topic: str, data: DataSpec, shelf: PreparedTopics) -> None:
    """Create a topic and fill it, to be seen at once. The cluster has one broker.

    Raises:
        MirrorError: The cluster did not take it.
    """
    create_topic(cluster, topic, data.partitions, data.configs())
    with Wire(cluster.bootstrap) as wire:
        wire.produce(topic, rounds(data, shelf.batches(data)))


def rounds(data: DataSpec, batches: list[bytes]) -> Iterator[dict[int, bytes]]:
    """A batch for each partition, again and again."""
    for start in range(0, len(batches), data.partitions):
        yield dict(enumerate(batches[start : start + data.partitions]))


def _within(producer: tuple[int, int], data: DataSpec, batches: list[bytes]) -> Iterator[dict[int, bytearray]]:
    """The same as batches of a transaction."""
    sequences = [0] * data.partitions
    for batch_of in rounds(data, batches):
        written = {}
        for partition, batch in batch_of.items():
            sealed = bytearray(batch)
            attributes, last = struct.unpack_from(">hi", sealed, _CRC_FROM)
            struct.pack_into(">h", sealed, _CRC_FROM, attributes | TRANSACTIONAL_BIT)
            struct.pack_into(">qhi", sealed, _PRODUCER_AT, *producer, sequences[partition])
            struct.pack_into(">I", sealed, _CRC_AT, crc32c(memoryview(sealed)[_CRC_FROM:]))
            sequences[partition] += last + 1
            written[partition] = sealed
        yield written


def _split(batches: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(batches):
        size = struct.unpack_from(">i", batches, at + _LENGTH_AT)[0] + 12
        yield batches[at : at + size]
        at += size


def _make(data: DataSpec) -> Iterator[memoryview]:
    """Each record begins with its number; what follows is words, so that it compresses as text does."""
    chance = random.Random(_SEED)  # noqa: S311 - the same data every time is what is wanted
    words = [chance.randbytes(_WORD_BYTES // 2).hex().encode() for _ in range(1000)]
    length = data.record_bytes - _NUMBER_BYTES
    # No header follows the value.
    tails = [b" ".join(chance.choices(words, k=length // _WORD_BYTES + 1))[:length] + b"\0" for _ in range(4999)]
    keys = [prefixed(b"key %d" % number) for number in range(data.keys)]
    no_key, size = prefixed(None), write_varint(data.record_bytes)
    numbers = count()
    now_ms = time.time_ns() // 1_000_000
    for start in range(0, data.records, data.batch_records):
        records = []
        for _ in range(min(data.batch_records, data.records - start)):
            number = next(numbers)
            key = keys[chance.randrange(data.keys)] if data.keys else no_key
            records.append(
                DecodedRecord(number, now_ms, b"%s%s%010d%s" % (key, size, number, tails[number % len(tails)]))
            )
        batch = encode(records, cast(Codec, data.codec)).view
        struct.pack_into(">q", batch, 0, 0)
        yield batch
