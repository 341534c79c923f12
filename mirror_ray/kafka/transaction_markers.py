"""Markers of aborted transactions, written to the leaders of partitions directly (WriteTxnMarkers, KIP-98).

Kafka's tools end hanging transactions so (KIP-664); brokers want ALTER or CLUSTER_ACTION on the cluster for it. A
marker takes one offset, and no consumer sees it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from kio.index import load_entity_module
from kio.static.constants import EntityType

from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.errors import error_info
from mirror_ray.model.names import TopicPartition

NOT_AUTHORIZED: Final = "CLUSTER_AUTHORIZATION_FAILED"

_KEY, _VERSIONS = 27, (0, 1)


class Markers(NamedTuple):
    """How many a partition gets, and by which coordinator epoch: its leader refuses those of a lower one later on."""

    number: int
    coordinator_epoch: int


async def write_markers(
    connection: Connection, producer: tuple[int, int], markers: Mapping[TopicPartition, Markers]
) -> dict[TopicPartition, str]:
    """Append markers to partitions of this broker, as of a transaction of ``producer``.

    Returns:
        Kafka's errors of the partitions that have one; in the logs of the others all in-sync replicas have the markers.

    Raises:
        ConnectionError: It is not known which were appended.
    """
    module: Any = load_entity_module("write_txn_markers", connection.best_version(_KEY, *_VERSIONS), EntityType.request)
    producer_id, producer_epoch = producer
    answer = await connection.request(
        module.WriteTxnMarkersRequest(
            markers=tuple(
                module.WritableTxnMarker(
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    transaction_result=False,
                    topics=(module.WritableTxnMarkerTopic(name=topic, partition_indexes=(number,)),),
                    coordinator_epoch=wanted.coordinator_epoch,
                )
                for (topic, number), wanted in markers.items()
                for _ in range(wanted.number)
            )
        )
    )
    return {partition: error_info(code).name for partition, code in _codes(answer) if code}


def _codes(answer: Any) -> Iterator[tuple[TopicPartition, int]]:
    for marker in answer.markers:
        for topic in marker.topics:
            for found in topic.partitions:
                yield TopicPartition(topic.name, found.partition_index), int(found.error_code)
