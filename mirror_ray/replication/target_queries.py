"""Asking a target's brokers what its batches don't tell: where leader epochs ended, which producers are remembered.

Several copies may write one shared remote partition, each with an epoch and a producer of its own.
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


async def ask_where_epochs_ended(
    target: ClusterConnections, copies: Sequence[PartitionReplication], ends: Mapping[TopicPartition, LogEnd]
) -> dict[PartitionReplication, OffsetAnswer]:
    """Up to where each shared copy's log is the one that held its anchor.

    Those whose leader is the same one still, or whose anchor names no epoch, are left out.
    """
    wanted: list[dict[TopicPartition, PartitionReplication]] = []
    for copy in copies:
        partition, epoch = copy.assignment.target, copy.acknowledged.target_epoch
        if copy.needs_scan and 0 <= epoch < ends[partition].leader_epoch and not ends[partition].error_code:
            # A request names a partition once.
            turn = next((each for each in wanted if partition not in each), None)
            if turn is None:
                wanted.append(turn := {})
            turn[partition] = copy
    found: dict[PartitionReplication, OffsetAnswer] = {}
    for turn in wanted:
        epochs = {partition: copy.acknowledged.target_epoch for partition, copy in turn.items()}
        by_leader = _by_leader(target, turn)
        asked = [_epoch_ends(target, leader, led, epochs) for leader, led in by_leader.items()]
        for answers in await asyncio.gather(*asked):
            found |= {turn[partition]: answer for partition, answer in answers.items()}
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


async def ask_for_producers(
    target: ClusterConnections, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, KnownProducers]:
    """Which producers the leaders remember; none where a broker is too old to tell, or may not tell us."""
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
        log.info("broker %d does not tell which producers it remembers: %s", leader, error)
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
