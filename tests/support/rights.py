"""Rights of alice on a cluster with an authorizer."""

from __future__ import annotations

from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.support.clusters import KafkaCluster


def acl(
    name: str,
    operation: AclOperation,
    kind: type[AclBinding | AclBindingFilter] = AclBinding,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    resource: ResourceType = ResourceType.TOPIC,
) -> Any:
    """An ACL of alice, of a topic unless another resource is named; or a filter that finds it."""
    return kind(resource, name, pattern, "User:alice", "*", operation, permission)


def grant(cluster: KafkaCluster, topic: str, *operations: AclOperation) -> None:
    """Grant alice operations on a topic."""
    create_acls(cluster, *(acl(topic, operation) for operation in operations))


def create_acls(cluster: KafkaCluster, *acls: AclBinding) -> None:
    """Create ACLs."""
    admin = AdminClient(dict(cluster.confluent_config()))
    for future in admin.create_acls(list(acls)).values():
        future.result(20)


def revoke(cluster: KafkaCluster, *acls: AclBindingFilter) -> None:
    """Delete ACLs, all of which must be there."""
    admin = AdminClient(dict(cluster.confluent_config()))
    for future in admin.delete_acls(list(acls)).values():
        assert future.result(20)


def granted(cluster: KafkaCluster, topic: str) -> set[AclOperation]:
    """What alice may do with a topic, as the brokers have it; she needs DESCRIBE to ask."""
    admin = AdminClient(dict(cluster.confluent_config("alice")))
    asked = admin.describe_topics(TopicCollection([topic]), include_authorized_operations=True)
    return set(asked[topic].result(20).authorized_operations)
