"""ACLs of one cluster's topics and groups. ``AclAdmin`` blocks: asyncio callers wrap calls in ``asyncio.to_thread``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
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
from mirror_ray.model.errors import ClusterUnreachableError, MirrorError

_T = TypeVar("_T")

_DESCRIBE_KEY, _DESCRIBE_VERSIONS = 29, (1, 3)
_RESOURCES: Final[tuple[AclResource, ...]] = get_args(AclResource)
_PATTERNS: Final = {"LITERAL": ResourcePatternType.LITERAL, "PREFIXED": ResourcePatternType.PREFIXED}


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
    alias, acls = cluster.settings.alias, set[Acl]()
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
        try:
            answer = await connection.request(request)
        except ConnectionError as error:
            raise ClusterUnreachableError(f"cluster {alias}: {error}; is the broker up?") from error
        if (code := int(answer.error_code)) == KafkaError.SECURITY_DISABLED:
            return None
        if code:
            raise protocol_error(code, f"describe the ACLs of every {resource.lower()} on cluster {alias}")
        acls.update(acl for found in answer.resources for acl in _acls_of(resource, found))
    return frozenset(acls)


class AclAdmin(AdminConnection):
    """Changes ACLs; needs ALTER on the cluster."""

    def __init__(self, cluster: ClusterSettings, client_id: str, trail: AuditLog) -> None:
        """``trail``: keeps what is changed."""
        super().__init__(cluster, client_id)
        self._trail = trail

    def create(self, acls: Collection[Acl]) -> dict[Acl, MirrorError | None]:
        """Create ACLs, each with its outcome; one that is there already is no error."""

        def act() -> dict[Acl, MirrorError | None]:
            outcomes: dict[Acl, MirrorError | None] = {}
            for chunk in chunks(acls):
                by_binding = {_built(AclBinding, acl): acl for acl in chunk}
                futures = self._call(self._client.create_acls, list(by_binding))
                by_acl = {by_binding[binding]: future for binding, future in futures.items()}
                outcomes.update(self._settle(by_acl, "create the ACL {}"))
            return outcomes

        why = "on the source"
        told = {acl: self._change("create_acl", acl, after=str(acl), why=why) for acl in acls}
        return recorded(self._trail, told, act)

    def delete(self, acls: Collection[Acl]) -> dict[Acl, MirrorError | None]:
        """Delete ACLs, each with its outcome; one that is gone already is no error."""

        def act() -> dict[Acl, MirrorError | None]:
            outcomes: dict[Acl, MirrorError | None] = {}
            for chunk in chunks(acls):
                by_filter = {_built(AclBindingFilter, acl): acl for acl in chunk}
                futures = self._call(self._client.delete_acls, list(by_filter))
                by_acl = {by_filter[wanted]: future for wanted, future in futures.items()}
                for acl, answer in self._settle(by_acl, "delete the ACL {}").items():
                    outcomes[acl] = answer if isinstance(answer, MirrorError) else None
            return outcomes

        why = "no longer on the source"
        told = {acl: self._change("delete_acl", acl, before=str(acl), why=why) for acl in acls}
        return recorded(self._trail, told, act)

    def _change(
        self, kind: str, acl: Acl, *, before: str | None = None, after: str | None = None, why: str
    ) -> ClusterChange:
        subject = f"{acl.resource.lower()} {acl.name}"
        return ClusterChange(
            kind=kind, cluster=self.cluster.alias, subject=subject, before=before, after=after, why=why
        )


def _acls_of(resource: AclResource, found: Any) -> Iterator[Acl]:
    """What a response says of one resource."""
    pattern: AclPattern = "PREFIXED" if found.pattern_type == ResourcePatternType.PREFIXED.value else "LITERAL"
    for each in found.acls:
        permission: AclPermission = "DENY" if each.permission_type == AclPermissionType.DENY.value else "ALLOW"
        yield Acl(
            resource=resource,
            name=found.resource_name,
            pattern=pattern,
            principal=each.principal,
            host=each.host,
            operation=AclOperation(each.operation).name,
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
