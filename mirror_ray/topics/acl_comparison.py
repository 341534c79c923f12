"""Compares the ACLs of a flow's topics on both clusters.

Drift is what ACL sync would change (``mirror_ray.topics.acl_sync``); all else is shown with the reason why it may
differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

from mirror_ray.model.acls import Acl
from mirror_ray.topics.acl_sync import AclChanges, AclRules, acl_changes, target_acl

#: ``missing`` and ``stale`` (the flow created it, the source has it no longer) are drift; ``unsynced``: it would be
#: drift if ``sync.topic.acls.enabled`` were true; ``kept``: stale, but revocations are off. ACLs of the source that are
#: not synced: ``write``: only the flow writes remote topics; ``pattern``: patterns are not synced; ``merged``: another
#: topic that is copied into the same remote topic does not have it. ``own``: the target's own.
AclVerdict = Literal["same", "missing", "stale", "unsynced", "kept", "write", "pattern", "merged", "own"]

_COUNTED: Final = frozenset({"missing", "stale"})


class _OfTopics:
    """ACLs by the topics that they apply to."""

    def __init__(self, acls: Iterable[Acl]) -> None:
        self._literal: dict[str, set[Acl]] = {}
        self._patterns: list[Acl] = []
        for acl in acls:
            if acl.resource != "TOPIC":
                continue
            if acl.is_pattern:
                self._patterns.append(acl)
            else:
                self._literal.setdefault(acl.name, set()).add(acl)

    def on(self, topic: str) -> set[Acl]:
        """The ACLs of one topic."""
        return self._literal.get(topic, set()).union(acl for acl in self._patterns if acl.covers(topic))

    def on_any(self, topics: Iterable[str]) -> set[Acl]:
        """The ACLs of at least one of the topics."""
        return {acl for topic in topics for acl in self.on(topic)}


@dataclass(frozen=True, kw_only=True)
class AclFacts:
    """The ACLs of both clusters on topics and groups, and what the flow makes of them."""

    source: frozenset[Acl]
    target: frozenset[Acl]
    #: The ACLs that the target should have, by ``flow_acls``.
    wanted: frozenset[Acl]
    #: The ACLs on the target that the flow created.
    given: frozenset[Acl]
    rules: AclRules

    @cached_property
    def changes(self) -> AclChanges:
        """The changes that ACL sync would make: all drift."""
        return acl_changes(self.wanted, self.target, self.given, self.rules)

    def changes_on(self, remotes: Collection[str]) -> AclChanges:
        """The changes to these remote topics alone."""
        on_them = _OfTopics((*self.changes.create, *self.changes.delete)).on_any(remotes)
        return AclChanges(
            create=tuple(acl for acl in self.changes.create if acl in on_them),
            delete=tuple(acl for acl in self.changes.delete if acl in on_them),
        )

    @cached_property
    def source_topics(self) -> _OfTopics:
        """The source's ACLs by topic."""
        return _OfTopics(self.source)

    @cached_property
    def target_topics(self) -> _OfTopics:
        """The target's ACLs by topic."""
        return _OfTopics(self.target)

    @cached_property
    def wanted_topics(self) -> _OfTopics:
        """The ACLs that the target should have, by topic."""
        return _OfTopics(self.wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclPair:
    """One ACL on both clusters. ``source`` None: the source has none, or another topic of a merge has it."""

    source: Acl | None
    #: The target's ACL; None: it has none, and ``expected`` is missing.
    remote: Acl | None
    expected: Acl | None
    verdict: AclVerdict

    @property
    def drift(self) -> str | None:
        """The drift in a sentence; None: there is none."""
        if self.verdict not in _COUNTED:
            return None
        if self.verdict == "missing":
            return f"ACL missing on the target: {self.expected}"
        return f"ACL on the target that the source no longer gives: {self.remote}"


def compare_acls(facts: AclFacts, topic: str, remote: str, *, synced: bool) -> tuple[AclPair, ...]:
    """Compare the ACLs of a topic and of its remote topic; ``synced``: the flow syncs ACLs."""
    wanted = facts.wanted_topics.on(remote)
    pairs: list[AclPair] = []
    for acl in sorted(facts.source_topics.on(topic)):
        expected = _expected(acl, remote, wanted)
        if expected is not None:
            pairs.append(_wanted_pair(facts, acl, expected, synced=synced))
        else:
            pairs.append(AclPair(source=acl, remote=None, expected=None, verdict=_left_out(acl, facts.rules)))
    from_others = wanted - {pair.expected for pair in pairs}
    pairs += [_wanted_pair(facts, None, acl, synced=synced) for acl in sorted(from_others)]
    return (*pairs, *_surplus(facts, facts.target_topics.on(remote) - wanted, synced=synced))


def compare_other_acls(facts: AclFacts, remotes: Collection[str], *, synced: bool) -> tuple[AclPair, ...]:
    """Compare the flow's ACLs on anything but these remote topics: on groups, and on topics that don't exist yet."""
    gone = (facts.given & facts.target) - facts.wanted
    here = _OfTopics(facts.wanted | gone).on_any(remotes)
    wanted = [_wanted_pair(facts, None, acl, synced=synced) for acl in sorted(facts.wanted - here)]
    return (*wanted, *_surplus(facts, gone - here, synced=synced))


def _wanted_pair(facts: AclFacts, source: Acl | None, expected: Acl, *, synced: bool) -> AclPair:
    there = expected in facts.target
    verdict: AclVerdict = "same" if there else "missing" if synced else "unsynced"
    return AclPair(source=source, remote=expected if there else None, expected=expected, verdict=verdict)


def _surplus(facts: AclFacts, acls: Iterable[Acl], *, synced: bool) -> Iterator[AclPair]:
    """Yield the ACLs that the target has and need not have."""
    stale = set(facts.changes.delete)
    for acl in sorted(acls):
        verdict: AclVerdict = "kept" if acl in facts.given else "own"
        if acl in stale:
            verdict = "stale" if synced else "unsynced"
        yield AclPair(source=None, remote=acl, expected=None, verdict=verdict)


def _expected(acl: Acl, remote: str, wanted: Collection[Acl]) -> Acl | None:
    """The ACL of the remote topic that a source topic's comes to; a prefix stays one or becomes the topic's name."""
    synced = target_acl(acl, remote)
    if synced is None:
        return None
    alike = [other for other in wanted if replace(other, name=remote, pattern=acl.pattern) == synced]
    prefixed = (
        other for other in alike if other.pattern == acl.pattern == "PREFIXED" and other.name.endswith(acl.name)
    )
    return next(prefixed, next((other for other in alike if other.pattern == "LITERAL"), None))


def _left_out(acl: Acl, rules: AclRules) -> AclVerdict:
    if target_acl(acl, acl.name) is None:
        return "write"
    return "pattern" if acl.is_pattern and not rules.patterns else "merged"
