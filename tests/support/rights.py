"""Rights on a cluster with an authorizer."""

from __future__ import annotations

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.support.clusters import KafkaCluster


def grant(cluster: KafkaCluster, topic: str, *operations: AclOperation) -> None:
    """Grant alice operations on a topic."""
    admin = AdminClient(dict(cluster.confluent_config()))
    bindings = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            "User:alice",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for operation in operations
    ]
    for future in admin.create_acls(bindings).values():
        future.result(20)
