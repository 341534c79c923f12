"""What starting a flow would do, decided from what both clusters say of its topics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mirror_ray.config.flow_rules import config_filter
from mirror_ray.config.internal_topics import InternalTopic, offset_topics, schema_ids
from mirror_ray.config.settings import FlowSettings
from mirror_ray.model.errors import ConfigError, KafkaProtocolError, MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.patterns import compile_patterns
from mirror_ray.model.policy import load_policy
from mirror_ray.model.start import EARLIEST, StartPosition, out_of_bounds
from mirror_ray.model.topics import (
    INTERNAL_TOPIC_REPLICATION_FACTOR,
    REMOTE_TOPIC_REPLICATION_FACTOR,
    NewRemoteTopic,
    effective_replication_factor,
)
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.schema import FlowStateRecords, state_topic
from mirror_ray.topics.comparison import SideFacts
from mirror_ray.topics.discovery_rules import (
    TargetLogBounds,
    TopicSide,
    flow_refusal,
    identity_faults,
    occupied_refusal,
    provenance_refusal,
    renamed_refusal,
    rules_of,
    selection_of,
    starts_changed,
    starts_of,
    unaccounted,
)
from mirror_ray.topics.plan import FlowPlan
from mirror_ray.topics.remote_topics import RemoteTopicPlan, TopicFacts, merge_plans, plan_remote_topic
from mirror_ray.topics.rights import FlowTopics

_AUTHORIZATION_FAILED: Final = frozenset({"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"})
_NOTHING_TO_COPY: Final = (
    "no topic of the source is let through by {flow}.topics and topics.exclude, or may be described"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFacts:
    """What both clusters say before a flow starts."""

    flow: FlowSettings
    source_id: str
    target_id: str
    #: The number of the target's brokers.
    brokers: int
    #: Every topic of the target.
    target_topics: frozenset[str]
    #: Under which its state is written.
    transactional_id: str
    #: The topic that keeps what the flow changes; None: it is not kept.
    audit: InternalTopic | None = None
    state: FlowStateRecords = field(default_factory=FlowStateRecords)
    #: Names of its remote topics by source topic.
    remote_names: Mapping[str, str] = field(default_factory=dict)
    #: Why source topics can't have the names that they would get.
    name_refusals: Mapping[str, str] = field(default_factory=dict)
    #: Remote topics that several source topics are copied into, of this flow or of several.
    merged: Collection[str] = ()
    sources: Mapping[str, SideFacts] = field(default_factory=dict)
    remotes: Mapping[str, SideFacts] = field(default_factory=dict)
    #: Remote partitions whose prefix this flow has begun to fill (``topics.preservation``).
    begun_prefixes: Collection[TopicPartition] = ()


def plan_flow(facts: PlanFacts) -> FlowPlan:
    """What starting the flow would do, as far as the brokers let it.

    Raises:
        ConfigError: A filter can't be used.
    """
    flow = facts.flow
    internal = _internal_topics(facts)
    if not flow.enabled:
        return FlowPlan(flow=flow.name, enabled=False, internal_topics=internal)
    topics = tuple(_remote_topics(facts))
    starts = start_positions(facts)
    changed = _changed_starts(flow, facts.state, facts.remote_names)
    return FlowPlan(
        flow=flow.name,
        enabled=True,
        topics=topics,
        internal_topics=internal,
        refused=(
            *(f"{topic}: {why}" for topic, why in facts.name_refusals.items()),
            *_refusals(facts),
            *_starts_out_of_bounds(facts, starts),
            *(topic.blocked for topic in topics if topic.blocked is not None),
        ),
        begins={topic: str(start) for topic, start in starts.items()},
        warnings=(
            *((_NOTHING_TO_COPY.format(flow=flow.name),) if not topics else ()),
            *((changed,) if changed else ()),
        ),
    )


def start_positions(facts: PlanFacts) -> dict[str, StartPosition]:
    """Where those topics begin that have no progress.

    A topic that came after the flow begins at its earliest record, whatever the config says.
    """
    flow, state = facts.flow, facts.state
    copied = {partition.topic for partition in state.partitions}
    rules = rules_of(flow)
    anew = state.flow is None or state.flow.selection != selection_of(flow)
    return {
        topic: rules.of(topic) if anew else state.starts.get(topic, EARLIEST)
        for topic in facts.remote_names
        if topic not in copied
    }


def flow_topics(facts: PlanFacts, plan: FlowPlan, failures: Iterable[MirrorError]) -> FlowTopics:
    """The topics that the flow touches; ``failures``: what the target's brokers would refuse."""
    flow = facts.flow
    return FlowTopics(
        flow=flow.name,
        source=tuple(topic.source_topic for topic in plan.topics),
        remote=tuple(topic.remote_topic for topic in plan.topics),
        state=state_topic(flow.name.source, route=flow.name.route) if flow.enabled else None,
        offsets=offset_topics(flow),
        audit=facts.audit,
        schema_ids=schema_ids(flow),
        transactional_id=facts.transactional_id if flow.enabled else None,
        preserves_offsets=flow.preserves_offsets,
        heartbeats=_heartbeats_topic(flow) if flow.heartbeats.emit_enabled else None,
        acls=flow.enabled and flow.topics.sync_acls_enabled,
        creation_refused=any(
            isinstance(error, KafkaProtocolError) and error.name in _AUTHORIZATION_FAILED for error in failures
        ),
    )


def _remote_topics(facts: PlanFacts) -> Sequence[RemoteTopicPlan]:
    flow = facts.flow
    try:
        configs = config_filter(flow)
    except ValueError as error:
        raise ConfigError(f"{flow.name}: {error}") from error
    factor = effective_replication_factor(
        flow.topics.replication_factor, REMOTE_TOPIC_REPLICATION_FACTOR, facts.brokers
    )
    plans = [
        plan_remote_topic(
            _topic_facts(facts.sources[name]),
            _topic_facts(facts.remotes[remote]) if remote in facts.remotes else None,
            remote,
            replication_factor=factor,
            configs=configs,
            alone=remote not in facts.merged,
        )
        for name, remote in facts.remote_names.items()
    ]
    return merge_plans(plans)


def _topic_facts(side: SideFacts) -> TopicFacts:
    return TopicFacts(name=side.topic, partitions=len(side.partitions), configs=side.configs)


def _internal_topics(facts: PlanFacts) -> tuple[NewRemoteTopic, ...]:
    """Our own topics that the target lacks."""
    flow, compacted = facts.flow, {"cleanup.policy": "compact"}
    wanted: list[tuple[str, int | None, dict[str, str]]] = []
    if flow.enabled:
        wanted.append((state_topic(flow.name.source, route=flow.name.route), None, compacted))
    own = [topic for topic in offset_topics(flow) if topic.side == "target"]
    own += filter(None, (facts.audit, schema_ids(flow)))
    wanted += [(topic.name, topic.replication_factor, topic.configs) for topic in own]
    if flow.heartbeats.emit_enabled:
        wanted.append((_heartbeats_topic(flow), flow.heartbeats.replication_factor, compacted))
    return tuple(
        NewRemoteTopic(
            name=name,
            partitions=1,
            replication_factor=effective_replication_factor(factor, INTERNAL_TOPIC_REPLICATION_FACTOR, facts.brokers),
            configs=configs,
        )
        for name, factor, configs in wanted
        if name not in facts.target_topics
    )


def _heartbeats_topic(flow: FlowSettings) -> str:
    return load_policy(flow.policy, flow.name.source).heartbeats_topic()


def _refusals(facts: PlanFacts) -> list[str]:
    """Topics that the flow would not touch, by what its state and the target's logs say."""
    flow, state = facts.flow, facts.state
    ids = facts.source_id, facts.target_id
    refusal = flow_refusal(flow.name, state, *ids) or provenance_refusal(flow, *ids)
    if refusal is not None:
        return [refusal]
    shared = _shared(facts)
    of_identity: list[str] = []
    uncounted: dict[str, list[int]] = {}
    for name, remote_name in facts.remote_names.items():
        side, remote = _side(facts.sources[name]), facts.remotes.get(remote_name)
        records = _records_of(state, name)
        refusal = renamed_refusal(name, remote_name, records)
        faults = identity_faults(side, None if remote is None else _side(remote), records)
        if refusal is not None:
            of_identity.append(refusal)
        elif faults:
            fault = next(iter(faults.values()))
            if flow.trouble.policy_for(fault.kind) == "stop":
                of_identity.append(f"{fault.kind}: {fault.text}; `mirror-ray resolve` answers it once the flow runs")
        elif remote is not None and remote_name not in shared:
            uncounted[remote_name] = [
                number
                for number in unaccounted(side, _side(remote), records)
                if TopicPartition(remote_name, number) not in facts.begun_prefixes
            ]
    occupied = (occupied_refusal(name, _bounds(facts.remotes[name], numbers)) for name, numbers in uncounted.items())
    return [*of_identity, *(why for why in occupied if why is not None)]


def _shared(facts: PlanFacts) -> set[str]:
    """Remote topics that others write to as well."""
    flow = facts.flow
    try:
        declared = compile_patterns(flow.topics.shared_remote)
    except ValueError as error:
        raise ConfigError(f"{flow.name}: {error}") from error
    return {
        remote
        for topic, remote in facts.remote_names.items()
        if remote in facts.merged
        or (declared is not None and declared.fits(remote))
        or flow.both_sides_write(topic, remote)
    }


def _side(facts: SideFacts) -> TopicSide:
    return TopicSide(topic=facts.topic, topic_id=facts.topic_id, partitions=len(facts.partitions))


def _bounds(remote: SideFacts, numbers: Iterable[int]) -> dict[int, TargetLogBounds]:
    return {
        number: TargetLogBounds(start=known.start, end=known.end)
        for number in numbers
        if (known := remote.partitions[number]).start is not None and known.end is not None
    }


def _records_of(state: FlowStateRecords, topic: str) -> dict[int, PartitionRecord]:
    return {key.partition: record for key, record in state.partitions.items() if key.topic == topic}


def _changed_starts(flow: FlowSettings, state: FlowStateRecords, topics: Collection[str]) -> str | None:
    """A sentence where ``topics.start`` has changed for topics that have progress already."""
    copied = {partition.topic for partition in state.partitions}
    return starts_changed(flow.name, state.flow, starts_of(flow), len(copied.intersection(topics)))


def _starts_out_of_bounds(facts: PlanFacts, starts: Mapping[str, StartPosition]) -> list[str]:
    """Topics that can't begin at the offsets that the config names."""
    refusals: list[str] = []
    for topic, start in starts.items():
        if start.kind == "offsets":
            partitions = facts.sources[topic].partitions
            bounds = {
                number: (known.start, known.end)
                for number, known in partitions.items()
                if known.start is not None and known.end is not None
            }
            why = out_of_bounds(topic, start, range(len(partitions)), bounds)
            refusals += [why] if why is not None else []
    return refusals
