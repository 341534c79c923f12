"""Finds the drift of a flow, and reconciles the target."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import closing

from mirror_ray.config.flow_rules import config_filter
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.topic_editor import ClusterEditor
from mirror_ray.model.errors import MirrorError
from mirror_ray.registry.client import RegistryRefusedError
from mirror_ray.registry.opening import open_registry
from mirror_ray.registry.recorded_changes import RecordedChanges
from mirror_ray.registry.survey import SubjectLevels
from mirror_ray.registry.survey_reader import survey_flow
from mirror_ray.topics.acl_sync import AclChanges
from mirror_ray.topics.cluster_snapshot import ClusterSnapshot, NoAuthorizer, read_acls, take_snapshot
from mirror_ray.topics.drift import Drift, DriftFinding, ExpectedDrift, Remedies, find_acl_drift, find_drift, unknown
from mirror_ray.topics.port import KafkaTopicPort
from mirror_ray.topics.schema_drift import find_schema_drift

_CLIENT_ID = "mirror-ray-drift"


async def find(
    settings: MirrorSettings,
    flow: FlowSettings,
    only: Collection[str],
    reasons: Mapping[str, str],
    *,
    every: bool,
    schemas: bool = True,
) -> Drift:
    """Find all drift of a flow. Changes nothing.

    Args:
        settings: Those of the flow's clusters.
        flow: The flow whose topics are compared.
        only: These source topics alone; empty: all.
        reasons: What a running system says of topics that it does not copy.
        every: Include configs and ACLs even if the flow does not sync them.
        schemas: Compare the registries as well, where the flow syncs schemas.

    Raises:
        MirrorError: A cluster can't be reached, or the flow does not copy one of ``only``.
    """
    seen = await take_snapshot(settings, flow, only, reasons)
    expected = ExpectedDrift(
        configs=config_filter(flow),
        replication_factor=flow.topics.replication_factor,
        brokers=seen.brokers,
        shared={record.target_topic for record in seen.state.partitions.values() if record.shared}
        | {pair.remote_topic for pair in seen.pairs if pair.beside},
    )
    findings, remedies = find_drift(seen.pairs, expected)
    if seen.state_problem is not None:
        findings += (unknown("-", "the flow's state", seen.state_problem),)
    if every or flow.topics.sync_acls_enabled:
        findings += await _acl_findings(settings, flow, seen, remedies, restricted=bool(only))
    if schemas and flow.syncs_schemas and flow.name.is_live:
        findings += await _schema_findings(settings, flow, only, remedies)
    drift = Drift(findings=findings, remedies=remedies)
    return drift if every or flow.topics.sync_configs_enabled else drift.without({"config"})


async def _acl_findings(
    settings: MirrorSettings, flow: FlowSettings, seen: ClusterSnapshot, remedies: Remedies, *, restricted: bool
) -> tuple[DriftFinding, ...]:
    try:
        facts = await read_acls(settings, flow, seen)
    except MirrorError as error:
        return (unknown("-", "ACLs", str(error)),)
    if isinstance(facts, NoAuthorizer):
        return ()
    changes = facts.changes_on({pair.remote_topic for pair in seen.pairs}) if restricted else facts.changes
    return find_acl_drift(changes, remedies)


async def _schema_findings(
    settings: MirrorSettings, flow: FlowSettings, only: Collection[str], remedies: Remedies
) -> tuple[DriftFinding, ...]:
    try:
        survey = await survey_flow(settings, flow, _CLIENT_ID, topics=only)
    except MirrorError as error:
        return (unknown("-", "schemas", str(error)),)
    return find_schema_drift(survey, remedies)


async def reconcile(settings: MirrorSettings, flow: FlowSettings, remedies: Remedies, audit_log: AuditLog) -> list[str]:
    """Apply remedies and record them in the audit log.

    Returns:
        A sentence for each remedy that was refused.

    Raises:
        OSError, MirrorError: The target can't be reached; ``find`` finds again what was not done.
    """
    port = KafkaTopicPort(settings, flow, audit_log)
    outcomes: dict[str, MirrorError | None] = {}

    def topics() -> dict[str, MirrorError | None]:
        with closing(ClusterEditor(settings.clusters[flow.name.target], _CLIENT_ID, audit_log)) as admin:
            return admin.create_topics(remedies.create) | admin.create_partitions(remedies.extend)

    outcomes |= await asyncio.to_thread(topics)
    if remedies.alter:
        outcomes |= await port.alter_configs(remedies.alter)
    if remedies.acls:
        acls = await port.change_acls(AclChanges(create=tuple(remedies.acls)))
        outcomes |= {str(acl): error for acl, error in acls.items()}
    if remedies.levels:
        outcomes |= await _set_levels(settings, flow, remedies.levels, audit_log)
    return [f"{name}: {error}" for name, error in outcomes.items() if error is not None]


async def _set_levels(
    settings: MirrorSettings, flow: FlowSettings, levels: Collection[SubjectLevels], audit_log: AuditLog
) -> dict[str, MirrorError | None]:
    outcomes: dict[str, MirrorError | None] = {}
    async with open_registry(settings.clusters[flow.name.target], _CLIENT_ID) as registry:
        changes = RecordedChanges(registry, audit_log)
        for one in levels:
            what, why = f"compatibility of {one.target}", f"{one.source} has it on the source"
            try:
                await changes.set_level(one.target, one.on_source or "", before=one.on_target, why=why)
            except RegistryRefusedError as error:
                outcomes[what] = error
    return outcomes
