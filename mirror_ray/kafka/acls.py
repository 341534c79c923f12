"""ACLs of one cluster's topics and groups, and what they grant our principal.

``AclAdmin`` blocks: asyncio callers wrap calls in ``asyncio.to_thread``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, get_args

from confluent_kafka import KafkaError
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # imported there, not re-exported by name
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from kio.index import load_entity_module
from kio.static.constants import EntityType

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.admin_connection import AdminConnection, chunks
from mirror_ray.kafka.audit_log import AuditLog, recorded
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import protocol_error
from mirror_ray.model.acls import Acl, AclPattern, AclPermission, AclResource
from mirror_ray.model.cluster_change import ClusterChange
from mirror_ray.model.errors import MirrorError

_T = TypeVar("_T")

_DESCRIBE_KEY, _DESCRIBE_VERSIONS = 29, (1, 3)
#: From version 8 on the answer has authorized operations; up to 10 it has those on the cluster, too.
_METADATA_KEY, _METADATA_VERSIONS = 3, (9, 10)
_RESOURCES: Final[tuple[AclResource, ...]] = get_args(AclResource)
_PATTERNS: Final = {"LITERAL": ResourcePatternType.LITERAL, "PREFIXED": ResourcePatternType.PREFIXED}
#: What a broker that does not tell authorized operations sends instead.
_NO_OPERATIONS: Final = -(2**31)
_OPERATIONS: Final = {operation.value: operation.name for operation in AclOperation}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizedOperations:
    """What the brokers let our principal do, by ``AclOperation`` name; None where they don't say."""

    cluster: frozenset[str] | None
    topics: Mapping[str, frozenset[str] | None]


async def authorized_operations(cluster: ClusterConnections, topics: Collection[str]) -> AuthorizedOperations:
    """What our principal may do on the cluster and on these topics (KIP-430).

    A topic that does not exist is left out; on one that we may not even describe, nothing is granted.

    By a request of our own: librdkafka ends the process (``rd_kafka_admin_response_parse: Assertion rko_result``) when
    DescribeCluster is answered while every broker of the cluster is fenced.

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
    answer = await cluster.request(connection, request)
    granted: dict[str, frozenset[str] | None] = {}
    for topic in answer.topics:
        if not (code := int(topic.error_code)) or code == KafkaError.LEADER_NOT_AVAILABLE:
            granted[topic.name] = _operations(topic.topic_authorized_operations)
        elif code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            granted[topic.name] = frozenset()
    return AuthorizedOperations(cluster=_operations(answer.cluster_authorized_operations), topics=granted)


async def describe_acls(cluster: ClusterConnections) -> frozenset[Acl] | None:
    """Every ACL on topics and groups; None where the cluster has no authorizer.

    By a request of our own: librdkafka's answer has no ACLs both where they are refused and where there are none.

    Raises:
        ClusterUnreachableError: No broker answers.
        KafkaProtocolError: DESCRIBE is not granted on the cluster.
    """
    connection = await cluster.any_connection()
    version = connection.best_version(_DESCRIBE_KEY, *_DESCRIBE_VERSIONS)
    module: Any = load_entity_module("describe_acls", version, EntityType.request)
    acls = set[Acl]()
    for resource in _RESOURCES:
        request = module.DescribeAclsRequest(
            resource_type_filter=ResourceType[resource].value,
            resource_name_filter=None,
            pattern_type_filter=ResourcePatternType.ANY.value,
            principal_filter=None,
            host_filter=None,
            operation=AclOperation.ANY.value,
            permission_type=AclPermissionType.ANY.value,
        )
        answer = await cluster.request(connection, request)
        if (code := int(answer.error_code)) == KafkaError.SECURITY_DISABLED:
            return None
        if code:
            raise protocol_error(
                code, f"describe the ACLs of every {resource.lower()} on cluster {cluster.settings.alias}"
            )
        acls.update(acl for described in answer.resources for acl in _acls_of(resource, described))
    return frozenset(acls)


class AclAdmin(AdminConnection):
    """Changes ACLs; needs ALTER on the cluster."""

    def __init__(self, cluster: ClusterSettings, client_id: str, audit_log: AuditLog) -> None:
        super().__init__(cluster, client_id)
        self._audit_log = audit_log

    def create(self, acls: Collection[Acl]) -> dict[Acl, MirrorError | None]:
        """Create ACLs, each with its outcome; one that exists already is no error."""

        def act() -> dict[Acl, MirrorError | None]:
            outcomes: dict[Acl, MirrorError | None] = {}
            for chunk in chunks(acls):
                by_binding = {_built(AclBinding, acl): acl for acl in chunk}
                futures = self._call(self._client.create_acls, list(by_binding))
                by_acl = {by_binding[binding]: future for binding, future in futures.items()}
                outcomes.update(self._settle(by_acl, "create the ACL {}"))
            return outcomes

        changes = {acl: self._change("create_acl", acl, after=str(acl), why="on the source") for acl in acls}
        return recorded(self._audit_log, changes, act)

    def delete(self, acls: Collection[Acl]) -> dict[Acl, MirrorError | None]:
        """Delete ACLs, each with its outcome; one that does not exist any more is no error."""

        def act() -> dict[Acl, MirrorError | None]:
            outcomes: dict[Acl, MirrorError | None] = {}
            for chunk in chunks(acls):
                by_filter = {_built(AclBindingFilter, acl): acl for acl in chunk}
                futures = self._call(self._client.delete_acls, list(by_filter))
                by_acl = {by_filter[acl_filter]: future for acl_filter, future in futures.items()}
                for acl, answer in self._settle(by_acl, "delete the ACL {}").items():
                    outcomes[acl] = answer if isinstance(answer, MirrorError) else None
            return outcomes

        changes = {acl: self._change("delete_acl", acl, before=str(acl), why="no longer on the source") for acl in acls}
        return recorded(self._audit_log, changes, act)

    def _change(
        self, kind: str, acl: Acl, *, before: str | None = None, after: str | None = None, why: str
    ) -> ClusterChange:
        subject = f"{acl.resource.lower()} {acl.name}"
        return ClusterChange(
            kind=kind, cluster=self.cluster.alias, subject=subject, before=before, after=after, why=why
        )


def _operations(bits: int) -> frozenset[str] | None:
    if bits == _NO_OPERATIONS:
        return None
    return frozenset(name for value, name in _OPERATIONS.items() if bits & 1 << value)


def _acls_of(resource: AclResource, described: Any) -> Iterator[Acl]:
    pattern: AclPattern = "PREFIXED" if described.pattern_type == ResourcePatternType.PREFIXED.value else "LITERAL"
    for acl in described.acls:
        permission: AclPermission = "DENY" if acl.permission_type == AclPermissionType.DENY.value else "ALLOW"
        yield Acl(
            resource=resource,
            name=described.resource_name,
            pattern=pattern,
            principal=acl.principal,
            host=acl.host,
            operation=AclOperation(acl.operation).name,
            permission=permission,
        )


def _built(kind: Callable[..., _T], acl: Acl) -> _T:
    return kind(
        ResourceType[acl.resource],
        acl.name,
        _PATTERNS[acl.pattern],
        acl.principal,
        acl.host,
        AclOperation[acl.operation],
        AclPermissionType[acl.permission],
    )
