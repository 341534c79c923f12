"""ACLs of one cluster's topics and groups. Blocking: asyncio callers wrap calls in ``asyncio.to_thread``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, TypeVar, cast, get_args

from confluent_kafka import KafkaError
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # imported there, not re-exported by name
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from mirror_ray.kafka.admin_connection import AdminConnection, chunks, error_code
from mirror_ray.model.acls import Acl, AclPattern, AclPermission, AclResource
from mirror_ray.model.errors import MirrorError

_T = TypeVar("_T")

_PATTERNS: Final = {"LITERAL": ResourcePatternType.LITERAL, "PREFIXED": ResourcePatternType.PREFIXED}


class AclAdmin(AdminConnection):
    """Reads and changes ACLs; needs DESCRIBE, and for changes ALTER, on the cluster."""

    def describe(self, resources: Iterable[AclResource] = get_args(AclResource)) -> frozenset[Acl] | None:
        """Every ACL on topics, or groups; None where the cluster has no authorizer.

        Raises:
            AdminError: DESCRIBE is not granted on the cluster.
        """
        found: set[Acl] = set()
        for resource in resources:
            future = self._call(self._client.describe_acls, _every(resource))
            answer = self._settle({resource.lower(): future}, "describe the ACLs of every {}")[resource.lower()]
            if error_code(answer) == KafkaError.SECURITY_DISABLED:
                return None
            if isinstance(answer, MirrorError):
                raise answer
            found |= {_acl(resource, binding) for binding in answer}
        return frozenset(found)

    def create(self, acls: Collection[Acl]) -> dict[Acl, MirrorError | None]:
        """Create ACLs, each with its outcome; one that is there already is no error."""
        outcomes: dict[Acl, MirrorError | None] = {}
        for chunk in chunks(acls):
            by_binding = {_built(AclBinding, acl): acl for acl in chunk}
            futures = self._call(self._client.create_acls, list(by_binding))
            by_acl = {by_binding[binding]: future for binding, future in futures.items()}
            outcomes.update(self._settle(by_acl, "create the ACL {}"))
        return outcomes

    def delete(self, acls: Collection[Acl]) -> dict[Acl, MirrorError | None]:
        """Delete ACLs, each with its outcome; one that is gone already is no error."""
        outcomes: dict[Acl, MirrorError | None] = {}
        for chunk in chunks(acls):
            by_filter = {_built(AclBindingFilter, acl): acl for acl in chunk}
            futures = self._call(self._client.delete_acls, list(by_filter))
            by_acl = {by_filter[wanted]: future for wanted, future in futures.items()}
            for acl, answer in self._settle(by_acl, "delete the ACL {}").items():
                outcomes[acl] = answer if isinstance(answer, MirrorError) else None
        return outcomes


def _every(resource: AclResource) -> AclBindingFilter:
    any_: Any = None
    return AclBindingFilter(
        ResourceType[resource],
        any_,
        ResourcePatternType.ANY,
        any_,
        any_,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


def _acl(resource: AclResource, binding: AclBinding) -> Acl:
    pattern: AclPattern = "PREFIXED" if binding.resource_pattern_type is ResourcePatternType.PREFIXED else "LITERAL"
    permission: AclPermission = "DENY" if binding.permission_type is AclPermissionType.DENY else "ALLOW"
    return Acl(
        resource=resource,
        name=binding.name,
        pattern=pattern,
        principal=binding.principal,
        host=binding.host,
        operation=cast("AclOperation", binding.operation).name,
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
