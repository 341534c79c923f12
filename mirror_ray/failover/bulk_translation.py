"""All of a flow's groups at once, without moving them: where they would go on, and commits there on demand."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.failover.commit_offsets import CommitResult, commit
from mirror_ray.failover.plan import FailoverOptions
from mirror_ray.failover.translated_offsets import GroupPlacement
from mirror_ray.groups.bulk import AnswerQueries, TranslatedOffset, translate_all
from mirror_ray.groups.commit_history_topic import commits_as_of
from mirror_ray.groups.offset_state import ACTIVE
from mirror_ray.groups.subscriptions import NOT_KNOWN, GroupReads
from mirror_ray.kafka.audit_log import UNRECORDED, AuditLog
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.committed_offset import Commits
from mirror_ray.model.names import FlowName

_FROM_TARGET = "the topic came from the target: its groups are carried there by the flow back"

MakeFind = Callable[[FlowSettings, ClusterConnections, ClusterConnections], AnswerQueries]


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOrder:
    """What is to be done."""

    flow: FlowName
    #: Translate what groups had committed then, in ms; None: what they have committed now.
    as_of_ms: int | None = None
    #: Commit the offsets on the target.
    commit: bool = False
    #: Say what would be committed, and leave it.
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
    settings: MirrorSettings, order: BulkOrder, make_find: MakeFind, audit_log: AuditLog = UNRECORDED
) -> list[BulkRow]:
    """Translate, and commit where the order says so; ``make_find``: see ``AnswerQueries``.

    ``audit_log`` keeps what is committed.

    Raises:
        ConfigError: What groups had committed then is not known.
        ClusterUnreachableError: A cluster does not answer.
        OSError, MirrorError: Something can't be read. What was refused is told by the rows.
    """
    async with FailoverClusters(settings, order.flow, "failover", audit_log=audit_log, follow=False) as sides:
        flow = sides.flow
        commits = await (_live(sides) if order.as_of_ms is None else _as_of(sides, order.as_of_ms))
        family = settings.family(flow.name)
        named = any(replication_rules(each).names for each in family)
        reads = await _reads(sides, commits) if named else NOT_KNOWN
        rows: list[TranslatedOffset] = []
        for each in family:
            find_places = make_find(each, sides.source, sides.target)
            rows += await translate_all(
                each,
                sides.source,
                sides.target,
                commits,
                find_places,
                back=sides.back,
                reads=reads,
                on_problem=sides.problem,
            )
        shown = [row for row in rows if row.assumed is None]
        if not order.commit:
            return [BulkRow(translated=row) for row in shown]
        places: dict[str, list[GroupPlacement]] = {}
        for row in rows:
            places.setdefault(row.group, []).append(_place(row))
        result = await commit(sides, places, {}, FailoverOptions(force=order.force), dry=order.dry)
        return list(map(_Outcomes(result, dry=order.dry).of, shown))


async def _reads(sides: FailoverClusters, commits: Commits) -> GroupReads:
    """What is known of the topics that groups read."""
    kinds = {name: each.kind for name, each in (await sides.groups(sides.source)).items() if name in commits}
    said = await sides.said()
    unsubscribed = {
        (group, remote): each.unsubscribed for group, every in said.items() for remote, each in every.items()
    }
    return GroupReads(await sides.subscriptions(kinds), unsubscribed)


async def _live(sides: FailoverClusters) -> Commits:
    listed = await sides.groups(sides.source)
    names: Collection[str] = [name for name, each in listed.items() if each.why_without_offsets is None]
    return await sides.committed(sides.source, names)


async def _as_of(sides: FailoverClusters, at_ms: int) -> Commits:
    name, groups = sides.flow.name, sides.flow.groups
    found = await commits_as_of(name.source, sides.target, at_ms, groups)
    return {group: offsets for group, offsets in found.items() if sides.carries(group)}


def _place(row: TranslatedOffset) -> GroupPlacement:
    return GroupPlacement(
        group=row.group,
        origin=row.source,
        origin_offset=row.committed.offset,
        destination=None if row.back else row.target,
        offset=row.translation.offset,
        exact=row.translation.exact,
        reason=row.translation.reason,
        metadata=row.committed.metadata,
    )


class _Outcomes:
    """What became of each row."""

    def __init__(self, result: CommitResult, *, dry: bool) -> None:
        self._active = set(result.active)
        self._kept = {(place.group, place.destination): place.reason for place in result.kept}
        self._refused = result.refused
        self._written = {(place.group, place.destination) for place in result.written}
        self._done = "would be committed" if dry else "committed"

    def of(self, row: TranslatedOffset) -> BulkRow:
        key = row.group, row.target
        refused = self._refused.get((row.group, row.target))
        if refused is not None:
            return BulkRow(translated=row, outcome=f"refused: {refused.name}", refused=refused.name)
        if row.back:
            outcome = f"left: {_FROM_TARGET}"
        elif row.translation.offset is None:
            outcome = "left: there is no place yet"
        elif row.group in self._active:
            outcome = f"left: {ACTIVE}"
        elif key in self._kept:
            outcome = f"left: {self._kept[key]}"
        else:
            outcome = self._done if key in self._written else "stands there already"
        return BulkRow(translated=row, outcome=outcome)
