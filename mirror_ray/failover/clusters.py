"""Both clusters of a flow as a plan needs them: topics, logs, groups, maps and checkpoints."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Self

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.failover.plan import Kind
from mirror_ray.failover.waves import PlanScope
from mirror_ray.groups.checkpoints import CheckpointTopic, GroupCheckpoint
from mirror_ray.groups.cluster_groups import ClusterGroups, answered
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import ErrorInfo
from mirror_ray.kafka.group_listing import ListedGroup
from mirror_ray.kafka.group_offsets import ToCommit
from mirror_ray.kafka.leader_requests import LATEST, IsolationLevel
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.errors import ClusterUnreachableError, ConfigError
from mirror_ray.model.filters import GroupFilter
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.model.policy import load_policy
from mirror_ray.model.rules import ReplicationRules
from mirror_ray.model.subscription import Subscription
from mirror_ray.model.topic_names import TopicNames
from mirror_ray.offsets.flow_maps import FlowMaps, RemotePartition
from mirror_ray.offsets.log_bounds import log_bounds
from mirror_ray.offsets.translation import ReadableBounds

_log = logging.getLogger(__name__)


class FailoverClusters:
    """An async context manager; a cluster is connected to when it is first asked.

    *Ahead* is the direction in which groups move: the flow's in a failover, the other one in a failback.

    Attributes:
        flow: The flow that fails over or back.
        ahead: The flow ahead; for a failback it may be one that is not configured.
        back: The flow in the other direction, which may not be configured either.
        is_copied: Whether the flow ahead copies anything.
        is_reversed: For a failback, whether the flow ahead copies in the flow's own topics, in its place.
        origin: The cluster that groups leave.
        destination: The cluster that they go to.
        maps: The maps of the flow ahead, where they are followed.
        routed: The maps of its routes, by the topic that they route to.
        audit_log: Keeps what is changed.
        scope: The groups and topics of the plan.
        without_silent: Partitions whose leader does not answer are left out.
    """

    def __init__(
        self,
        settings: MirrorSettings,
        flow: FlowName,
        kind: Kind,
        *,
        audit_log: AuditLog,
        follow: bool = True,
        is_reversed: bool = False,
    ) -> None:
        """Prepare. Without ``follow`` no map is read.

        Raises:
            ConfigError: There is no such flow, or security settings can't be used.
        """
        self.flow = settings.flow(flow)
        self.kind = kind
        self.is_reversed = is_reversed
        self.audit_log = audit_log
        self._follow = follow
        self.ahead, self.is_copied = self.flow, self.flow.enabled
        self.back, copied = _reverse(settings, self.flow)
        if kind == "failback":
            self.ahead, self.back, self.is_copied = self.back, self.flow, copied
        client_id = f"{flow}|mirror-ray|{kind}"
        self.source, self.target = (
            ClusterConnections(settings.clusters[alias], client_id) for alias in (flow.source, flow.target)
        )
        self.origin, self.destination = self.source, self.target
        if kind == "failback":
            self.origin, self.destination = self.target, self.source
        self.rules = replication_rules(self.ahead)
        self._routes_ahead = settings.routes_of(self.ahead.name)
        self._routes_back = settings.routes_of(self.ahead.name.back)
        self._rules_of_routes = {route.name.route: replication_rules(route) for route in self._routes_ahead}
        self.routed: dict[str, FlowMaps] = {}
        self._routed_back: dict[str, FlowMaps] = {}
        self.policy = load_policy(self.flow.policy, flow.source)
        self._filter = GroupFilter(self.flow.groups.include, self.flow.groups.exclude)
        self._groups = {id(cluster): ClusterGroups(cluster, self._filter) for cluster in (self.source, self.target)}
        self.without_silent = False
        self.scope = PlanScope()
        self._problems: set[str] = set()

    async def __aenter__(self) -> Self:
        if self._follow:
            self.maps = FlowMaps(self.ahead, self.origin, self.destination, self.problem, self.back)
            for route in self._routes_ahead:
                self.routed[route.name.route] = FlowMaps(route, self.origin, self.destination, self.problem)
            for route in self._routes_back:
                maps = FlowMaps(route, self.destination, self.origin, self.problem)
                self._routed_back[route.name.route] = maps
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._follow:
            await asyncio.gather(*(maps.close() for maps in (*self._maps_ahead(), *self._routed_back.values())))
        await asyncio.gather(self.source.close(), self.target.close())

    @property
    def isolation_level(self) -> IsolationLevel:
        """By which the flow reads."""
        return self.ahead.fetch.isolation_level

    def problem(self, text: str) -> None:
        """Log once what makes translations less exact."""
        if text not in self._problems:
            self._problems.add(text)
            _log.warning("%s: %s", self.flow.name, text)

    async def topics(self) -> list[TopicPartition]:
        """Partitions on the origin that are copied to the destination, in the plan's scope, heartbeats left out."""
        found = await answered(self.origin, self.origin.refresh(None))
        if not self.is_copied:
            return []
        wanted = [
            topic
            for topic in found.topics
            if self.rules.should_replicate_topic(topic) and not self.policy.is_heartbeats_topic(topic)
            if self.scope.leaves(topic)
        ]
        return sorted(TopicPartition(topic, number) for topic in wanted for number in found.topics[topic].partitions)

    def is_remote(self, partition: TopicPartition) -> bool:
        """Whether a topic on the origin is a copy of one on the destination."""
        return self.rules.is_from_target(partition.topic)

    def is_routed(self, topic: str) -> bool:
        """Whether a topic on the origin was filled by a route of the flow back."""
        return any(route.name.route == topic for route in self._routes_back)

    @property
    def names_of_flow(self) -> TopicNames:
        """For a failback, the names that the flow gives; one that is reversed is off, so that no other flow knows."""
        return replication_rules(self.flow).names if self.is_reversed else self.rules.names_back

    def maps_of(self, remote: str) -> FlowMaps:
        """The maps that a topic on the destination is in."""
        return self.routed.get(remote, self.maps)

    def rules_of(self, remote: str) -> ReplicationRules:
        """The rules by which a topic on the destination is named."""
        return self._rules_of_routes.get(remote, self.rules)

    def _maps_ahead(self) -> Iterator[FlowMaps]:
        yield self.maps
        yield from self.routed.values()

    async def read_maps(self, *, both: bool = True) -> None:
        """Wait until the maps were read to their ends, so that remote partitions can be asked for.

        Without ``both`` it is the maps ahead alone.
        """
        waits = [maps.ready() if both else maps.own.ready.wait() for maps in self._maps_ahead()]
        waits += [maps.ready() for maps in self._routed_back.values()] if both else []
        await answered(self.destination, asyncio.gather(*waits))

    async def prepare_maps(self) -> None:
        """List the topics that names alone don't tell."""
        for maps in self._maps_ahead():
            await maps.prepare()

    def remote_partitions(self, partition: TopicPartition) -> tuple[RemotePartition, ...]:
        """Where a partition on the origin is copied to, its routes included; or where it came from."""
        if not self.is_copied and not self.is_remote(partition):
            return ()
        back = self._routed_back.get(partition.topic)
        if back is not None:
            return back.backwards(partition)
        return tuple(remote for maps in self._maps_ahead() for remote in maps.remote_partitions(partition))

    async def refresh(self, partitions: Collection[TopicPartition]) -> None:
        """Learn which topics there are now, of these partitions on the origin and of their remote ones."""
        remotes = {remote.remote.topic for partition in partitions for remote in self.remote_partitions(partition)}
        topics = {partition.topic for partition in partitions}
        await asyncio.gather(self.origin.refresh(topics), self.destination.refresh(remotes))

    def copied_to(self, partition: TopicPartition) -> int | None:
        """The origin's offset up to which a partition was copied and routed; None: a map has nothing of it."""
        topic = self.origin.metadata.topics.get(partition.topic)
        reached: list[int] = []
        for maps in (self.maps, *(maps for maps in self.routed.values() if maps.remote_partitions(partition))):
            found = maps.own.store.find(partition)
            if found is None or (topic is not None and topic.topic_id != found.source_topic_id):
                return None
            reached.append(found.segments.head.source)
        return min(reached)

    def covers(self, group: str) -> bool:
        """Whether the flow's filter lets a group through, and it is in the plan's scope."""
        return self._filter.should_replicate_group(group) and self.scope.moves(group)

    async def groups(self, cluster: ClusterConnections) -> dict[str, ListedGroup]:
        """All groups on a cluster that the flow's filter lets through, in the plan's scope."""
        listed = await self.every_group(cluster)
        return {name: group for name, group in listed.items() if self.scope.moves(name)}

    async def every_group(self, cluster: ClusterConnections) -> dict[str, ListedGroup]:
        """All groups on a cluster that the flow's filter lets through, whatever the plan moves."""
        return await self._groups[id(cluster)].list()

    async def subscriptions(self, kinds: Mapping[str, str]) -> dict[str, Subscription]:
        """What the members of groups on the origin read."""
        return await self._groups[id(self.origin)].subscriptions(kinds)

    async def committed(
        self, cluster: ClusterConnections, groups: Collection[str], *, stable: bool = False
    ) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """All offsets of groups on a cluster."""
        return await self._groups[id(cluster)].committed(groups, stable=stable)

    async def commit(self, commits: Mapping[str, ToCommit]) -> dict[str, dict[TopicPartition, ErrorInfo | None]]:
        """Commit on the destination."""
        return await self._groups[id(self.destination)].commit(commits, self.audit_log)

    async def checkpoints(self) -> dict[str, dict[TopicPartition, GroupCheckpoint]]:
        """Every group's newest checkpoints of a failover, by remote partition."""
        found: dict[str, dict[TopicPartition, GroupCheckpoint]] = {}
        topic, complete = self._checkpoint_topic(), False
        while not complete:
            checkpoints, complete = await answered(self.target, topic.read())
            for read in checkpoints:
                found.setdefault(read.checkpoint.group, {})[read.checkpoint.partition] = read
        return {group: by_partition for group, by_partition in found.items() if self.covers(group)}

    async def append_checkpoints(self, checkpoints: Collection[GroupCheckpoint]) -> None:
        """Append to the checkpoints topic, where there is one."""
        if self.flow.groups.emit_checkpoints_enabled:
            await self._checkpoint_topic().append(checkpoints)

    def _checkpoint_topic(self) -> CheckpointTopic:
        return CheckpointTopic(self.target, self.policy.checkpoints_topic(self.flow.name.source))

    async def logs(
        self, cluster: ClusterConnections, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ReadableBounds]:
        """Where logs start and end; a partition that is missing is left out.

        Raises:
            ClusterUnreachableError: The cluster does not answer; or, without ``without_silent``, a leader.
        """
        asked = dict.fromkeys(partitions)
        await answered(cluster, cluster.refresh({partition.topic for partition in asked}))
        known = [partition for partition in asked if cluster.metadata.partition(partition) is not None]
        bounds = await answered(cluster, log_bounds(cluster, known))
        silent = [partition for partition in known if partition not in bounds]
        if silent and not self.without_silent:
            raise ClusterUnreachableError(
                f"cluster {cluster.settings.alias}: the leader of {silent[0]} does not answer; --force goes on without"
                " such partitions"
            )
        return bounds

    async def stable_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Where the logs on the origin end for the flow: last stable offsets under read_committed."""
        asked = self.origin.list_offsets(dict.fromkeys(partitions, LATEST), self.isolation_level)
        ends = await answered(self.origin, asked)
        for partition, answer in ends.items():
            if answer.error_code:
                raise ClusterUnreachableError(
                    f"cluster {self.origin.settings.alias}: the leader of {partition} does not answer"
                )
        return {partition: answer.offset for partition, answer in ends.items()}


def _reverse(settings: MirrorSettings, flow: FlowSettings) -> tuple[FlowSettings, bool]:
    """The flow back, and whether it copies anything; one that is not configured is named like ``flow``."""
    name = flow.name.back
    try:
        back = settings.flow(name)
    except ConfigError:
        topics = flow.topics.model_copy(update={"map": {}, "rename": ()})
        back = flow.model_copy(update={"name": name, "enabled": False, "topics": topics})
    return back, back.enabled
