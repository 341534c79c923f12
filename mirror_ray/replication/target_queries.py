"""Asking a target's brokers what its batches don't show: where leader epochs ended, and the state of producers.

Several source partitions may be copied into one shared remote partition, each with an epoch and a producer of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence

from mirror_ray.kafka.cluster import CONTROL, ClusterConnections
from mirror_ray.kafka.errors import NETWORK_EXCEPTION
from mirror_ray.kafka.leader_requests import KnownProducers, LogEnd, OffsetAnswer, epoch_ends, known_producers
from mirror_ray.kafka.metadata import PartitionMetadata
from mirror_ray.model.errors import KafkaProtocolError, MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.replication.partition import PartitionReplication

log = logging.getLogger(__name__)


async def query_epoch_ends(
    target: ClusterConnections, copies: Sequence[PartitionReplication], ends: Mapping[TopicPartition, LogEnd]
) -> dict[PartitionReplication, OffsetAnswer]:
    """Find up to where each shared log is the one that held the acknowledged pair.

    Partitions with the same leader epoch as then, or whose pair has no epoch, are left out.
    """
    rounds: list[dict[TopicPartition, PartitionReplication]] = []
    for copy in copies:
        partition, pair = copy.assignment.target, copy.acknowledged
        end = ends[partition]
        if copy.needs_scan and pair.is_of_earlier_leader(end.leader_epoch) and not end.error_code:
            # A request names a partition once.
            free = next((asked for asked in rounds if partition not in asked), None)
            if free is None:
                rounds.append(free := {})
            free[partition] = copy
    found: dict[PartitionReplication, OffsetAnswer] = {}
    for asked in rounds:
        epochs = {partition: copy.acknowledged.target_epoch for partition, copy in asked.items()}
        by_leader = _by_leader(target, asked)
        queries = [_epoch_ends(target, leader, led, epochs) for leader, led in by_leader.items()]
        for answers in await asyncio.gather(*queries):
            found |= {asked[partition]: answer for partition, answer in answers.items()}
    return found


async def _epoch_ends(
    target: ClusterConnections,
    leader: int,
    led: Mapping[TopicPartition, PartitionMetadata],
    epochs: Mapping[TopicPartition, int],
) -> Mapping[TopicPartition, OffsetAnswer]:
    try:
        return await epoch_ends(await target.connect(leader, CONTROL), led, epochs)
    except (OSError, TimeoutError, MirrorError) as error:
        log.info("asking broker %d for the ends of epochs: %s", leader, error)
        return dict.fromkeys(led, OffsetAnswer(-1, NETWORK_EXCEPTION))


async def query_producers(
    target: ClusterConnections, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, KnownProducers]:
    """Read the leaders' producer states; none where a broker is too old for that, or we lack the right."""
    by_leader = _by_leader(target, partitions)
    found: dict[TopicPartition, KnownProducers] = {}
    for answers in await asyncio.gather(*(_producers(target, leader, led) for leader, led in by_leader.items())):
        found |= answers
    return found


async def _producers(
    target: ClusterConnections, leader: int, led: Collection[TopicPartition]
) -> Mapping[TopicPartition, KnownProducers]:
    try:
        return await known_producers(await target.connect(leader, CONTROL), led)
    except KafkaProtocolError as error:
        log.info("broker %d does not describe its producers: %s", leader, error)
        return dict.fromkeys(led, KnownProducers({}))
    except (OSError, TimeoutError, MirrorError) as error:
        log.info("asking broker %d for producers: %s", leader, error)
        return dict.fromkeys(led, KnownProducers({}, NETWORK_EXCEPTION))


def _by_leader(
    target: ClusterConnections, partitions: Collection[TopicPartition]
) -> dict[int, dict[TopicPartition, PartitionMetadata]]:
    by_leader: dict[int, dict[TopicPartition, PartitionMetadata]] = {}
    for partition in partitions:
        metadata = target.metadata.partition(partition)
        if metadata is not None:
            by_leader.setdefault(metadata.leader, {})[partition] = metadata
    return by_leader
