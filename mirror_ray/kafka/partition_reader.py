"""Reads a range of one partition, outside any fetch session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

from mirror_ray.kafka import fetch
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.errors import protocol_error
from mirror_ray.kafka.metadata import topic_id_bytes
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.records.batch import RecordBatch, iter_batches, verify

#: Session id 0 and epoch -1: a fetch outside any session (KIP-227).
_NO_SESSION = (0, -1)
#: A broker answers at least one batch whole, however large, and the rest as far as they fit.
_PARAMETERS = fetch.FetchParameters(
    max_wait_ms=0, min_bytes=0, max_bytes=16 << 20, max_partition_bytes=1 << 20, read_committed=False, rack=""
)
_COMMITTED = replace(_PARAMETERS, read_committed=True)
#: Between fetches while a new leader does not have its predecessor's high watermark yet.
_RETRY_S = 0.01

#: (producer id, first offset) of transactions that were aborted.
Aborted = Sequence[tuple[int, int]]


async def read_between(
    cluster: ClusterConnections,
    partition: TopicPartition,
    topic_id: TopicId,
    start: int,
    end: int,
    *,
    read_committed: bool = False,
    purpose: str = "tails",
) -> AsyncIterator[tuple[list[RecordBatch], Aborted]]:
    """Yield the batches of the partition with offsets from ``start`` to before ``end``, which must exist.

    They are yielded as they were fetched; under ``read_committed`` with the aborted transactions that reach into them.

    Raises:
        OSError, TimeoutError: The leader can't be reached.
        KafkaProtocolError: It answered with an error.
        CorruptBatchError: A batch does not fit its checksum.
    """
    connection = await cluster.connect(cluster.metadata.leader(partition), purpose)
    parameters = _COMMITTED if read_committed else _PARAMETERS
    offset = start
    while offset < end:
        ((_, fetched),) = await fetch_at(connection, {partition: topic_id}, {partition: offset}, parameters)
        if fetched.error_code:
            raise protocol_error(fetched.error_code, f"read {partition} from {offset}")
        if not len(fetched.records):
            await asyncio.sleep(_RETRY_S)
            continue
        batches = batches_before(end, iter_batches(fetched.records))
        for batch in batches:
            verify(batch)
        yield batches, fetched.aborted
        offset = batches[-1].next_offset if batches else end


def batches_before(end: int, batches: Sequence[RecordBatch]) -> list[RecordBatch]:
    """The batches of an ascending sequence that may hold offsets before ``end``.

    The base offset of compressed messages of magic 0 and 1 is that of the last record inside the first of them.
    """
    found: list[RecordBatch] = []
    for batch in batches:
        if batch.base_offset >= end and batch.magic == 2:
            break
        found.append(batch)
        if batch.next_offset >= end:
            break
    return found


async def fetch_at(
    connection: Connection,
    ids: Mapping[TopicPartition, TopicId],
    offsets: Mapping[TopicPartition, int] | Mapping[TopicPartition, fetch.FetchPosition],
    parameters: fetch.FetchParameters = _PARAMETERS,
) -> list[tuple[TopicPartition, fetch.FetchedPartition]]:
    """Fetch once from these offsets; over a quota, wait until the broker allows it.

    Raises:
        ConnectionError: The connection was lost, or the answer is to another request.
        KafkaProtocolError: The answer is an error, or has no partition.
    """
    version = connection.best_version(fetch.API_KEY, fetch.LOWEST_VERSION, fetch.HIGHEST_VERSION)
    by_id = version >= fetch.FIRST_TOPIC_ID_VERSION
    keys = {fetch.PartitionKey(topic_id_bytes(ids[p]) if by_id else p.topic.encode(), p.partition): p for p in offsets}
    wanted = {key: _position(offsets[partition]) for key, partition in keys.items()}
    body = fetch.encode_fetch(version, parameters, _NO_SESSION, wanted, [])
    while True:
        answer = await connection.send(fetch.API_KEY, version, version >= fetch.FIRST_FLEXIBLE_VERSION, [body])
        response = fetch.decode_fetch(version, answer)
        if response.partitions:
            if any(fetched.key not in keys for fetched in response.partitions):
                connection.abort("its answer to Fetch has partitions that were not asked for")
                raise ConnectionError(f"{connection.name}: its answer to Fetch has partitions that were not asked for")
            return [(keys[fetched.key], fetched) for fetched in response.partitions]
        if response.error_code or not response.throttle_ms:
            raise protocol_error(response.error_code, f"fetch {', '.join(map(str, offsets))}")
        # Over a quota a broker answers at once without any partition, and mutes the connection for so long (KIP-219).
        connection.expect_silence(response.throttle_ms / 1000)
        await asyncio.sleep(response.throttle_ms / 1000)


def _position(offset: int | fetch.FetchPosition) -> fetch.FetchPosition:
    return offset if isinstance(offset, fetch.FetchPosition) else fetch.FetchPosition(offset)
