"""Compares a flow's topics on both sides: names, partitions, configs, ACLs, and batch headers; no record is read."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from mirror_ray.config.flow_rules import config_filter
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.state.schema import FlowStateRecords
from mirror_ray.topics.acl_comparison import AclFacts, AclPair, compare_acls, compare_other_acls
from mirror_ray.topics.cluster_snapshot import ClusterSnapshot, NoAuthorizer, read_acls, take_snapshot
from mirror_ray.topics.comparison import FlowComparison, compare_topic, with_headers
from mirror_ray.verification.batch_headers import read_headers, unread_headers
from mirror_ray.verification.cluster_queries import PartitionQuery
from mirror_ray.verification.report import BatchHeaders, Halt


def compare_flow(
    settings: MirrorSettings,
    flow: FlowSettings,
    topics: Collection[str],
    reasons: Mapping[str, str],
    running: PartitionQuery,
    *,
    refused: Collection[str] = (),
) -> FlowComparison:
    """Compare both sides of a flow's topics, without reading records.

    Args:
        settings: Settings that hold the flow's clusters.
        flow: The flow.
        topics: Source topics; empty: all.
        reasons: Why a running system does not copy topics, by topic.
        running: Asks the running system for its partitions.
        refused: Topics that the running system refuses to copy.

    Raises:
        ConfigError: The flow does not copy one of ``topics``.
    """
    snapshot = asyncio.run(take_snapshot(settings, flow, topics, reasons))
    facts: AclFacts | NoAuthorizer | MirrorError
    try:
        facts = asyncio.run(read_acls(settings, flow, snapshot))
    except MirrorError as error:
        facts = error
    configs, synced = config_filter(flow), flow.topics.sync_acls_enabled
    acls: dict[str | None, tuple[AclPair, ...]] = {}
    others: tuple[AclPair, ...] = ()
    if isinstance(facts, AclFacts):
        acls = {
            pair.topic: compare_acls(facts, pair.topic, pair.remote_topic, synced=synced)
            for pair in snapshot.pairs
            if pair.topic is not None
        }
        others = () if topics else compare_other_acls(facts, set(snapshot.remotes.values()), synced=synced)
    notes = [f"names before are not known: {snapshot.state_problem}"] if snapshot.state_problem is not None else []
    stopped = {topic: Halt("stopped", reasons.get(topic, "the flow refuses to copy it")) for topic in refused}
    headers = _headers(settings, flow, snapshot, running, stopped)
    every = [header for by_partition in headers.values() for header in by_partition]
    notes += _unknown_notes(every)
    if not _has_begun(snapshot):
        notes.append(f"{flow.name} has copied nothing yet: whose records its remote topics hold was not checked")
    synced_configs = flow.topics.sync_configs_enabled
    return FlowComparison(
        topics=[
            with_headers(
                compare_topic(pair, configs, synced=synced_configs, acls=acls.get(pair.topic, ())),
                headers.get(pair.topic or "", ()),
            )
            for pair in snapshot.pairs
        ],
        other_acls=others,
        acls_not_compared=None if isinstance(facts, AclFacts) else str(facts),
        notes=tuple(notes),
        headers_known=all(header.reason is None for header in every),
    )


def _headers(
    settings: MirrorSettings,
    flow: FlowSettings,
    snapshot: ClusterSnapshot,
    running: PartitionQuery,
    stopped: Mapping[str, Halt],
) -> dict[str, list[BatchHeaders]]:
    """Read batch headers, by topic that has a remote topic; none before the flow has begun to copy."""
    if not (_has_begun(snapshot) or stopped):
        return {}
    sides = {pair.topic: pair.source for pair in snapshot.pairs if pair.topic is not None and pair.remote is not None}
    existing = {topic: side for topic, side in sides.items() if side is not None}
    found: dict[str, list[BatchHeaders]] = {}
    if not existing:
        return found
    try:
        read = asyncio.run(read_headers(settings, flow.name, list(existing), running))
    except MirrorError as error:
        partitions = [TopicPartition(topic, number) for topic, side in existing.items() for number in side.partitions]
        read = asyncio.run(unread_headers(partitions, flow.name, snapshot.state, running, str(error)))
    for source, headers in read.items():
        halt = headers.halt or stopped.get(source.topic)
        found.setdefault(source.topic, []).append(replace(headers, halt=halt))
    return found


def _has_begun(snapshot: ClusterSnapshot) -> bool:
    return snapshot.state_problem is not None or snapshot.state != FlowStateRecords()


def _unknown_notes(headers: Iterable[BatchHeaders]) -> list[str]:
    """Say for each reason in which remote partitions it is unknown whose records they hold."""
    by_reason: dict[str, list[BatchHeaders]] = {}
    notes = []
    for header in headers:
        if header.reason is not None:
            by_reason.setdefault(header.reason, []).append(header)
        if not header.counted:
            notes += [f"{header.source.topic}: {text}" for text in header.drift]
    for reason, some in by_reason.items():
        more = f" and of {len(some) - 1} more" if len(some) > 1 else ""
        notes.append(f"whose records the copy of {some[0].source} holds{more} is not known: {reason}")
    return notes
