"""The drift of a flow's target from its source and configuration, and the remedies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from mirror_ray.model.acls import Acl
from mirror_ray.model.cluster_change import ConfigChange
from mirror_ray.model.filters import ConfigPropertyFilter
from mirror_ray.model.topics import REMOTE_TOPIC_REPLICATION_FACTOR, NewRemoteTopic, effective_replication_factor
from mirror_ray.registry.survey import SubjectLevels
from mirror_ray.topics.acl_sync import AclChanges
from mirror_ray.topics.comparison import ComparedTopic, SideFacts
from mirror_ray.topics.config_sync import config_changes
from mirror_ray.topics.remote_topics import TopicFacts, plan_remote_topic

#: ``missing``: a remote topic that does not exist; ``extra``: one whose source topic the flow does not copy (any more);
#: ``name``: the topic was copied into another remote topic than it would be now; ``schema``: what the target's schema
#: registry has; ``unknown``: it can't be compared.
DriftKind = Literal["missing", "extra", "name", "partitions", "replication", "config", "acl", "schema", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftFinding:
    """One difference. ``remedy``: what reconciling does about it; ``advice``: what to do where it can't."""

    kind: DriftKind
    remote_topic: str
    what: str
    expected: str | None = None
    found: str | None = None
    remedy: str | None = None
    advice: str | None = None


@dataclass(slots=True)
class Remedies:
    """The changes that reconciling makes, by request."""

    create: list[NewRemoteTopic] = field(default_factory=list)
    #: New numbers of partitions by topic.
    extend: dict[str, int] = field(default_factory=dict)
    alter: dict[str, tuple[ConfigChange, ...]] = field(default_factory=dict)
    acls: list[Acl] = field(default_factory=list)
    #: Subjects of the target's registry that get the source's level of compatibility.
    levels: list[SubjectLevels] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.create or self.extend or self.alter or self.acls or self.levels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """All drift of a flow, and the remedies."""

    findings: tuple[DriftFinding, ...]
    remedies: Remedies

    def without(self, kinds: Collection[str]) -> Drift:
        """The drift without findings and remedies of some kinds."""
        remedies = self.remedies
        return Drift(
            findings=tuple(finding for finding in self.findings if finding.kind not in kinds),
            remedies=Remedies(
                create=[] if "missing" in kinds else remedies.create,
                extend={} if "partitions" in kinds else remedies.extend,
                alter={} if "config" in kinds else remedies.alter,
                acls=[] if "acl" in kinds else remedies.acls,
                levels=[] if "schema" in kinds else remedies.levels,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedDrift:
    """What a flow's remote topics should be like."""

    configs: ConfigPropertyFilter
    #: None: not set.
    replication_factor: int | None
    brokers: int
    #: Remote topics that others write to as well: their configs may differ.
    shared: Collection[str] = ()


def find_drift(pairs: Iterable[ComparedTopic], expected: ExpectedDrift) -> tuple[tuple[DriftFinding, ...], Remedies]:
    """The drift of a flow's topics, in their order, and the remedies."""
    remedies = Remedies()
    return tuple(finding for pair in pairs for finding in _of_topic(pair, expected, remedies)), remedies


def find_acl_drift(changes: AclChanges, remedies: Remedies) -> tuple[DriftFinding, ...]:
    """ACLs that the target lacks, which are added to ``remedies``, and those that the source has no longer."""
    remedies.acls += changes.create
    missing = [
        DriftFinding(kind="acl", remote_topic=acl.name, what=str(acl), expected="there", remedy="create it")
        for acl in changes.create
    ]
    stale = [
        DriftFinding(
            kind="acl",
            remote_topic=acl.name,
            what=str(acl),
            found="there",
            advice="the running flow takes it back with sync.topic.acls.revocations.enabled = true",
        )
        for acl in changes.delete
    ]
    return (*missing, *stale)


def unknown(remote_topic: str, what: str, why: str) -> DriftFinding:
    """A finding for what can't be compared."""
    return DriftFinding(kind="unknown", remote_topic=remote_topic, what=what, advice=f"can't be compared: {why}")


def _of_topic(pair: ComparedTopic, expected: ExpectedDrift, remedies: Remedies) -> Iterator[DriftFinding]:
    if pair.name_before is not None:
        yield DriftFinding(
            kind="name",
            remote_topic=pair.remote_topic,
            what="name",
            expected=pair.remote_topic,
            found=pair.name_before,
            advice="restore the naming, or clear the flow's state of the topic: it is not copied meanwhile",
        )
        return
    if pair.source is None:
        advice = "delete it when nobody reads it any more; mirror-ray deletes no topic"
        yield DriftFinding(kind="extra", remote_topic=pair.remote_topic, what="topic", found="there", advice=advice)
    elif pair.remote is None:
        yield _missing(pair, pair.source, expected, remedies)
    else:
        yield from _unknown(pair, pair.source, pair.remote)
        yield from _partitions(pair, pair.remote, remedies)
        yield from _replication(pair, pair.remote, expected)
        yield from _configs(pair, pair.source, pair.remote, expected, remedies)


def _missing(pair: ComparedTopic, source: SideFacts, expected: ExpectedDrift, remedies: Remedies) -> DriftFinding:
    facts = TopicFacts(name=source.topic, partitions=pair.partitions, configs=source.configs)
    factor = _factor(expected)
    plan = plan_remote_topic(facts, None, pair.remote_topic, replication_factor=factor, configs=expected.configs)
    if plan.create is not None and pair.remote_topic not in {topic.name for topic in remedies.create}:
        remedies.create.append(plan.create)
    return DriftFinding(
        kind="missing",
        remote_topic=pair.remote_topic,
        what="topic",
        expected="there",
        remedy=f"create it with {plan.partitions} partitions" if plan.create is not None else None,
        advice=pair.reason if plan.create is not None else plan.blocked,
    )


def _unknown(pair: ComparedTopic, *sides: SideFacts) -> Iterator[DriftFinding]:
    for side in sides:
        for aspect, why in side.problems.items():
            if aspect in ("topic", "configs"):
                yield unknown(pair.remote_topic, f"{aspect} of {side.topic}", why)


def _partitions(pair: ComparedTopic, remote: SideFacts, remedies: Remedies) -> Iterator[DriftFinding]:
    here, there = pair.partitions, len(remote.partitions)
    if here == there or not here or not there:
        return
    if there < here:
        remedies.extend[pair.remote_topic] = here
    yield DriftFinding(
        kind="partitions",
        remote_topic=pair.remote_topic,
        what="partitions",
        expected=str(here),
        found=str(there),
        remedy=f"add {here - there}" if there < here else None,
        advice=None if there < here else "partitions can't be taken away; the source's can be added to",
    )


def _replication(pair: ComparedTopic, remote: SideFacts, expected: ExpectedDrift) -> Iterator[DriftFinding]:
    wanted, found = _factor(expected), remote.replication_factor
    if found is not None and found < wanted:
        yield DriftFinding(
            kind="replication",
            remote_topic=pair.remote_topic,
            what="replication factor",
            expected=str(wanted),
            found=str(found),
            advice="kafka-reassign-partitions.sh gives a topic more replicas",
        )


def _configs(
    pair: ComparedTopic, source: SideFacts, remote: SideFacts, expected: ExpectedDrift, remedies: Remedies
) -> Iterator[DriftFinding]:
    if source.configs is None or remote.configs is None or pair.remote_topic in expected.shared:
        return
    changes = config_changes(source.configs, remote.configs, expected.configs)
    if changes:
        remedies.alter[pair.remote_topic] = changes
    for change in changes:
        after = change.after if change.after is not None else "the target's default"
        yield DriftFinding(
            kind="config",
            remote_topic=pair.remote_topic,
            what=change.key,
            expected=after,
            found=change.before if change.before is not None else "the target's default",
            remedy=f"set {change.after}" if change.after is not None else "take it away",
        )


def _factor(expected: ExpectedDrift) -> int:
    return effective_replication_factor(expected.replication_factor, REMOTE_TOPIC_REPLICATION_FACTOR, expected.brokers)
