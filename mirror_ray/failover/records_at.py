"""Reads the records at many offsets of a partition in one sweep: each answer serves all offsets that it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final, NamedTuple

from mirror_ray.groups.cluster_groups import answered
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import protocol_error
from mirror_ray.kafka.fetch import FetchParameters
from mirror_ray.kafka.partition_reader import fetch_at
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.batch import RecordBatch, iter_batches
from mirror_ray.records.batch import verify as verify_checksum
from mirror_ray.records.decode import DecodedRecord, records_of
from mirror_ray.records.read_committed import CommittedOnly

#: A broker answers at least one batch whole, and little more; as much more as the offsets are close to one another.
_LEAST_BYTES: Final = 16 << 10
_MOST_BYTES: Final = 1 << 20
_FETCH: Final = FetchParameters(
    max_wait_ms=0, min_bytes=0, max_bytes=_MOST_BYTES, max_partition_bytes=_LEAST_BYTES, read_committed=True, rack=""
)


class Fingerprint(NamedTuple):
    """What tells a record from another one."""

    timestamp_ms: int
    #: The broker has set the timestamp.
    append_time: bool
    #: Of key, value and headers.
    digest: bytes


async def records_at(
    cluster: ClusterConnections,
    partition: TopicPartition,
    offsets: Sequence[int],
    end: int,
    *,
    committed: bool,
    compared: Callable[[bytes], bytes],
) -> dict[int, Fingerprint]:
    """The first record that a consumer sees from each offset on, where there is one before ``end``.

    ``offsets``: ascending. ``committed``: records of aborted transactions are none. ``compared``: what counts of a
    record's key, value and headers.
    """
    ids = {partition: cluster.metadata.topics[partition.topic].topic_id}
    connection = await answered(cluster, cluster.connect(cluster.metadata.leader(partition), "verify"))
    found: dict[int, Fingerprint] = {}
    most_bytes, position, done = _LEAST_BYTES, 0, 0
    while done < len(offsets) and (position := max(position, offsets[done])) < end:
        how = replace(_FETCH, max_partition_bytes=most_bytes, read_committed=committed)
        ((_, fetched),) = await answered(cluster, fetch_at(connection, ids, {partition: position}, how))
        if fetched.error_code:
            raise protocol_error(fetched.error_code, f"read {partition} from {position}")
        batches = list(iter_batches(fetched.records)) if len(fetched.records) else []
        if not batches:
            break
        before = done
        select = CommittedOnly(fetched.aborted if committed else ())
        for offset, record, append_time in _first_from(batches, select, offsets[done:]):
            digest = blake2b(compared(record.tail), digest_size=16).digest()
            found[offset] = Fingerprint(record.timestamp, append_time, digest)
            done += 1
        position = batches[-1].next_offset
        most_bytes = min(2 * most_bytes, _MOST_BYTES) if done - before > 1 else _LEAST_BYTES
    return found


def _first_from(
    batches: Sequence[RecordBatch], select: CommittedOnly, offsets: Sequence[int]
) -> Iterator[tuple[int, DecodedRecord, bool]]:
    """Yield offsets, from the first on, with the records that they lead to, as far as these are in the batches.

    The last of each: whether the broker has set the timestamp.
    """
    waiting = iter(offsets)
    wanted = next(waiting, None)
    for batch in batches:
        verify_checksum(batch)
        if not select.copies(batch) or wanted is None or batch.next_offset <= wanted:
            continue
        for record in records_of(batch):
            if wanted is None:
                break
            if record.offset < wanted:
                continue
            while wanted is not None and record.offset >= wanted:
                yield wanted, record, batch.is_log_append_time
                wanted = next(waiting, None)
