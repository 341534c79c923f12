"""What the brokers let our principal do (KIP-430).

Asked over a raw connection: librdkafka ends the process (``rd_kafka_admin_response_parse: Assertion rko_result``) when
DescribeCluster is answered while every broker of the cluster is fenced.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]  # imported there, not re-exported by name
from kio.index import load_entity_module
from kio.static.constants import EntityType

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.errors import ClusterUnreachableError

#: From 8 on the answer has authorized operations; up to 10 it has those on the cluster, too.
_METADATA_KEY, _METADATA_VERSIONS = 3, (9, 10)
#: How Kafka writes that it does not tell.
_NOT_TOLD: Final = -(2**31)
_OPERATIONS: Final = {each.value: each.name for each in AclOperation}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizedOperations:
    """What the brokers let our principal do, by ``AclOperation`` name; None where they don't say."""

    cluster: frozenset[str] | None
    topics: Mapping[str, frozenset[str] | None]


async def authorized_operations(cluster: ClusterConnections, topics: Collection[str]) -> AuthorizedOperations:
    """What our principal may do on the cluster and on these topics.

    A topic that does not exist is left out; on one that we may not even describe, nothing is granted.

    Raises:
        ClusterUnreachableError: No broker answers.
        KafkaProtocolError: The broker speaks no version that we know.
    """
    connection = await cluster.any_connection()
    version = connection.best_version(_METADATA_KEY, *_METADATA_VERSIONS)
    module: Any = load_entity_module("metadata", version, EntityType.request)
    with_id = {"topic_id": None} if version >= 10 else {}
    request = module.MetadataRequest(
        topics=tuple(module.MetadataRequestTopic(name=name, **with_id) for name in topics),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    try:
        answer = await connection.request(request)
    except ConnectionError as error:
        raise ClusterUnreachableError(f"cluster {cluster.settings.alias}: {error}; is the broker up?") from error
    granted: dict[str, frozenset[str] | None] = {}
    for topic in answer.topics:
        if not (code := int(topic.error_code)) or code == KafkaError.LEADER_NOT_AVAILABLE:
            granted[topic.name] = _operations(topic.topic_authorized_operations)
        elif code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            granted[topic.name] = frozenset()
    return AuthorizedOperations(cluster=_operations(answer.cluster_authorized_operations), topics=granted)


def _operations(bits: int) -> frozenset[str] | None:
    if bits == _NOT_TOLD:
        return None
    return frozenset(name for value, name in _OPERATIONS.items() if bits & 1 << value)
