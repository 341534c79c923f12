"""Translates all of a flow's groups at once, without moving them, and commits the offsets on demand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.failover.commit_offsets import CommitResult, commit
from mirror_ray.failover.plan import FailoverOptions
from mirror_ray.groups.bulk import AnswerQueries, translate_all
from mirror_ray.groups.checkpoints import unsubscribed_by
from mirror_ray.groups.commit_history_topic import commits_as_of
from mirror_ray.groups.commit_rules import ACTIVE
from mirror_ray.groups.merged_groups import NOT_KNOWN, GroupReads
from mirror_ray.groups.translated_offset import TranslatedOffset
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.committed_offset import Commits
from mirror_ray.model.names import FlowName

_FROM_TARGET = "the topic came from the target: its groups are carried there by the flow back"

#: Makes what answers the queries of a flow, by its source and its target.
MakeAnswer = Callable[[FlowSettings, ClusterConnections, ClusterConnections], AnswerQueries]


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOrder:
    """What is to be done."""

    flow: FlowName
    #: Translate what groups had committed then, in ms; None: what they have committed now.
    as_of_ms: int | None = None
    #: Commit the offsets on the target.
    commit: bool = False
    #: Report what would be committed, and commit nothing.
    dry: bool = False
    #: Replace what somebody else committed on the target, too.
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkRow:
    """One group, one partition, and what became of it: None where nothing was to be committed."""

    translated: TranslatedOffset
    outcome: str | None = None
    #: Why the target refused the commit, or did not confirm it: the name of Kafka's error.
    refused: str | None = None


async def carry_out(
    settings: MirrorSettings, order: BulkOrder, make_answer: MakeAnswer, audit_log: AuditLog
) -> list[BulkRow]:
    """Translate, and commit where the order says so.

    Raises:
        ConfigError: What groups had committed then is not known.
    """
    async with FailoverClusters(settings, order.flow, "failover", audit_log=audit_log, follow=False) as clusters:
        commits = await _commits(clusters, order.as_of_ms)
        family = settings.family(clusters.flow.name)
        named = any(replication_rules(flow).names for flow in family)
        reads = await _reads(clusters, commits) if named else NOT_KNOWN
        offsets: list[TranslatedOffset] = []
        for flow in family:
            offsets += await translate_all(
                flow,
                clusters.source,
                clusters.target,
                commits,
                make_answer(flow, clusters.source, clusters.target),
                back=clusters.back,
                reads=reads,
                on_problem=clusters.problem,
            )
        shown = [offset for offset in offsets if offset.assumed is None]
        if not order.commit:
            return [BulkRow(translated=offset) for offset in shown]
        by_group: dict[str, list[TranslatedOffset]] = defaultdict(list)
        for offset in offsets:
            # The flow back is what commits in topics that came from the target.
            by_group[offset.group] += [] if offset.back else [offset]
        result = await commit(clusters, by_group, {}, FailoverOptions(force=order.force), dry=order.dry)
        return _outcomes(shown, result, dry=order.dry)


async def _reads(clusters: FailoverClusters, commits: Commits) -> GroupReads:
    """What is known of the topics that groups read."""
    groups = await clusters.groups(clusters.source)
    kinds = {name: group.kind for name, group in groups.items() if name in commits}
    unsubscribed = unsubscribed_by(await clusters.checkpoints())
    return GroupReads(await clusters.subscriptions(kinds), unsubscribed)


async def _commits(clusters: FailoverClusters, as_of_ms: int | None) -> Commits:
    """What the flow's groups have committed on the source: now, or at a moment of the past."""
    if as_of_ms is None:
        groups = await clusters.groups(clusters.source)
        names = [name for name, group in groups.items() if group.why_without_offsets is None]
        return await clusters.committed(clusters.source, names)
    flow = clusters.flow
    found = await commits_as_of(flow.name.source, clusters.target, as_of_ms, flow.groups)
    return {group: offsets for group, offsets in found.items() if clusters.covers(group)}


def _outcomes(offsets: list[TranslatedOffset], result: CommitResult, *, dry: bool) -> list[BulkRow]:
    """What became of each offset."""
    active = set(result.active)
    kept = {(offset.group, offset.destination): offset.reason for offset in result.kept}
    written = {(offset.group, offset.destination) for offset in result.written}

    def row(offset: TranslatedOffset) -> BulkRow:
        key = offset.group, offset.destination
        refused = result.refused.get((offset.group, offset.destination)) if offset.destination else None
        if refused is not None:
            return BulkRow(translated=offset, outcome=f"refused: {refused.name}", refused=refused.name)
        if offset.back:
            outcome = f"left: {_FROM_TARGET}"
        elif offset.offset is None:
            outcome = "left: there is no place yet"
        elif offset.group in active:
            outcome = f"left: {ACTIVE}"
        elif key in kept:
            outcome = f"left: {kept[key]}"
        elif key in written:
            outcome = "would be committed" if dry else "committed"
        else:
            outcome = "stands there already"
        return BulkRow(translated=offset, outcome=outcome)

    return list(map(row, offsets))
