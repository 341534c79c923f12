"""Reading what target partitions hold: their last batch, whose header says who wrote it, or all from an offset on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from mirror_ray.kafka import fetch
from mirror_ray.kafka.cluster import Cluster
from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.errors import NETWORK_EXCEPTION, OFFSET_OUT_OF_RANGE, protocol_error
from mirror_ray.kafka.metadata import topic_id_bytes
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.records.batch import Batch, iter_batches, verify

log = logging.getLogger(__name__)

#: Session id 0 and epoch -1: a fetch outside any session (KIP-227).
_NO_SESSION = (0, -1)
#: A broker answers at least one batch whole, however large, and the rest as far as they fit.
_PARAMETERS = fetch.FetchParameters(
    max_wait_ms=0, min_bytes=0, max_bytes=16 << 20, max_partition_bytes=1 << 20, read_committed=False, rack=""
)
#: A new leader may not show yet what its predecessor has committed.
_NOTHING_YET_S = 0.01


@dataclass(slots=True)
class Tails:
    """Last batches found; for the others Kafka's error code. A partition whose log starts at its end is in neither."""

    batches: dict[TopicPartition, Batch] = field(default_factory=dict)
    errors: dict[TopicPartition, int] = field(default_factory=dict)


async def read_tails(
    cluster: Cluster, ids: Mapping[TopicPartition, TopicId], ends: Mapping[TopicPartition, int]
) -> Tails:
    """The batch that holds offset ``end - 1`` of each partition.

    A broker that can't be reached is an error of its partitions.
    """
    by_leader: dict[int, dict[TopicPartition, int]] = {}
    for partition, end in ends.items():
        by_leader.setdefault(cluster.metadata.leader(partition), {})[partition] = end
    tails = Tails()
    await asyncio.gather(*(_read(cluster, leader, ids, wanted, tails) for leader, wanted in by_leader.items()))
    return tails


async def _read(
    cluster: Cluster,
    leader: int,
    ids: Mapping[TopicPartition, TopicId],
    wanted: dict[TopicPartition, int],
    tails: Tails,
) -> None:
    missing = dict(wanted)
    try:
        connection = await cluster.connect(leader, "tails")
        while missing:
            offsets = {partition: end - 1 for partition, end in missing.items()}
            for partition, fetched in await _fetch_at(connection, ids, offsets):
                if fetched.error_code not in (0, OFFSET_OUT_OF_RANGE):
                    tails.errors[partition] = fetched.error_code
                elif len(fetched.records):
                    # The first of them: another copier of this flow may have written behind it meanwhile.
                    tail = iter_batches(fetched.records)[0]
                    verify(tail)
                    tails.batches[partition] = tail
                elif not fetched.error_code and fetched.log_start_offset < wanted[partition]:
                    continue
                missing.pop(partition)
    except (OSError, TimeoutError, MirrorError) as error:
        log.info("reading the ends of %d partitions from broker %d: %s", len(missing), leader, error)
        tails.errors.update(dict.fromkeys(missing, NETWORK_EXCEPTION))


async def read_between(
    cluster: Cluster, partition: TopicPartition, topic_id: TopicId, start: int, end: int
) -> AsyncIterator[Batch]:
    """Every batch of the partition that holds offsets from ``start`` to ``end``, which must be there.

    Raises:
        OSError, TimeoutError: The leader can't be reached.
        KafkaProtocolError: It answered with an error.
        CorruptBatchError: A batch does not fit its checksum.
    """
    connection = await cluster.connect(cluster.metadata.leader(partition), "tails")
    offset = start
    while offset < end:
        ((_, fetched),) = await _fetch_at(connection, {partition: topic_id}, {partition: offset})
        if fetched.error_code:
            raise protocol_error(fetched.error_code, f"read {partition} from {offset}")
        if not len(fetched.records):
            await asyncio.sleep(_NOTHING_YET_S)
            continue
        for batch in iter_batches(fetched.records):
            if batch.base_offset >= end:
                return
            if batch.next_offset > start:
                verify(batch)
                yield batch
            offset = batch.next_offset


async def _fetch_at(
    connection: Connection, ids: Mapping[TopicPartition, TopicId], offsets: Mapping[TopicPartition, int]
) -> list[tuple[TopicPartition, fetch.FetchedPartition]]:
    version = connection.best_version(fetch.API_KEY, fetch.LOWEST_VERSION, fetch.HIGHEST_VERSION)
    by_id = version >= fetch.FIRST_TOPIC_ID_VERSION
    keys = {fetch.PartitionKey(topic_id_bytes(ids[p]) if by_id else p.topic.encode(), p.partition): p for p in offsets}
    wanted = {key: fetch.FetchPosition(offsets[partition]) for key, partition in keys.items()}
    body = fetch.encode_fetch(version, _PARAMETERS, _NO_SESSION, wanted, [])
    answer = await connection.send(fetch.API_KEY, version, version >= fetch.FIRST_FLEXIBLE_VERSION, [body])
    return [(keys[fetched.key], fetched) for fetched in fetch.decode_fetch(version, answer).partitions]
