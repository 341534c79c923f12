"""The ACLs that a flow's target should have by those of its source, and what is missing of them.

MM2's rules (``MirrorSourceConnector.syncTopicAcls``): literal ACLs of topics that are copied, to the same principals;
``ALLOW WRITE`` is left out, since only the flow writes a remote topic, and ``ALLOW ALL`` becomes ``ALLOW READ``. If
the configuration says so, prefixed ACLs and those on ``*`` are synced too: with a renamed prefix if every topic that
the new prefix covers is a copy of one that the old prefix covers, and else as literal ACLs on the remote topics that
exist, since a pattern could grant rights on topics that the source does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from mirror_ray.config.settings import FlowSettings
from mirror_ray.model.acls import EVERY, Acl
from mirror_ray.model.filters import GroupFilter
from mirror_ray.model.policy import DefaultReplicationPolicy
from mirror_ray.model.rules import ReplicationRules


@dataclass(frozen=True, slots=True, kw_only=True)
class AclRules:
    """What is synced beyond MM2's literal ACLs of topics; MM2 does none of it."""

    #: Prefixed ACLs and those on ``*``.
    patterns: bool = False
    #: ACLs on groups that are synced.
    groups: bool = False
    #: Delete ACLs that the flow created, once the source has them no longer.
    revocations: bool = False


def acl_rules(flow: FlowSettings) -> AclRules:
    """What a flow syncs of ACLs."""
    topics = flow.topics
    return AclRules(
        patterns=topics.sync_acls_patterns, groups=topics.sync_acls_groups, revocations=topics.sync_acls_revocations
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AclChanges:
    """ACLs to create, denials first, and to delete, denials last: no moment grants more than before or after."""

    create: tuple[Acl, ...] = ()
    delete: tuple[Acl, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.create or self.delete)


def wanted_acls(
    source: Iterable[Acl],
    *,
    remote_topic: Callable[[str], str | None],
    remote_prefix: Callable[[str], str | None],
    topics: Mapping[str, str],
    groups: Collection[str],
    rules: AclRules,
) -> frozenset[Acl]:
    """The ACLs that the target should have because of those on the source.

    Args:
        source: The ACLs of its topics and groups.
        remote_topic: The name on the target of a topic that the flow copies, or would copy; None of any other.
        remote_prefix: The beginning of remote topics' names for source topics that begin so; None: there is none.
        topics: Topics that the flow copies, with the names of their remote topics.
        groups: Groups that the flow syncs.
        rules: What the flow syncs of ACLs.
    """
    source = list(source)
    prefixes = _prefixes(source, remote_prefix, topics) if rules.patterns else {}
    wanted = {renamed for acl, prefix in prefixes.items() if (renamed := target_acl(acl, prefix)) is not None}
    writers = _by_remote(topics)

    def names(acl: Acl) -> Iterator[str]:
        if not acl.is_pattern:
            yield acl.name
        elif rules.patterns:
            prefix = prefixes.get(acl)
            covered = (topic for topic in topics if acl.covers(topic))
            yield from (topic for topic in covered if prefix is None or not topics[topic].startswith(prefix))

    for remote, given in _given(source, names, lambda topic: topics.get(topic) or remote_topic(topic)).items():
        of_topics = [given.get(topic, frozenset()) for topic in writers.get(remote, given)]
        # Reading a merged topic needs the right to read each of its sources; who is denied one of them is denied it.
        allowed = frozenset[Acl].intersection(*of_topics) if of_topics else frozenset[Acl]()
        wanted |= {acl for acl in allowed if acl.permission == "ALLOW"}
        wanted |= {acl for acls in given.values() for acl in acls if acl.permission == "DENY"}
    if rules.groups:
        wanted |= set(_group_acls(source, groups, rules))
    return frozenset(wanted)


def flow_acls(
    source: Iterable[Acl], flow: ReplicationRules, topics: Mapping[str, str], groups: Collection[str], rules: AclRules
) -> frozenset[Acl]:
    """The ACLs that the target should have by a flow's replication rules."""
    return wanted_acls(
        source,
        remote_topic=lambda topic: flow.remote_topic(topic) if flow.should_replicate_topic(topic) else None,
        remote_prefix=lambda prefix: remote_prefix(flow, prefix),
        topics=topics,
        groups=groups,
        rules=rules,
    )


def synced_groups(source: Iterable[Acl], listed: Iterable[str], group_filter: GroupFilter) -> list[str]:
    """Groups whose ACLs are synced: those that exist, or that an ACL names, and that the flow's filter selects."""
    named = {acl.name for acl in source if acl.resource == "GROUP" and acl.pattern == "LITERAL"}
    return sorted(
        group for group in named.union(listed) if group != EVERY and group_filter.should_replicate_group(group)
    )


def acl_changes(
    wanted: Collection[Acl], existing: Collection[Acl], given: Collection[Acl], rules: AclRules
) -> AclChanges:
    """The changes that bring the target to the wanted ACLs.

    Args:
        wanted: By ``wanted_acls``.
        existing: The ACLs of the target.
        given: Those of them that the flow created itself; nothing else is ever deleted.
        rules: Whether anything is deleted.
    """
    missing = set(wanted) - set(existing)
    stale = set(given) & set(existing) - set(wanted) if rules.revocations else set[Acl]()
    return AclChanges(
        create=tuple(sorted(missing, key=lambda acl: (acl.permission != "DENY", acl))),
        delete=tuple(sorted(stale, key=lambda acl: (acl.permission == "DENY", acl))),
    )


def target_acl(acl: Acl, name: str) -> Acl | None:
    """The ACL for remote topics of a name or prefix; None: it is not synced (MM2's ``targetAclBinding``)."""
    if acl.permission == "ALLOW" and acl.operation == "WRITE":
        return None
    operation = "READ" if (acl.permission, acl.operation) == ("ALLOW", "ALL") else acl.operation
    return replace(acl, name=name, operation=operation)


def remote_prefix(rules: ReplicationRules, prefix: str) -> str | None:
    """What the names of a flow's remote topics begin with, of topics that begin with ``prefix``.

    None where topics of other origins may begin so, too: under any policy but the default one, with names by a map or
    patterns, or with so short a prefix that the flow's internal topics do.
    """
    if rules.names or type(rules.policy) is not DefaultReplicationPolicy:
        return None
    remote = rules.remote_topic(prefix)
    return None if rules.policy.checkpoints_topic(rules.flow.source).startswith(remote) else remote


def _prefixes(
    source: Iterable[Acl], remote_prefix: Callable[[str], str | None], topics: Mapping[str, str]
) -> dict[Acl, str]:
    """The prefixed ACLs that stay prefixed, with their prefixes on the target."""
    found: dict[Acl, str] = {}
    for acl in source:
        prefix = remote_prefix(acl.name) if (acl.resource, acl.pattern) == ("TOPIC", "PREFIXED") else None
        if prefix is not None and all(acl.covers(topic) for topic, to in topics.items() if to.startswith(prefix)):
            found[acl] = prefix
    return found


def _given(
    source: Iterable[Acl], names: Callable[[Acl], Iterable[str]], remote_topic: Callable[[str], str | None]
) -> dict[str, dict[str, frozenset[Acl]]]:
    """By remote topic and source topic, the literal ACLs that the source's become; ``names``: the topics of an ACL."""
    found: dict[str, dict[str, set[Acl]]] = {}
    for acl in source:
        for topic in names(acl) if acl.resource == "TOPIC" else ():
            remote = remote_topic(topic)
            synced = target_acl(acl, remote) if remote is not None else None
            if remote is not None and synced is not None:
                literal = replace(synced, pattern="LITERAL")
                found.setdefault(remote, {}).setdefault(topic, set()).add(literal)
    return {remote: {topic: frozenset(acls) for topic, acls in by_topic.items()} for remote, by_topic in found.items()}


def _group_acls(source: Iterable[Acl], groups: Collection[str], rules: AclRules) -> Iterator[Acl]:
    """Groups keep their names."""
    for acl in source:
        if acl.resource == "GROUP" and (rules.patterns or not acl.is_pattern):
            yield from (replace(acl, name=group, pattern="LITERAL") for group in groups if acl.covers(group))


def _by_remote(topics: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for topic, remote in topics.items():
        found.setdefault(remote, []).append(topic)
    return found
