"""Reading the last batch of target partitions: its header says who wrote it and with which sequence."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from mirror_ray.kafka import fetch
from mirror_ray.kafka.cluster import Cluster
from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.errors import NETWORK_EXCEPTION, OFFSET_OUT_OF_RANGE
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
        topic = cluster.metadata.topics[partition.topic]
        by_leader.setdefault(topic.partitions[partition.partition].leader, {})[partition] = end
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
            for partition, fetched in await _fetch_last(connection, ids, missing):
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


async def _fetch_last(
    connection: Connection, ids: Mapping[TopicPartition, TopicId], ends: Mapping[TopicPartition, int]
) -> list[tuple[TopicPartition, fetch.FetchedPartition]]:
    version = connection.best_version(fetch.API_KEY, fetch.LOWEST_VERSION, fetch.HIGHEST_VERSION)
    by_id = version >= fetch.FIRST_TOPIC_ID_VERSION
    keys = {fetch.PartitionKey(topic_id_bytes(ids[p]) if by_id else p.topic.encode(), p.partition): p for p in ends}
    offsets = {key: ends[partition] - 1 for key, partition in keys.items()}
    body = fetch.encode_fetch(version, _PARAMETERS, _NO_SESSION, offsets, [])
    answer = await connection.send(fetch.API_KEY, version, version >= fetch.FIRST_FLEXIBLE_VERSION, [body])
    return [(keys[fetched.key], fetched) for fetched in fetch.decode_fetch(version, answer).partitions]
