"""Makes the data: topics with batches of exactly the wanted size, held back until they are opened."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final, cast

from crc32c import crc32c

from mirror_ray.lab.bench.measurements import DataSpec
from mirror_ray.lab.bench.raw_connection import RawConnection
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.kafka_client import create_topic
from mirror_ray.records.batch import TRANSACTIONAL_BIT, Codec
from mirror_ray.records.decode import DecodedRecord, prefixed, write_varint
from mirror_ray.records.repack import encode

#: The longest that a broker allows by default; the run of a contender is shorter.
_TRANSACTION_MS: Final = 900_000
_SEED: Final = 7
_WORD_BYTES: Final = 20
#: Each record begins with its number, in so many digits.
_NUMBER_BYTES: Final = 10
_CRC_AT, _CRC_FROM, _PRODUCER_AT = 17, 21, 43
_LENGTH_AT: Final = 8


class PreparedTopics:
    """Ready batches, made once for each specification and kept in files."""

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

    def __init__(self, cluster: DevCluster, topic: str, data: DataSpec, prepared: PreparedTopics) -> None:
        """Create the topic and fill it. The cluster has one broker. Raises MirrorError if the cluster refuses it."""
        self.topic = topic
        self.data = data
        self._address = cluster.bootstrap
        create_topic(cluster, topic, data.partitions, data.configs())
        with RawConnection(self._address) as connection:
            self._producer = connection.begin(topic, _TRANSACTION_MS)
            connection.add_partitions(topic, self._producer, topic, data.partitions)
            connection.produce(
                topic, _transactional(self._producer, data, prepared.batches(data)), transactional_id=topic
            )

    def open(self) -> None:
        """Commit the transaction: all records become visible at once."""
        with RawConnection(self._address) as connection:
            connection.commit(self.topic, self._producer)


def fill(cluster: DevCluster, topic: str, data: DataSpec, prepared: PreparedTopics | None = None) -> None:
    """Create a topic on a cluster of one broker and fill it. Raises MirrorError if the cluster refuses it."""
    create_topic(cluster, topic, data.partitions, data.configs())
    with RawConnection(cluster.bootstrap) as connection:
        batches = prepared.batches(data) if prepared is not None else list(map(bytes, _make(data)))
        connection.produce(topic, rounds(data, batches))


def rounds(data: DataSpec, batches: list[bytes]) -> Iterator[dict[int, bytes]]:
    """The batches in rounds of one for each partition."""
    for start in range(0, len(batches), data.partitions):
        yield dict(enumerate(batches[start : start + data.partitions]))


def _transactional(producer: tuple[int, int], data: DataSpec, batches: list[bytes]) -> Iterator[dict[int, bytearray]]:
    """The batches in rounds, as the producer's transaction has them."""
    sequences = [0] * data.partitions
    for one_round in rounds(data, batches):
        written = {}
        for partition, batch in one_round.items():
            sealed = bytearray(batch)
            attributes, last = struct.unpack_from(">hi", sealed, _CRC_FROM)
            struct.pack_into(">h", sealed, _CRC_FROM, attributes | TRANSACTIONAL_BIT)
            struct.pack_into(">qhi", sealed, _PRODUCER_AT, *producer, sequences[partition])
            struct.pack_into(">I", sealed, _CRC_AT, crc32c(memoryview(sealed)[_CRC_FROM:]))
            sequences[partition] += last + 1
            written[partition] = sealed
        yield written


def _split(batches: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(batches):
        size = struct.unpack_from(">i", batches, start + _LENGTH_AT)[0] + 12
        yield batches[start : start + size]
        start += size


def _make(data: DataSpec) -> Iterator[memoryview]:
    """Each record begins with its number; what follows is words, so that it compresses as text does."""
    chance = random.Random(_SEED)  # noqa: S311 - the same data every time is what is wanted
    words = [chance.randbytes(_WORD_BYTES // 2).hex().encode() for _ in range(1000)]
    length = data.record_bytes - _NUMBER_BYTES
    # Each ends with the number of headers: none.
    values = [b" ".join(chance.choices(words, k=length // _WORD_BYTES + 1))[:length] + b"\0" for _ in range(4999)]
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
                DecodedRecord(number, now_ms, b"%s%s%010d%s" % (key, size, number, values[number % len(values)]))
            )
        batch = encode(records, cast(Codec, data.codec)).view
        struct.pack_into(">q", batch, 0, 0)
        yield batch
