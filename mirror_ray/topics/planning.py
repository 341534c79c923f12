"""Asks the clusters what starting a configuration would do. Changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from mirror_ray.config.flow_rules import config_filter, replication_rules
from mirror_ray.config.internal_topics import InternalTopic, audit_log, offset_topics
from mirror_ray.config.settings import AuditSettings, ClusterSettings, FlowSettings, MirrorSettings
from mirror_ray.config.topic_merging import claims_of, conflicts
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.state_topic import read_state, transactional_id
from mirror_ray.kafka.topic_editor import INTERNAL_TOPIC_REPLICATION_FACTOR
from mirror_ray.model.errors import ClusterUnreachableError, ConfigError, KafkaProtocolError, MirrorError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.model.patterns import compile_patterns
from mirror_ray.model.policy import load_policy
from mirror_ray.model.start import StartPosition, out_of_bounds
from mirror_ray.model.topics import (
    REMOTE_TOPIC_REPLICATION_FACTOR,
    ConfigValue,
    NewRemoteTopic,
    TopicSummary,
    effective_replication_factor,
)
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.schema import FlowStateRecords, decode, state_topic
from mirror_ray.topics import planned_starts
from mirror_ray.topics.discovery_rules import (
    TargetLogBounds,
    TopicSide,
    flow_refusal,
    identity_troubles,
    occupied_refusal,
    provenance_refusal,
    renamed_refusal,
    unaccounted,
)
from mirror_ray.topics.merged_plans import merge_plans
from mirror_ray.topics.plan import ClusterPlan, FlowPlan, RequiredRight, SystemPlan
from mirror_ray.topics.remote_topics import RemoteTopicPlan, TopicFacts, find_shared, plan_remote_topic
from mirror_ray.topics.rights import FlowTopics, flow_rights, merge_rights

_AUTHORIZATION_FAILED = frozenset({"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"})
_NOTHING_TO_COPY = "no topic of the source is let through by {flow}.topics and topics.exclude, or may be described"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Site:
    """A cluster as it was when the plan was made."""

    admin: ClusterAdmin
    cluster_id: str
    brokers: int
    topics: Mapping[str, TopicSummary]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A flow's plan, and whether the target refused to create one of its topics for want of a right."""

    plan: FlowPlan
    topics: FlowTopics


@dataclass(frozen=True, slots=True)
class _Outlook:
    """What a flow's state means for its start."""

    refusals: Sequence[str] = ()
    #: Where topics without progress begin.
    begins: Mapping[str, str] = field(default_factory=dict)
    #: A change of the config that has no effect.
    unheeded: str | None = None


def make_plan(settings: MirrorSettings, client_id: str = "mirror-ray-plan") -> SystemPlan:
    """What starting these flows would do: topics created and extended, rights that are missing, what is refused.

    Raises:
        ClusterUnreachableError: A cluster that a flow uses did not answer; the text names all of them.
        ConfigError: A filter or the replication policy can't be used.
    """
    flows = [flow for flow in settings.flows if flow.enabled or flow.heartbeats.emit_enabled]
    used = {alias for flow in flows for alias in (flow.name.source, flow.name.target)}
    sites = _reach([cluster for alias, cluster in settings.clusters.items() if alias in used], client_id)
    names = {flow.name: _remote_names(flow, sites[flow.name.source]) for flow in flows if flow.enabled}
    clashes = _clashes(flows, names)
    shared = find_shared(
        (flow, topic, remote)
        for flow, each in names.items()
        for topic, remote in each.items()
        if (flow, topic) not in clashes
    )
    together = {(each.target, each.remote_topic) for each in shared}
    drafts = [
        _plan_flow(
            flow,
            sites[flow.name.source],
            sites[flow.name.target],
            names.get(flow.name, {}),
            together=together,
            clashes=clashes,
            audit=_audit(flow, settings.audit),
        )
        for flow in flows
    ]
    return SystemPlan(
        clusters=tuple(
            ClusterPlan(alias=alias, cluster_id=site.cluster_id, brokers=site.brokers) for alias, site in sites.items()
        ),
        flows=tuple(draft.plan for draft in drafts),
        rights=merge_rights(right for draft in drafts for right in _rights(draft, sites)),
        shared=shared,
    )


def _reach(clusters: Sequence[ClusterSettings], client_id: str) -> dict[str, _Site]:
    """Look at all clusters at once."""

    def look(cluster: ClusterSettings) -> _Site | ClusterUnreachableError:
        admin = ClusterAdmin(cluster, client_id)
        try:
            seen = admin.overview()
            return _Site(admin=admin, cluster_id=seen.cluster_id, brokers=seen.brokers, topics=seen.topics)
        except ClusterUnreachableError as error:
            return error

    with ThreadPoolExecutor(max_workers=max(1, len(clusters))) as pool:
        answers = dict(zip((cluster.alias for cluster in clusters), pool.map(look, clusters), strict=True))
    unreachable = [str(answer) for answer in answers.values() if isinstance(answer, ClusterUnreachableError)]
    if unreachable:
        raise ClusterUnreachableError("\n".join(unreachable))
    return {alias: answer for alias, answer in answers.items() if isinstance(answer, _Site)}


def _remote_names(flow: FlowSettings, source: _Site) -> dict[str, str]:
    """The flow's topics, each with its remote topic's name."""
    try:
        rules = replication_rules(flow)
    except ValueError as error:
        raise ConfigError(f"{flow.name}: {error}") from error
    return {name: rules.remote_topic(name) for name in sorted(source.topics) if rules.should_replicate_topic(name)}


def _clashes(
    flows: Sequence[FlowSettings], names: Mapping[FlowName, Mapping[str, str]]
) -> dict[tuple[FlowName, str], str]:
    """Topics that can't have the names that they would get, or fall together although nobody says so; by flow."""
    rules = {flow.name: replication_rules(flow) for flow in flows if flow.enabled and flow.all_names}
    found = {
        (name, topic): why
        for name, each in rules.items()
        for topic in names[name]
        if (why := each.name_refusal(topic)) is not None
    }
    claims = [
        claim
        for name, each in rules.items()
        for claim in claims_of(each, (topic for topic in names[name] if (name, topic) not in found))
    ]
    return found | {(claim.flow, claim.topic): why for claim, why in conflicts(claims).items()}


def _plan_flow(
    flow: FlowSettings,
    source: _Site,
    target: _Site,
    remote_names: Mapping[str, str],
    *,
    together: Collection[tuple[str, str]],
    clashes: Mapping[tuple[FlowName, str], str],
    audit: InternalTopic | None,
) -> _Draft:
    """Plan one flow.

    Args:
        flow: The flow.
        source: Its source.
        target: Its target.
        remote_names: Names of its remote topics by source topic.
        together: Target aliases and remote topics that several source topics are copied into.
        clashes: Topics of all flows that can't have their names.
        audit: The topic that keeps what it changes.
    """
    memory = _memory(flow, target) if flow.enabled else FlowStateRecords()
    copied = {key.topic for key in memory.partitions}
    unfit = {topic: why for (name, topic), why in clashes.items() if name == flow.name and topic not in copied}
    remote_names = {topic: remote for topic, remote in remote_names.items() if topic not in unfit}
    internal = _internal_topics(flow, target, audit)
    if not flow.enabled:
        return _draft(flow, target, (), internal, _Outlook(), audit=audit)
    try:
        configs = config_filter(flow)
        declared = compile_patterns(flow.topics.shared_remote)
    except ValueError as error:
        raise ConfigError(f"{flow.name}: {error}") from error
    shared = {
        remote
        for topic, remote in remote_names.items()
        if (flow.name.target, remote) in together
        or (declared is not None and declared.fits(remote))
        or flow.both_sides_write(topic, remote)
    }
    names = list(remote_names)
    existing = list(dict.fromkeys(remote for remote in remote_names.values() if remote in target.topics))
    source_configs = source.admin.try_describe_topic_configs(names)
    target_configs = target.admin.try_describe_topic_configs(existing)
    plans = [
        plan_remote_topic(
            _facts(source.topics[name], source_configs),
            _facts(target.topics[remote], target_configs) if remote in target.topics else None,
            remote,
            replication_factor=effective_replication_factor(
                flow.topics.replication_factor, REMOTE_TOPIC_REPLICATION_FACTOR, target.brokers
            ),
            configs=configs,
            alone=(flow.name.target, remote) not in together,
        )
        for name, remote in remote_names.items()
    ]
    starts = planned_starts.begins(flow, memory, remote_names)
    refusals = [f"{topic}: {why}" for topic, why in unfit.items()]
    refusals += _refusals(flow, source, target, remote_names, shared=shared, memory=memory)
    refusals += _misplaced(source, starts)
    outlook = _Outlook(refusals, planned_starts.told(starts), planned_starts.unheeded(flow, memory, remote_names))
    return _draft(flow, target, tuple(merge_plans(plans)), internal, outlook, audit=audit)


def _misplaced(source: _Site, starts: Mapping[str, StartPosition]) -> list[str]:
    """Topics that can't begin at the offsets that the config names."""
    named = {topic: start for topic, start in starts.items() if start.kind == "offsets"}
    partitions = {topic: range(source.topics[topic].partitions) for topic in named}
    asked = [TopicPartition(topic, number) for topic, numbers in partitions.items() for number in numbers]
    bounds = source.admin.log_bounds(asked) if asked else {}
    reasons = (
        out_of_bounds(
            topic,
            start,
            partitions[topic],
            {each.partition: pair for each, pair in bounds.items() if each.topic == topic},
        )
        for topic, start in named.items()
    )
    return [reason for reason in reasons if reason is not None]


def _facts(topic: TopicSummary, configs: Mapping[str, dict[str, ConfigValue] | MirrorError]) -> TopicFacts:
    readable = configs.get(topic.name)
    return TopicFacts(
        name=topic.name, partitions=topic.partitions, configs=readable if isinstance(readable, dict) else None
    )


def _internal_topics(flow: FlowSettings, target: _Site, audit: InternalTopic | None) -> tuple[NewRemoteTopic, ...]:
    """Our own topics that the target lacks."""
    compacted = {"cleanup.policy": "compact"}
    wanted: list[tuple[str, int | None, dict[str, str]]] = []
    if flow.enabled:
        wanted.append((state_topic(flow.name.source, route=flow.name.route), None, compacted))
    wanted += [
        (each.name, each.replication_factor, each.configs) for each in offset_topics(flow) if each.side == "target"
    ]
    if audit is not None:
        wanted.append((audit.name, audit.replication_factor, audit.configs))
    if flow.heartbeats.emit_enabled:
        wanted.append((_heartbeats_topic(flow), flow.heartbeats.replication_factor, compacted))
    return tuple(
        NewRemoteTopic(
            name=name,
            partitions=1,
            replication_factor=effective_replication_factor(factor, INTERNAL_TOPIC_REPLICATION_FACTOR, target.brokers),
            configs=configs,
        )
        for name, factor, configs in wanted
        if name not in target.topics
    )


def _audit(flow: FlowSettings, settings: AuditSettings) -> InternalTopic | None:
    """The log of what a flow changes; a route's is its flow's."""
    changes = (flow.enabled or flow.heartbeats.emit_enabled) and flow.route is None
    return audit_log(flow.name.source, settings.retention_ms) if settings.enabled and changes else None


def _heartbeats_topic(flow: FlowSettings) -> str:
    return load_policy(flow.policy, flow.name.source).heartbeats_topic()


def _refusals(
    flow: FlowSettings,
    source: _Site,
    target: _Site,
    remote_names: Mapping[str, str],
    *,
    shared: Collection[str],
    memory: FlowStateRecords,
) -> list[str]:
    """Topics that the flow would not touch, by what its state and the target's logs say."""
    ids = source.cluster_id, target.cluster_id
    refusal = flow_refusal(flow.name, memory, *ids) or provenance_refusal(flow, *ids)
    if refusal is not None:
        return [refusal]
    sources = _sides(source.admin, remote_names)
    remotes = _sides(target.admin, [name for name in remote_names.values() if name in target.topics])
    refusals: list[str] = []
    doubtful: dict[str, list[TopicPartition]] = {}
    for name, side in sources.items():
        records = _records_of(memory, name)
        remote = remotes.get(remote_names[name])
        refusal = renamed_refusal(name, remote_names[name], records)
        troubles = identity_troubles(side, remote, records)
        if refusal is not None:
            refusals.append(refusal)
        elif troubles:
            trouble = next(iter(troubles.values()))
            policy = flow.trouble.policy_for(trouble.kind)
            if policy == "stop":
                refusals.append(f"{trouble.kind}: {trouble.text}; `mirror-ray resolve` answers it once the flow runs")
        elif remote is not None and remote.topic not in shared:
            open_partitions = unaccounted(side, remote, records)
            doubtful[remote.topic] = [TopicPartition(remote.topic, number) for number in open_partitions]
    bounds = target.admin.log_bounds([partition for partitions in doubtful.values() for partition in partitions])
    for remote_name, partitions in doubtful.items():
        known = {
            each.partition: TargetLogBounds(start=bounds[each][0], end=bounds[each][1])
            for each in partitions
            if each in bounds
        }
        refusal = occupied_refusal(remote_name, known)
        if refusal is not None:
            refusals.append(refusal)
    return refusals


def _memory(flow: FlowSettings, target: _Site) -> FlowStateRecords:
    topic = state_topic(flow.name.source, route=flow.name.route)
    return decode(read_state(target.admin.cluster, topic)) if topic in target.topics else FlowStateRecords()


def _records_of(memory: FlowStateRecords, topic: str) -> dict[int, PartitionRecord]:
    return {key.partition: record for key, record in memory.partitions.items() if key.topic == topic}


def _sides(admin: ClusterAdmin, names: Collection[str]) -> dict[str, TopicSide]:
    return {
        name: TopicSide(topic=name, topic_id=topic.topic_id, partitions=topic.partitions)
        for name, topic in admin.describe_topics(names).items()
        if isinstance(topic, TopicSummary)
    }


def _draft(
    flow: FlowSettings,
    target: _Site,
    topics: tuple[RemoteTopicPlan, ...],
    internal: tuple[NewRemoteTopic, ...],
    outlook: _Outlook,
    *,
    audit: InternalTopic | None,
) -> _Draft:
    """Ask the target whether it would do what is planned, and put the flow's plan together."""
    create = [*internal, *(topic.create for topic in topics if topic.create is not None)]
    extend = {topic.extend.topic: topic.extend.to_partitions for topic in topics if topic.extend is not None}
    outcomes = target.admin.would_create(create)
    outcomes |= target.admin.would_extend(extend)
    failures = [error for error in outcomes.values() if error is not None]
    blocked = [topic.blocked for topic in topics if topic.blocked is not None]
    plan = FlowPlan(
        flow=flow.name,
        enabled=flow.enabled,
        topics=topics,
        internal_topics=internal,
        refused=(*outlook.refusals, *blocked, *map(str, failures)),
        begins=outlook.begins,
        warnings=(
            *((_NOTHING_TO_COPY.format(flow=flow.name),) if flow.enabled and not topics else ()),
            *((outlook.unheeded,) if outlook.unheeded else ()),
        ),
    )
    touched = FlowTopics(
        flow=flow.name,
        source=tuple(topic.source_topic for topic in topics),
        remote=tuple(topic.remote_topic for topic in topics),
        state=state_topic(flow.name.source, route=flow.name.route) if flow.enabled else None,
        offsets=offset_topics(flow),
        audit=audit,
        transactional_id=transactional_id(flow.name) if flow.enabled else None,
        heartbeats=_heartbeats_topic(flow) if flow.heartbeats.emit_enabled else None,
        acls=flow.enabled and flow.topics.sync_acls_enabled,
        creation_refused=any(
            isinstance(error, KafkaProtocolError) and error.name in _AUTHORIZATION_FAILED for error in failures
        ),
    )
    return _Draft(plan=plan, topics=touched)


def _rights(draft: _Draft, sites: Mapping[str, _Site]) -> tuple[RequiredRight, ...]:
    topics = draft.topics
    source, target = sites[topics.flow.source], sites[topics.flow.target]
    own = [name for name in (topics.state, topics.heartbeats) if name is not None]
    own += [topics.audit.name] if topics.audit is not None else []
    own += [each.name for each in topics.offsets if each.side == "target"]
    there = [each.name for each in topics.offsets if each.side == "source" and each.name in source.topics]
    on_source = source.admin.authorized_operations([*topics.source, *there])
    on_target = target.admin.authorized_operations([name for name in (*topics.remote, *own) if name in target.topics])
    return flow_rights(topics, on_source.topics, on_target.topics, on_target.cluster, on_source.cluster)
