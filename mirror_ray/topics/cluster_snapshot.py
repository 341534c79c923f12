"""Reads both clusters of a flow, for ``compare`` and ``drift``. Changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
    error_info,
)
from mirror_ray.kafka.leader_requests import EARLIEST, LATEST, OffsetAnswer
from mirror_ray.kafka.log_dirs import SizeAnswer
from mirror_ray.kafka.metadata import PartitionMetadata
from mirror_ray.kafka.state_topic import read_state
from mirror_ray.model.errors import ClusterUnreachableError, ConfigError, KafkaProtocolError, MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.rules import ReplicationRules
from mirror_ray.state.schema import FlowStateRecords, decode, state_topic
from mirror_ray.topics.acl_comparison import AclFacts
from mirror_ray.topics.acl_sync import acl_rules, flow_acls
from mirror_ray.topics.comparison import Aspect, ComparedTopic, PartitionFacts, SideFacts
from mirror_ray.topics.port import KafkaTopicPort, carried_source_groups
from mirror_ray.topics.remote_topics import Configs

_CLIENT_ID = "mirror-ray-compare"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """What both clusters say of a flow's topics."""

    pairs: list[ComparedTopic]
    #: Every topic of the source that the flow copies, with its remote topic, also where only some were asked for.
    remotes: Mapping[str, str]
    #: How many the target has.
    brokers: int
    #: The flow's state; empty where there is none, or where it can't be read, and why.
    memory: FlowStateRecords
    memory_problem: str | None


async def survey(
    settings: MirrorSettings, flow: FlowSettings, only: Collection[str], reasons: Mapping[str, str]
) -> ClusterSnapshot:
    """What both clusters say of the flow's topics, and of remote topics whose source it does not copy.

    Args:
        settings: With the flow's clusters.
        flow: Whose topics.
        only: These source topics alone; empty: all.
        reasons: What a running system says of topics that it does not copy.

    Raises:
        ClusterUnreachableError: A cluster does not answer.
        ConfigError: A filter or the policy can't be used, or the flow does not copy one of ``only``.
    """
    try:
        rules = replication_rules(flow)
    except ValueError as error:
        raise ConfigError(f"{flow.name}: {error}") from error
    async with AsyncExitStack() as stack:
        sides = [_Side(settings.clusters[alias]) for alias in (flow.name.source, flow.name.target)]
        for side in sides:
            stack.push_async_callback(side.close)
        await asyncio.gather(*(side.cluster.refresh() for side in sides))
        source, target = sides
        remotes = {each: rules.remote_topic(each) for each in source.topics if rules.should_replicate_topic(each)}
        asked = _asked(flow, remotes, only)
        extra = [] if only else _extra(rules, target.topics, remotes)
        together: dict[str, list[str]] = {remote: [] for remote in asked.values()}
        for topic, remote in remotes.items():
            if remote in together:
                together[remote].append(topic)
        sources = {topic for each in together.values() for topic in each}
        of_source, of_target, (memory, problem) = await asyncio.gather(
            source.read(sources), target.read({*asked.values(), *extra}), _memory(flow, target)
        )
        brokers = len(target.cluster.metadata.brokers)
    copied_into = {partition.topic: record.target_topic for partition, record in memory.partitions.items()}
    pairs = [
        ComparedTopic(
            topic=topic,
            remote_topic=remote,
            source=of_source.get(topic),
            remote=of_target.get(remote),
            reason=reasons.get(topic),
            most_partitions=_most_partitions(together[remote], of_source),
            named_by=rules.named_by(topic),
            beside=tuple(each for each in together[remote] if each != topic),
            copied_into=copied_into.get(topic),
        )
        for topic, remote in asked.items()
    ] + [ComparedTopic(topic=None, remote_topic=name, source=None, remote=of_target.get(name)) for name in extra]
    return ClusterSnapshot(pairs=pairs, remotes=remotes, brokers=brokers, memory=memory, memory_problem=problem)


@dataclass(frozen=True, slots=True)
class NoAuthorizer:
    """A cluster without one has no ACLs: there is nothing to compare, and nothing has drifted."""

    alias: str

    def __str__(self) -> str:
        return f"cluster {self.alias} has no authorizer"


async def survey_acls(settings: MirrorSettings, flow: FlowSettings, seen: ClusterSnapshot) -> AclFacts | NoAuthorizer:
    """The ACLs of both clusters, and which of them the target should have.

    Raises:
        MirrorError: DESCRIBE is not granted on a cluster, or it can't be reached.
    """
    port = KafkaTopicPort(settings, flow, UNRECORDED)
    source, target = await port.acls()
    if source is None or target is None:
        return NoAuthorizer(flow.name.source if source is None else flow.name.target)
    rules, groups = acl_rules(flow), await carried_source_groups(port, flow, source)
    return AclFacts(
        source=source,
        target=target,
        wanted=flow_acls(source, replication_rules(flow), seen.remotes, groups, rules),
        given=frozenset(seen.memory.acls.values()),
        rules=rules,
    )


async def _memory(flow: FlowSettings, target: _Side) -> tuple[FlowStateRecords, str | None]:
    """The flow's state, and why it can't be read."""
    topic = state_topic(flow.name.source, route=flow.name.route)
    if topic not in target.topics:
        return FlowStateRecords(), None
    try:
        return decode(await asyncio.to_thread(read_state, target.settings, topic)), None
    except ClusterUnreachableError:
        raise
    except MirrorError as error:
        return FlowStateRecords(), str(error)


def _asked(flow: FlowSettings, names: Mapping[str, str], only: Collection[str]) -> dict[str, str]:
    unknown = sorted(set(only) - names.keys())
    if unknown:
        raise ConfigError(
            f"{flow.name} does not copy {', '.join(unknown)}: not on cluster {flow.name.source}, or not let through by "
            "topics and topics.exclude"
        )
    return {topic: remote for topic, remote in sorted(names.items()) if not only or topic in only}


def _most_partitions(topics: Collection[str], facts: Mapping[str, SideFacts]) -> int | None:
    """Of the largest topic, where there are several."""
    counts = [len(facts[each].partitions) for each in topics if each in facts]
    return max(counts) if len(counts) > 1 else None


def _extra(rules: ReplicationRules, on_target: Collection[str], remotes: Mapping[str, str]) -> list[str]:
    known = set(remotes.values())
    return sorted(
        name
        for name in on_target
        if name not in known and rules.is_remote_topic(name)
        if not (rules.policy.is_internal_topic(name) or rules.is_routed_to(name))
    )


class _Side:
    """One cluster, by both kinds of clients."""

    def __init__(self, settings: ClusterSettings) -> None:
        self.settings = settings
        self.cluster = ClusterConnections(settings, _CLIENT_ID)
        self._admin = ClusterAdmin(settings, _CLIENT_ID)

    @property
    def topics(self) -> list[str]:
        """Those that we may describe."""
        return [name for name, topic in self.cluster.metadata.topics.items() if not topic.error_code]

    async def read(self, names: Collection[str]) -> dict[str, SideFacts]:
        """Everything about these topics, without those that don't exist."""
        unlisted = [name for name in names if name not in self.cluster.metadata.topics]
        if unlisted:
            # A topic that we may not describe is left out of the list of all; asked for by name it is refused.
            await self.cluster.refresh(unlisted)
        known = {name: self.cluster.metadata.topics[name] for name in names}
        there = {name: topic for name, topic in known.items() if not topic.error_code}
        partitions = [TopicPartition(name, number) for name, topic in there.items() for number in topic.partitions]
        starts, ends, sizes, configs = await asyncio.gather(
            self.cluster.list_offsets(dict.fromkeys(partitions, EARLIEST), "read_uncommitted"),
            self.cluster.list_offsets(dict.fromkeys(partitions, LATEST), "read_uncommitted"),
            self.cluster.leader_sizes(partitions),
            asyncio.to_thread(self._admin.try_describe_topic_configs, list(there)),
        )
        facts = {
            name: SideFacts(topic=name, problems={"topic": _why("topic", topic.error_code)})
            for name, topic in known.items()
            if topic.error_code not in (0, UNKNOWN_TOPIC_OR_PARTITION)
        }
        for name, topic in there.items():
            keys = {number: TopicPartition(name, number) for number in topic.partitions}
            found = {
                number: (topic.partitions[number], starts[key], ends[key], sizes[key]) for number, key in keys.items()
            }
            facts[name] = _facts(name, found, configs.get(name))
        return facts

    async def close(self) -> None:
        """Let go of the connections."""
        self._admin.close()
        await self.cluster.close()


def _facts(
    name: str,
    partitions: Mapping[int, tuple[PartitionMetadata, OffsetAnswer, OffsetAnswer, SizeAnswer]],
    configs: Configs | MirrorError | None,
) -> SideFacts:
    """``partitions``: each with what was said of its start, its end and its size."""
    problems: dict[Aspect, str] = {}
    for _, start, end, size in partitions.values():
        if error_code := start.error_code or end.error_code:
            problems["offsets"] = _why("offsets", error_code)
        if size.error_code:
            problems["size"] = _why("size", size.error_code)
    if isinstance(configs, MirrorError):
        problems["configs"] = _why("configs", configs.code if isinstance(configs, KafkaProtocolError) else -1)
    return SideFacts(
        topic=name,
        partitions={
            number: PartitionFacts(
                leader=metadata.leader,
                replication_factor=len(metadata.replicas),
                start=None if start.error_code else start.offset,
                end=None if end.error_code else end.offset,
                size_bytes=None if size.error_code else size.size_bytes,
            )
            for number, (metadata, start, end, size) in sorted(partitions.items())
        },
        configs=None if isinstance(configs, MirrorError) else configs,
        problems=problems,
    )


def _why(aspect: Aspect, error_code: int) -> str:
    """For a cell: what is missing, or the broker's error."""
    if error_code not in (TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED):
        return error_info(error_code).name
    needed = {"topic": "DESCRIBE", "offsets": "DESCRIBE", "configs": "DESCRIBE_CONFIGS", "size": "DESCRIBE on CLUSTER"}
    return f"needs {needed[aspect]}"
