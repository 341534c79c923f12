"""The administration that topic sync needs of a flow's clusters. Clients live for one round, minutes apart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Protocol, TypeVar

from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror_ray.kafka.acls import AclAdmin, describe_acls
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.group_coordinators import GroupCoordinators
from mirror_ray.kafka.group_listing import list_groups
from mirror_ray.kafka.topic_editor import ClusterEditor
from mirror_ray.model.acls import Acl
from mirror_ray.model.cluster_change import ConfigChange
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.filters import GroupFilter
from mirror_ray.topics.acl_sync import AclChanges, acl_rules, synced_groups
from mirror_ray.topics.remote_topics import Configs

_T = TypeVar("_T")
_C = TypeVar("_C", ClusterEditor, AclAdmin)

ConfigAnswers = Mapping[str, Configs | MirrorError]


class TopicPort(Protocol):
    """Administration of both clusters. Every method may raise a MirrorError; none blocks the event loop."""

    async def configs(self, remotes: Mapping[str, str]) -> tuple[ConfigAnswers, ConfigAnswers]:
        """All configs of source topics, and of their remote topics; those that don't exist are left out."""

    async def alter_configs(self, changes: Mapping[str, Sequence[ConfigChange]]) -> Mapping[str, MirrorError | None]:
        """Alter configs of remote topics; of one topic all or nothing."""

    async def acls(self) -> tuple[frozenset[Acl] | None, frozenset[Acl] | None]:
        """Every ACL on topics and groups of the source, and of the target; None: it has no authorizer."""

    async def source_groups(self) -> Collection[str]:
        """Every consumer group of the source."""

    async def change_acls(self, changes: AclChanges) -> Mapping[Acl, MirrorError | None]:
        """Create ACLs on the target in their order, then delete."""


async def synced_source_groups(port: TopicPort, flow: FlowSettings, source: Iterable[Acl]) -> list[str]:
    """Groups whose ACLs the flow syncs; the source is asked for those that only patterns name."""
    rules = acl_rules(flow)
    if not rules.groups:
        return []
    listed = await port.source_groups() if rules.patterns else ()
    return synced_groups(source, listed, GroupFilter(flow.groups.include, flow.groups.exclude))


class KafkaTopicPort:
    """A ``TopicPort`` of real clusters."""

    def __init__(self, settings: MirrorSettings, flow: FlowSettings, audit_log: AuditLog) -> None:
        """Connect to nothing yet. ``audit_log`` records changes."""
        self._flow = flow.name
        self.source, self.target = settings.clusters[flow.name.source], settings.clusters[flow.name.target]
        self._client_id = f"{flow.name}|mirror-ray|topics"
        self._audit_log = audit_log

    async def configs(self, remotes: Mapping[str, str]) -> tuple[ConfigAnswers, ConfigAnswers]:
        """Describe the configs of source topics and of their remote topics."""

        def ask() -> tuple[ConfigAnswers, ConfigAnswers]:
            with (
                closing(ClusterAdmin(self.source, self._client_id)) as source,
                closing(ClusterAdmin(self.target, self._client_id)) as target,
            ):
                names = sorted(set(remotes.values()))
                return source.try_describe_topic_configs(list(remotes)), target.try_describe_topic_configs(names)

        return await asyncio.to_thread(ask)

    async def alter_configs(self, changes: Mapping[str, Sequence[ConfigChange]]) -> Mapping[str, MirrorError | None]:
        """Alter configs of remote topics."""
        return await self._on_target(ClusterEditor, lambda admin: admin.alter_topic_configs(changes))

    async def acls(self) -> tuple[frozenset[Acl] | None, frozenset[Acl] | None]:
        """Describe the ACLs of the source, and of the target if the source has an authorizer."""
        found = await self._ask(self.source, describe_acls)
        return found, None if found is None else await self._ask(self.target, describe_acls)

    async def source_groups(self) -> Collection[str]:
        """List the consumer groups of the source."""

        async def listed(cluster: ClusterConnections) -> Collection[str]:
            await cluster.refresh(())
            return (await list_groups(GroupCoordinators(cluster))).groups

        return await self._ask(self.source, listed)

    async def change_acls(self, changes: AclChanges) -> Mapping[Acl, MirrorError | None]:
        """Create and delete ACLs on the target."""
        return await self._on_target(
            AclAdmin, lambda admin: {**admin.create(changes.create), **admin.delete(changes.delete)}
        )

    async def _ask(self, settings: ClusterSettings, ask: Callable[[ClusterConnections], Awaitable[_T]]) -> _T:
        cluster = ClusterConnections(settings, self._client_id)
        try:
            return await ask(cluster)
        finally:
            await cluster.close()

    async def _on_target(self, kind: type[_C], act: Callable[[_C], _T]) -> _T:
        def run() -> _T:
            with closing(kind(self.target, self._client_id, self._audit_log)) as admin:
                return act(admin)

        return await asyncio.to_thread(run)
