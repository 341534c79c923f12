"""Which rights on a flow's remote topics follow from those on its source, and what of them is missing. Pure.

MM2's rules (``MirrorSourceConnector.syncTopicAcls``): literal ACLs of topics that are copied, to the same principals;
``ALLOW WRITE`` is left out, since only the flow writes a remote topic, and ``ALLOW ALL`` becomes ``ALLOW READ``. Where
it is asked for, prefixed ACLs and those on ``*`` are carried over, too: with the prefix renamed where every topic that
it then covers is a copy of one that it covered before, and else as literal ACLs on the remote topics that there are,
since a pattern could give rights on topics that the source knows nothing of.
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
    """What is carried over beyond MM2's literal ACLs of topics; all of it is off in MM2."""

    #: What prefixed ACLs and those on ``*`` give, too.
    patterns: bool = False
    #: ACLs on groups that are carried over, too.
    groups: bool = False
    #: What the flow has given and the source no longer gives is taken back.
    revocations: bool = False


def acl_rules(flow: FlowSettings) -> AclRules:
    """What the flow carries over of ACLs."""
    topics = flow.topics
    return AclRules(
        patterns=topics.sync_acls_patterns, groups=topics.sync_acls_groups, revocations=topics.sync_acls_revocations
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AclChanges:
    """ACLs to be created, denials first, and to be deleted, denials last: so that nobody gets in between."""

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
        remote_prefix: What the names on the target begin with of topics that begin so; None where that can't be said.
        topics: Topics that the flow copies, with the names of their remote topics.
        groups: Groups that the flow carries over.
        rules: What of it is asked for.
    """
    source = list(source)
    prefixes = _prefixes(source, remote_prefix, topics) if rules.patterns else {}
    carried = {each for acl, prefix in prefixes.items() if (each := target_acl(acl, prefix)) is not None}
    writers = _by_remote(topics)

    def names(acl: Acl) -> Iterator[str]:
        if not acl.is_pattern:
            yield acl.name
        elif rules.patterns:
            prefix = prefixes.get(acl)
            covered = (topic for topic in topics if acl.covers(topic))
            yield from (topic for topic in covered if prefix is None or not topics[topic].startswith(prefix))

    for remote, given in _given(source, names, lambda topic: topics.get(topic) or remote_topic(topic)).items():
        everybody = [given.get(topic, frozenset()) for topic in writers.get(remote, given)]
        # In a topic of several origins only who may read each of them may read it; who may not read one, may not.
        allowed = frozenset[Acl].intersection(*everybody) if everybody else frozenset[Acl]()
        carried |= {each for each in allowed if each.permission == "ALLOW"}
        carried |= {each for acls in given.values() for each in acls if each.permission == "DENY"}
    if rules.groups:
        carried |= set(_group_acls(source, groups, rules))
    return frozenset(carried)


def flow_acls(
    source: Iterable[Acl], flow: ReplicationRules, topics: Mapping[str, str], groups: Collection[str], rules: AclRules
) -> frozenset[Acl]:
    """``wanted_acls`` by a flow's own naming."""
    return wanted_acls(
        source,
        remote_topic=lambda topic: flow.remote_topic(topic) if flow.should_replicate_topic(topic) else None,
        remote_prefix=lambda prefix: remote_prefix(flow, prefix),
        topics=topics,
        groups=groups,
        rules=rules,
    )


def carried_groups(source: Iterable[Acl], listed: Iterable[str], chosen: GroupFilter) -> list[str]:
    """Groups whose ACLs are carried over: of those that exist, or that an ACL names, the ones that the flow chooses."""
    named = {acl.name for acl in source if acl.resource == "GROUP" and acl.pattern == "LITERAL"}
    return sorted(group for group in named.union(listed) if group != EVERY and chosen.should_replicate_group(group))


def acl_changes(
    wanted: Collection[Acl], existing: Collection[Acl], given: Collection[Acl], rules: AclRules
) -> AclChanges:
    """What is to be changed on the target.

    Args:
        wanted: By ``wanted_acls``.
        existing: What the target has.
        given: What of that the flow created itself; nothing else is ever deleted.
        rules: Whether anything is.
    """
    missing = set(wanted) - set(existing)
    stale = set(given) & set(existing) - set(wanted) if rules.revocations else set[Acl]()
    return AclChanges(
        create=tuple(sorted(missing, key=lambda each: (each.permission != "DENY", each))),
        delete=tuple(sorted(stale, key=lambda each: (each.permission == "DENY", each))),
    )


def target_acl(acl: Acl, name: str) -> Acl | None:
    """What becomes of an ACL on remote topics of the name, or prefix, ``name`` (MM2's ``targetAclBinding``)."""
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
    """Prefixed ACLs that stay prefixed, with their prefixes on the target."""
    found: dict[Acl, str] = {}
    for acl in source:
        prefix = remote_prefix(acl.name) if (acl.resource, acl.pattern) == ("TOPIC", "PREFIXED") else None
        if prefix is not None and all(acl.covers(topic) for topic, to in topics.items() if to.startswith(prefix)):
            found[acl] = prefix
    return found


def _given(
    source: Iterable[Acl], names: Callable[[Acl], Iterable[str]], remote_topic: Callable[[str], str | None]
) -> dict[str, dict[str, frozenset[Acl]]]:
    """By remote topic and source topic, the literal ACLs that the source's come to; ``names``: an ACL's topics."""
    found: dict[str, dict[str, set[Acl]]] = {}
    for acl in source:
        for topic in names(acl) if acl.resource == "TOPIC" else ():
            remote = remote_topic(topic)
            carried = target_acl(acl, remote) if remote is not None else None
            if remote is not None and carried is not None:
                literal = replace(carried, pattern="LITERAL")
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
