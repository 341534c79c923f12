"""Both clusters of a flow as a plan sees them: topics, logs, groups, maps and checkpoints."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Collection, Iterable, Mapping
from typing import Self, TypeVar

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.failover.group_checkpoint import GroupCheckpoint, said_in
from mirror_ray.failover.plan import Kind
from mirror_ray.kafka.audit_log import UNRECORDED, AuditLog
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import ErrorInfo, error_info
from mirror_ray.kafka.group_coordinators import GroupCoordinators
from mirror_ray.kafka.group_listing import ListedGroup, describe_members, list_groups
from mirror_ray.kafka.group_offsets import OffsetReader, OffsetRound, ToCommit, commit_offsets
from mirror_ray.kafka.internal_topic_reader import InternalTopicReader
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.kafka.leader_requests import EARLIEST, LATEST, IsolationLevel
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.errors import (
    ClusterUnreachableError,
    ConfigError,
    KafkaProtocolError,
    MirrorError,
)
from mirror_ray.model.filters import GroupFilter
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.model.policy import load_policy
from mirror_ray.model.rules import ReplicationRules
from mirror_ray.model.subscription import Subscription
from mirror_ray.offsets.flow_maps import FlowMaps, RemotePartition
from mirror_ray.offsets.translation import LogBounds

_log = logging.getLogger(__name__)

#: A cluster that says nothing for so long does not answer.
_PATIENCE_S = 20.0
#: A transaction that was committed has its offsets in place by then; one that has not is still open.
_SETTLING_S = 5.0
_SETTLING_PAUSE_S = 0.2
#: So many groups' offsets are asked for at once, within the patience: any number of groups may be asked for.
_GROUPS_AT_ONCE = 5000
#: States of groups without members; "" where the broker does not say.
WITHOUT_MEMBERS = frozenset({"", "Empty", "Dead"})

#: UNSTABLE_OFFSET_COMMIT (KIP-447).
_UNSTABLE = error_info(88)

_T = TypeVar("_T")


class FailoverClusters:
    """An async context manager: both clusters are connected to when they are first asked.

    Attributes:
        flow: The flow that fails over or back.
        carrying: The flow in whose direction groups move; for a failback it may be one that is not configured.
        back: The flow in the other direction, which may not be configured either.
        origin: The cluster that groups leave.
        destination: The cluster that they go to.
        maps: What is where, by ``carrying``; where maps are followed.
        audit_log: Keeps what is changed.
        without_silent: Partitions whose leader does not answer are left out.
    """

    def __init__(
        self,
        settings: MirrorSettings,
        flow: FlowName,
        kind: Kind,
        *,
        audit_log: AuditLog = UNRECORDED,
        follow: bool = True,
    ) -> None:
        """Prepare. Without ``follow`` no map is read.

        Raises:
            ConfigError: There is no such flow, or security settings can't be used.
        """
        self.flow = settings.flow(flow)
        self.kind = kind
        self.audit_log = audit_log
        self._follow = follow
        self.carrying, self.way_is_copied = self.flow, self.flow.enabled
        self.back, copied = _reverse(settings, self.flow)
        if kind == "failback":
            self.carrying, self.back, self.way_is_copied = self.back, self.flow, copied
        client_id = f"{flow}|mirror-ray|{kind}"
        source, target = (
            ClusterConnections(settings.clusters[alias], client_id) for alias in (flow.source, flow.target)
        )
        self.source, self.target = source, target
        self.origin, self.destination = (source, target) if kind == "failover" else (target, source)
        self.rules = replication_rules(self.carrying)
        way = self.carrying.name
        #: The routes of the flow in whose direction groups move, and those of the flow the other way round.
        self._ahead, self._behind = settings.routes_of(way), settings.routes_of(way.back)
        self._rules_ahead = {each.name.route: replication_rules(each) for each in self._ahead}
        #: What is where by each of these, by the topic that it routes to.
        self.routed: dict[str, FlowMaps] = {}
        self._routed_from: dict[str, FlowMaps] = {}
        self.policy = load_policy(self.flow.policy, flow.source)
        self._filter = GroupFilter(self.flow.groups.include, self.flow.groups.exclude)
        self._there, self._here = GroupCoordinators(self.origin), GroupCoordinators(self.destination)
        self.without_silent = False
        self._problems: set[str] = set()

    async def __aenter__(self) -> Self:
        if self._follow:
            self.maps = FlowMaps(self.carrying, self.origin, self.destination, self.problem, self.back)
            for each in self._ahead:
                self.routed[each.name.route] = FlowMaps(each, self.origin, self.destination, self.problem)
            for each in self._behind:
                maps = FlowMaps(each, self.destination, self.origin, self.problem)
                self._routed_from[each.name.route] = maps
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._follow:
            await asyncio.gather(*(each.close() for each in self._every_map()))
        await asyncio.gather(self.source.close(), self.target.close())

    @property
    def isolation_level(self) -> IsolationLevel:
        """By which the flow reads."""
        return self.carrying.fetch.isolation_level

    async def topics(self) -> list[TopicPartition]:
        """Partitions on the origin that are copied to the destination, heartbeats left out.

        Raises:
            ClusterUnreachableError: The origin does not answer.
        """
        found = await answered(self.origin, self.origin.refresh(None))
        if not self.way_is_copied:
            return []
        wanted = [
            topic
            for topic in found.topics
            if self.rules.should_replicate_topic(topic) and not self.policy.is_heartbeats_topic(topic)
        ]
        return sorted(TopicPartition(topic, number) for topic in wanted for number in found.topics[topic].partitions)

    def is_remote(self, partition: TopicPartition) -> bool:
        """Whether a topic on the origin is a copy of one on the destination."""
        return self.rules.is_from_target(partition.topic)

    async def maps_are_read(self, *, both: bool = True) -> None:
        """Wait until the maps were read to their ends.

        Raises:
            ClusterUnreachableError: They can't be within some time.
        """
        ahead = (self.maps, *self.routed.values())
        waits = (maps.ready() for maps in self._every_map()) if both else (maps.own.ready.wait() for maps in ahead)
        await answered(self.destination, asyncio.gather(*waits))

    def _every_map(self) -> tuple[FlowMaps, ...]:
        return self.maps, *self.routed.values(), *self._routed_from.values()

    def remote_partitions(self, partition: TopicPartition) -> tuple[RemotePartition, ...]:
        """The ways of a partition on the origin: to its copy, and to what its records are routed to; or back."""
        if not self.way_is_copied and not self.is_remote(partition):
            return ()
        back = self._routed_from.get(partition.topic)
        if back is not None:
            return back.backwards(partition)
        return tuple(
            route for maps in (self.maps, *self.routed.values()) for route in maps.remote_partitions(partition)
        )

    async def look(self, partitions: Collection[TopicPartition]) -> None:
        """See which topics are there now, of these partitions on the origin and of where they lead.

        Raises:
            ClusterUnreachableError: No broker answers.
        """
        there = {route.remote.topic for each in partitions for route in self.remote_partitions(each)}
        here = {each.topic for each in partitions}
        await asyncio.gather(self.origin.refresh(here), self.destination.refresh(there))

    def maps_of(self, remote: str) -> FlowMaps:
        """The map that tells of a topic on the destination."""
        return self.routed.get(remote, self.maps)

    def rules_of(self, remote: str) -> ReplicationRules:
        """By which a topic on the destination is named."""
        return self._rules_ahead.get(remote, self.rules)

    def is_routed(self, topic: str) -> bool:
        """Whether a topic on the origin was filled by a route of the flow the other way round."""
        return any(each.name.route == topic for each in self._behind)

    async def groups(self, on: ClusterConnections) -> dict[str, ListedGroup]:
        """All groups there that the flow's filter lets through.

        Raises:
            ClusterUnreachableError, KafkaProtocolError: Not all brokers tell.
        """
        coordinators = self._there if on is self.origin else self._here
        listing = await answered(on, list_groups(coordinators))
        if listing.silent:
            told = "; ".join(f"broker {broker}: {why}" for broker, why in listing.silent.items())
            raise ClusterUnreachableError(f"cluster {on.settings.alias}: not all groups are known: {told}")
        return {name: each for name, each in listing.groups.items() if self.carries(name)}

    async def subscriptions(self, kinds: Mapping[str, str]) -> dict[str, Subscription]:
        """What the members of groups on the origin read; see ``describe_members``, also for what it raises."""
        return await answered(self.origin, describe_members(self._there, kinds))

    def carries(self, group: str) -> bool:
        """Whether the flow's filter lets a group through."""
        return self._filter.should_replicate_group(group)

    async def committed(
        self, on: ClusterConnections, groups: Collection[str], *, stable: bool = False
    ) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """All offsets of groups. ``stable``: none of them may be about to change by a transaction that is open.

        A transaction's offsets become the group's a moment after its commit was answered, so that is waited for, as
        every consumer does.

        Raises:
            ClusterUnreachableError: A group can't be asked.
            MirrorError: An offset can't be had, or is not stable.
        """
        reader = OffsetReader(self._there if on is self.origin else self._here, stable=stable)
        names = list(groups)
        found: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        for at in range(0, len(names), _GROUPS_AT_ONCE):
            read = await answered(on, reader.read(names[at : at + _GROUPS_AT_ONCE]))
            until_s = time.monotonic() + _SETTLING_S
            while (unsettled := _unsettled(read)) and time.monotonic() < until_s:
                await asyncio.sleep(_SETTLING_PAUSE_S)
                again = await answered(on, reader.read(unsettled))
                read.changed |= again.changed
                read.failed |= again.failed
            found |= _offsets(on, read)
        return found

    async def commit(self, commits: Mapping[str, ToCommit]) -> dict[str, dict[TopicPartition, ErrorInfo | None]]:
        """Commit on the destination, see ``commit_offsets``."""
        if not commits:
            return {}
        stood = await self.committed(self.destination, list(commits))
        before = {group: {at: each.offset for at, each in there.items()} for group, there in stood.items()}
        return await commit_offsets(self._here, commits, self.audit_log, before)

    async def logs(
        self, on: ClusterConnections, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, LogBounds]:
        """Where logs begin and end; a partition that is missing is left out.

        Raises:
            ClusterUnreachableError: The cluster does not answer; or, without ``without_silent``, a leader.
        """
        asked = dict.fromkeys(partitions)
        await answered(on, on.refresh({each.topic for each in asked}))
        known = [each for each in asked if on.metadata.partition(each) is not None]
        if not known:
            return {}
        starts, ends = await answered(
            on,
            asyncio.gather(
                on.list_offsets(dict.fromkeys(known, EARLIEST), "read_uncommitted"),
                on.list_offsets(dict.fromkeys(known, LATEST), "read_uncommitted"),
            ),
        )
        silent = [each for each in known if starts[each].error_code or ends[each].error_code]
        if silent and not self.without_silent:
            raise ClusterUnreachableError(
                f"cluster {on.settings.alias}: the leader of {silent[0]} does not answer; --force goes on without such"
                " partitions"
            )
        return {each: LogBounds(starts[each].offset, ends[each].offset) for each in known if each not in silent}

    async def stable_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Where the logs on the origin end for the flow: last stable offsets under read_committed.

        Raises:
            ClusterUnreachableError: The leader of one of them does not answer.
        """
        asked = self.origin.list_offsets(dict.fromkeys(partitions, LATEST), self.isolation_level)
        ends = await answered(self.origin, asked)
        for each, answer in ends.items():
            if answer.error_code:
                raise ClusterUnreachableError(
                    f"cluster {self.origin.settings.alias}: the leader of {each} does not answer"
                )
        return {each: answer.offset for each, answer in ends.items()}

    def copied_to(self, partition: TopicPartition) -> int | None:
        """The origin's offset up to which a partition was copied and routed, by the maps; None: one says nothing."""
        topic = self.origin.metadata.topics.get(partition.topic)
        reached: list[int] = []
        for maps in (self.maps, *(each for each in self.routed.values() if each.remote_partitions(partition))):
            page = maps.own.store.find(partition)
            if page is None or (topic is not None and topic.topic_id != page.source_topic_id):
                return None
            reached.append(page.segments.head.source)
        return min(reached)

    async def said(self) -> dict[str, dict[TopicPartition, GroupCheckpoint]]:
        """Every group's newest checkpoints of a failover, by remote partition.

        Raises:
            OSError, MirrorError: They can't be read now.
        """
        found: dict[str, dict[TopicPartition, GroupCheckpoint]] = {}
        reader, complete = InternalTopicReader(self.target, self.checkpoints_topic), False
        while not complete:
            _, records, complete = await answered(self.target, reader.read())
            for said in filter(None, map(said_in, records)):
                found.setdefault(said.checkpoint.group, {})[said.checkpoint.partition] = said
        return {group: each for group, each in found.items() if self.carries(group)}

    async def say(self, records: list[KeyedRecord]) -> None:
        """Append to the checkpoints topic, where there is one.

        Raises:
            OSError, MirrorError: It can't be written.
        """
        if records and self.flow.groups.emit_checkpoints_enabled:
            await InternalTopicWriter(self.target, self.checkpoints_topic).append(records)

    @property
    def checkpoints_topic(self) -> str:
        """The flow's, on its target."""
        return self.policy.checkpoints_topic(self.flow.name.source)

    def problem(self, text: str) -> None:
        """Log what goes on less well for it, once."""
        if text not in self._problems:
            self._problems.add(text)
            _log.warning("%s: %s", self.flow.name, text)


async def answered(cluster: ClusterConnections, asked: Awaitable[_T]) -> _T:
    """What was asked of a cluster.

    Raises:
        ClusterUnreachableError: There was no answer in time.
        KafkaProtocolError: The answer is an error.
    """
    alias = cluster.settings.alias
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await asked
    except TimeoutError:
        raise ClusterUnreachableError(f"cluster {alias} did not answer within {_PATIENCE_S:g} s") from None
    except (ClusterUnreachableError, KafkaProtocolError):
        raise
    except OSError as error:
        raise ClusterUnreachableError(f"cluster {alias}: {error}") from error


def _unsettled(read: OffsetRound) -> list[str]:
    """The groups with an offset in a transaction whose end is not known yet."""
    return [group for group, offsets in read.changed.items() if _UNSTABLE in offsets.errors.values()]


def _offsets(on: ClusterConnections, read: OffsetRound) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    alias = on.settings.alias
    for group, error in read.failed.items():
        raise ClusterUnreachableError(f"cluster {alias}: the offsets of group {group}: {error}")
    for group, offsets in read.changed.items():
        for partition, refused in offsets.errors.items():
            step = "its transaction is open: end it, or wait for transaction.timeout.ms; then run this again"
            raise MirrorError(
                f"cluster {alias}: the offset of group {group} in {partition}: {refused.name}"
                f"{f'; {step}' if refused == _UNSTABLE else ''}"
            )
    return {
        group: {partition: each for partition, each in offsets.offsets.items() if each.offset >= 0}
        for group, offsets in read.changed.items()
    }


def _reverse(settings: MirrorSettings, flow: FlowSettings) -> tuple[FlowSettings, bool]:
    """The flow that leads back, and whether it copies anything; one that is not configured is named like ``flow``."""
    name = flow.name.back
    try:
        back = settings.flow(name)
    except ConfigError:
        topics = flow.topics.model_copy(update={"map": {}, "rename": ()})
        back = flow.model_copy(update={"name": name, "enabled": False, "topics": topics})
    return back, back.enabled
