"""What both clusters of a flow say of its topics, for ``compare`` and ``drift``."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.model.errors import ClusterUnreachableError, ConfigError, MirrorError
from mirror_ray.model.rules import ReplicationRules
from mirror_ray.state.schema import FlowStateRecords
from mirror_ray.topics.acl_comparison import AclFacts
from mirror_ray.topics.acl_sync import acl_rules, flow_acls
from mirror_ray.topics.cluster_reader import ClusterReader
from mirror_ray.topics.comparison import ComparedTopic, SideFacts
from mirror_ray.topics.port import KafkaTopicPort, synced_source_groups

_CLIENT_ID = "mirror-ray-compare"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """What both clusters say of a flow's topics."""

    pairs: list[ComparedTopic]
    #: Every topic of the source that the flow copies, with its remote topic, even if only some are compared.
    remotes: Mapping[str, str]
    #: The number of the target's brokers.
    brokers: int
    #: The flow's state; empty where there is none, or where it can't be read, and why.
    state: FlowStateRecords
    state_problem: str | None


@dataclass(frozen=True, slots=True)
class NoAuthorizer:
    """A cluster without one has no ACLs: there is nothing to compare, and nothing has drifted."""

    alias: str

    def __str__(self) -> str:
        return f"cluster {self.alias} has no authorizer"


async def take_snapshot(
    settings: MirrorSettings, flow: FlowSettings, only: Collection[str], reasons: Mapping[str, str]
) -> ClusterSnapshot:
    """Read the flow's topics on both clusters, and remote topics whose source topic it does not copy.

    Args:
        settings: Those of the flow's clusters.
        flow: The flow whose topics are read.
        only: These source topics alone; empty: all.
        reasons: What a running system says of topics that it does not copy.

    Raises:
        ConfigError: A filter or the policy can't be used, or the flow does not copy one of ``only``.
    """
    try:
        rules = replication_rules(flow)
    except ValueError as error:
        raise ConfigError(f"{flow.name}: {error}") from error
    async with (
        ClusterReader(settings.clusters[flow.name.source], _CLIENT_ID) as source,
        ClusterReader(settings.clusters[flow.name.target], _CLIENT_ID) as target,
    ):
        await asyncio.gather(source.refresh(), target.refresh())
        remotes = {topic: rules.remote_topic(topic) for topic in source.topics if rules.should_replicate_topic(topic)}
        wanted = _wanted(flow, remotes, only)
        extra = [] if only else _extra(rules, target.topics, remotes)
        merged: dict[str, list[str]] = {remote: [] for remote in wanted.values()}
        for topic, remote in remotes.items():
            if remote in merged:
                merged[remote].append(topic)
        sources = {topic for topics in merged.values() for topic in topics}
        of_source, of_target, (state, problem) = await asyncio.gather(
            source.read(sources), target.read({*wanted.values(), *extra}), _state(flow, target)
        )
        brokers = target.brokers
    copied_into = {partition.topic: record.target_topic for partition, record in state.partitions.items()}
    pairs = [
        ComparedTopic(
            topic=topic,
            remote_topic=remote,
            source=of_source.get(topic),
            remote=of_target.get(remote),
            reason=reasons.get(topic),
            most_partitions=_most_partitions(merged[remote], of_source),
            named_by=rules.named_by(topic),
            beside=tuple(other for other in merged[remote] if other != topic),
            copied_into=copied_into.get(topic),
        )
        for topic, remote in wanted.items()
    ] + [ComparedTopic(topic=None, remote_topic=name, source=None, remote=of_target.get(name)) for name in extra]
    return ClusterSnapshot(pairs=pairs, remotes=remotes, brokers=brokers, state=state, state_problem=problem)


async def read_acls(settings: MirrorSettings, flow: FlowSettings, seen: ClusterSnapshot) -> AclFacts | NoAuthorizer:
    """The ACLs of both clusters, and which of them the target should have.

    Raises:
        MirrorError: DESCRIBE is not granted on a cluster, or it can't be reached.
    """
    port = KafkaTopicPort(settings, flow, UNRECORDED)
    source, target = await port.acls()
    if source is None or target is None:
        return NoAuthorizer(flow.name.source if source is None else flow.name.target)
    rules, groups = acl_rules(flow), await synced_source_groups(port, flow, source)
    return AclFacts(
        source=source,
        target=target,
        wanted=flow_acls(source, replication_rules(flow), seen.remotes, groups, rules),
        given=frozenset(seen.state.acls.values()),
        rules=rules,
    )


async def _state(flow: FlowSettings, target: ClusterReader) -> tuple[FlowStateRecords, str | None]:
    """The flow's state, and why it can't be read."""
    try:
        return await target.flow_state(flow), None
    except ClusterUnreachableError:
        raise
    except MirrorError as error:
        return FlowStateRecords(), str(error)


def _wanted(flow: FlowSettings, names: Mapping[str, str], only: Collection[str]) -> dict[str, str]:
    unknown = sorted(set(only) - names.keys())
    if unknown:
        raise ConfigError(
            f"{flow.name} does not copy {', '.join(unknown)}: not on cluster {flow.name.source}, or not let through by "
            "topics and topics.exclude"
        )
    return {topic: remote for topic, remote in sorted(names.items()) if not only or topic in only}


def _most_partitions(topics: Collection[str], facts: Mapping[str, SideFacts]) -> int | None:
    """The number of partitions of the largest of several topics; None for one alone."""
    counts = [len(facts[topic].partitions) for topic in topics if topic in facts]
    return max(counts) if len(counts) > 1 else None


def _extra(rules: ReplicationRules, on_target: Collection[str], remotes: Mapping[str, str]) -> list[str]:
    known = set(remotes.values())
    return sorted(
        name
        for name in on_target
        if name not in known and rules.is_remote_topic(name)
        if not (rules.policy.is_internal_topic(name) or rules.is_routed_to(name))
    )
