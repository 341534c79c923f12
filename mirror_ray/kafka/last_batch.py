"""Reading the last batch of target partitions, whose header names its producer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import NETWORK_EXCEPTION, OFFSET_OUT_OF_RANGE
from mirror_ray.kafka.partition_reader import fetch_at
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.records.batch import RecordBatch, iter_batches, verify

log = logging.getLogger(__name__)


@dataclass(slots=True)
class LastBatches:
    """The last batches, or Kafka's error codes. A partition whose log is empty is in neither."""

    batches: dict[TopicPartition, RecordBatch] = field(default_factory=dict)
    errors: dict[TopicPartition, int] = field(default_factory=dict)


async def read_last_batches(
    cluster: ClusterConnections, ids: Mapping[TopicPartition, TopicId], ends: Mapping[TopicPartition, int]
) -> LastBatches:
    """Read the batch that holds offset ``end - 1`` of each partition.

    A broker that can't be reached is an error of its partitions.
    """
    by_leader: dict[int, dict[TopicPartition, int]] = {}
    for partition, end in ends.items():
        by_leader.setdefault(cluster.metadata.leader(partition), {})[partition] = end
    found = LastBatches()
    await asyncio.gather(*(_read(cluster, leader, ids, wanted, found) for leader, wanted in by_leader.items()))
    return found


async def _read(
    cluster: ClusterConnections,
    leader: int,
    ids: Mapping[TopicPartition, TopicId],
    wanted: dict[TopicPartition, int],
    found: LastBatches,
) -> None:
    missing = dict(wanted)
    try:
        connection = await cluster.connect(leader, "tails")
        while missing:
            offsets = {partition: end - 1 for partition, end in missing.items()}
            for partition, fetched in await fetch_at(connection, ids, offsets):
                if fetched.error_code not in (0, OFFSET_OUT_OF_RANGE):
                    found.errors[partition] = fetched.error_code
                elif len(fetched.records):
                    # The first of them: another replicator of this flow may have written behind it meanwhile.
                    batch = iter_batches(fetched.records)[0]
                    verify(batch)
                    found.batches[partition] = batch
                elif not fetched.error_code and fetched.log_start_offset < wanted[partition]:
                    continue
                missing.pop(partition)
    except (OSError, TimeoutError, MirrorError) as error:
        log.info("reading the last batches of %d partitions from broker %d: %s", len(missing), leader, error)
        found.errors.update(dict.fromkeys(missing, NETWORK_EXCEPTION))
