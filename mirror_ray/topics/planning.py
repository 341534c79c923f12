"""Asks the clusters what starting a configuration would do. Changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.internal_topics import InternalTopic, audit_log
from mirror_ray.config.settings import AuditSettings, FlowSettings, MirrorSettings
from mirror_ray.config.topic_merging import claims_of, conflicts
from mirror_ray.kafka.state_topic import transactional_id
from mirror_ray.model.errors import ClusterUnreachableError, ConfigError, MirrorError, reached
from mirror_ray.model.names import FlowName
from mirror_ray.model.rules import ReplicationRules
from mirror_ray.registry.survey import SchemaSurvey
from mirror_ray.registry.survey_reader import survey_flow
from mirror_ray.topics.cluster_reader import ClusterReader, refresh_all
from mirror_ray.topics.flow_plan import PlanFacts, flow_topics, plan_flow
from mirror_ray.topics.plan import ClusterPlan, FlowPlan, RequiredRight, SystemPlan
from mirror_ray.topics.preservation_costs import begun_prefixes, preservation_costs
from mirror_ray.topics.remote_topics import find_shared
from mirror_ray.topics.rights import FlowTopics, flow_rights, merge_rights
from mirror_ray.topics.schema_plan import plan_schemas

_Readers = Mapping[str, ClusterReader]


def make_plan(settings: MirrorSettings, client_id: str = "mirror-ray-plan") -> SystemPlan:
    """What starting these flows would do: topics created and extended, rights that are missing, what is refused.

    Blocking; from any thread that runs no event loop.

    Raises:
        ClusterUnreachableError: A cluster, or a schema registry, that a flow uses did not answer; the text names all
            of them.
        ConfigError: A filter or the replication policy can't be used.
    """
    return asyncio.run(_make_plan(settings, client_id))


async def _make_plan(settings: MirrorSettings, client_id: str) -> SystemPlan:
    flows = [flow for flow in settings.flows if flow.enabled or flow.heartbeats.emit_enabled]
    used = {alias for flow in flows for alias in (flow.name.source, flow.name.target)}
    async with AsyncExitStack() as stack:
        readers = {
            alias: await stack.enter_async_context(ClusterReader(cluster, client_id))
            for alias, cluster in settings.clusters.items()
            if alias in used
        }
        await refresh_all(readers.values())
        surveys = await _surveys(settings, flows, client_id)
        names = {
            flow.name: _remote_names(_rules(flow), readers[flow.name.source].topics) for flow in flows if flow.enabled
        }
        refusals = _name_refusals(flows, names)
        shared = find_shared(
            (flow, topic, remote)
            for flow, remotes in names.items()
            for topic, remote in remotes.items()
            if (flow, topic) not in refusals
        )
        planned = [
            await _plan_flow(
                PlanFacts(
                    flow=flow,
                    source_id=readers[flow.name.source].cluster_id,
                    target_id=readers[flow.name.target].cluster_id,
                    brokers=readers[flow.name.target].brokers,
                    target_topics=frozenset(readers[flow.name.target].topics),
                    transactional_id=transactional_id(flow.name),
                    audit=_audit(flow, settings.audit),
                    remote_names=names.get(flow.name, {}),
                    name_refusals={topic: why for (name, topic), why in refusals.items() if name == flow.name},
                    merged={topic.remote_topic for topic in shared if topic.target == flow.name.target},
                ),
                readers[flow.name.source],
                readers[flow.name.target],
            )
            for flow in flows
        ]
        rights = [right for _, topics in planned for right in await asyncio.to_thread(_rights, topics, readers)]
        return SystemPlan(
            clusters=tuple(
                ClusterPlan(alias=alias, cluster_id=reader.cluster_id, brokers=reader.brokers)
                for alias, reader in readers.items()
            ),
            flows=tuple(_with_schemas(plan, surveys.get(plan.flow)) for plan, _ in planned),
            rights=merge_rights(rights),
            shared=shared,
        )


async def _surveys(
    settings: MirrorSettings, flows: Sequence[FlowSettings], client_id: str
) -> dict[FlowName, SchemaSurvey | str]:
    """The registries of flows that sync schemas, compared; or why they can't be, though they answer."""

    async def survey(flow: FlowSettings) -> SchemaSurvey | str:
        try:
            return await survey_flow(settings, flow, client_id, levels=False)
        except ClusterUnreachableError:
            raise
        except MirrorError as error:
            return str(error)

    wanted = [flow for flow in flows if flow.enabled and flow.syncs_schemas and flow.name.is_live]
    found = await asyncio.gather(*map(survey, wanted), return_exceptions=True)
    return dict(zip((flow.name for flow in wanted), reached(found), strict=True))


def _with_schemas(plan: FlowPlan, survey: SchemaSurvey | str | None) -> FlowPlan:
    match survey:
        case None:
            return plan
        case SchemaSurvey():
            return replace(plan, schemas=plan_schemas(survey))
        case why:
            return replace(plan, refused=(*plan.refused, f"schemas are not mirrored: {why}"))


def _rules(flow: FlowSettings) -> ReplicationRules:
    try:
        return replication_rules(flow)
    except ValueError as error:
        raise ConfigError(f"{flow.name}: {error}") from error


def _remote_names(rules: ReplicationRules, topics: Sequence[str]) -> dict[str, str]:
    """The flow's topics, each with its remote topic's name."""
    return {topic: rules.remote_topic(topic) for topic in sorted(topics) if rules.should_replicate_topic(topic)}


def _name_refusals(
    flows: Sequence[FlowSettings], names: Mapping[FlowName, Mapping[str, str]]
) -> dict[tuple[FlowName, str], str]:
    """Topics that can't have the names that they would get, or are merged although nobody says so; by flow."""
    rules = {flow.name: replication_rules(flow) for flow in flows if flow.enabled and flow.all_names}
    found = {
        (flow, topic): why
        for flow, of_flow in rules.items()
        for topic in names[flow]
        if (why := of_flow.name_refusal(topic)) is not None
    }
    claims = [
        claim
        for flow, of_flow in rules.items()
        for claim in claims_of(of_flow, (topic for topic in names[flow] if (flow, topic) not in found))
    ]
    return found | {(claim.flow, claim.topic): why for claim, why in conflicts(claims).items()}


async def _plan_flow(facts: PlanFacts, source: ClusterReader, target: ClusterReader) -> tuple[FlowPlan, FlowTopics]:
    """A flow's plan, and the topics that it touches; of ``facts`` the flow's state and its topics are still missing."""
    if facts.flow.enabled:
        facts = await _with_topics(facts, source, target)
    plan = plan_flow(facts)
    preserved = await preservation_costs(facts, source) if facts.flow.enabled else ()
    too_long = (cost.refusal(facts.flow.offsets.prefix_max) for cost in preserved)
    failures = await asyncio.to_thread(_dry_run, plan, target)
    refused = (*plan.refused, *filter(None, too_long), *map(str, failures))
    return replace(plan, preserved=preserved, refused=refused), flow_topics(facts, plan, failures)


async def _with_topics(facts: PlanFacts, source: ClusterReader, target: ClusterReader) -> PlanFacts:
    state = await target.flow_state(facts.flow)
    copied = {partition.topic for partition in state.partitions}
    refused = {topic: why for topic, why in facts.name_refusals.items() if topic not in copied}
    names = {topic: remote for topic, remote in facts.remote_names.items() if topic not in refused}
    existing = facts.target_topics & set(names.values())
    sources, remotes = await asyncio.gather(source.read(names, sizes=False), target.read(existing, sizes=False))
    facts = replace(facts, state=state, remote_names=names, name_refusals=refused, sources=sources, remotes=remotes)
    return replace(facts, begun_prefixes=await begun_prefixes(facts, target))


def _dry_run(plan: FlowPlan, target: ClusterReader) -> list[MirrorError]:
    """What the target's brokers would refuse of a plan."""
    extend = {topic.extend.topic: topic.extend.to_partitions for topic in plan.topics if topic.extend is not None}
    outcomes = target.admin.would_create([*plan.internal_topics, *plan.created]) | target.admin.would_extend(extend)
    return [error for error in outcomes.values() if error is not None]


def _audit(flow: FlowSettings, settings: AuditSettings) -> InternalTopic | None:
    """The log of what a flow changes; a route's is its flow's."""
    changes = (flow.enabled or flow.heartbeats.emit_enabled) and flow.route is None
    return audit_log(flow.name.source, settings.retention_ms) if settings.enabled and changes else None


def _rights(topics: FlowTopics, readers: _Readers) -> tuple[RequiredRight, ...]:
    source, target = readers[topics.flow.source], readers[topics.flow.target]
    own = [name for name in (topics.state, topics.heartbeats) if name is not None]
    own += [topic.name for topic in (topics.audit, topics.schema_ids) if topic is not None]
    own += [topic.name for topic in topics.offsets if topic.side == "target"]
    existing = set(target.topics)
    on_source = {topic.name for topic in topics.offsets if topic.side == "source"} & set(source.topics)
    on_target = [name for name in (*topics.remote, *own) if name in existing]
    of_source = source.admin.authorized_operations([*topics.source, *sorted(on_source)])
    of_target = target.admin.authorized_operations(on_target)
    return flow_rights(topics, of_source.topics, of_target.topics, of_target.cluster, of_source.cluster)
