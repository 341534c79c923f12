"""ACLs of a flow's topics on both sides: what differs, and what of it should not. Pure.

What counts is what ACL sync would change, by ``mirror_ray.topics.acl_sync``; the rest is shown with the reason why it
may differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

from mirror_ray.model.acls import Acl
from mirror_ray.topics.acl_sync import AclChanges, AclRules, acl_changes, target_acl

#: ``missing`` and ``stale`` (the flow gave it, the source no longer does) count; ``unsynced``: it would be one of these
#: if ``sync.topic.acls.enabled`` were true; ``kept``: stale, but revocations are off. Of the source's own: ``write``:
#: only the flow writes remote topics; ``pattern``: patterns are not carried over; ``merged``: another topic that is
#: copied into the same remote topic does not give it. ``own``: the target's.
AclVerdict = Literal["same", "missing", "stale", "unsynced", "kept", "write", "pattern", "merged", "own"]

_COUNTED: Final = frozenset({"missing", "stale"})


class _OfTopics:
    """ACLs by the topics that they hold for."""

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
        """Those of one topic."""
        return self._literal.get(topic, set()).union(acl for acl in self._patterns if acl.covers(topic))

    def on_any(self, topics: Iterable[str]) -> set[Acl]:
        """Those of at least one of them."""
        return {acl for topic in topics for acl in self.on(topic)}


@dataclass(frozen=True, kw_only=True)
class AclFacts:
    """What both clusters have, of topics and of groups, and what the flow says of it."""

    source: frozenset[Acl]
    target: frozenset[Acl]
    #: What the target should have, by ``flow_acls``.
    wanted: frozenset[Acl]
    #: What the flow gave there itself.
    given: frozenset[Acl]
    rules: AclRules

    @cached_property
    def changes(self) -> AclChanges:
        """What ACL sync would change: all that is drift."""
        return acl_changes(self.wanted, self.target, self.given, self.rules)

    def changes_on(self, remotes: Collection[str]) -> AclChanges:
        """Those of these remote topics alone."""
        on_them = _OfTopics((*self.changes.create, *self.changes.delete)).on_any(remotes)
        return AclChanges(
            create=tuple(acl for acl in self.changes.create if acl in on_them),
            delete=tuple(acl for acl in self.changes.delete if acl in on_them),
        )

    @cached_property
    def source_topics(self) -> _OfTopics:
        """The source's."""
        return _OfTopics(self.source)

    @cached_property
    def target_topics(self) -> _OfTopics:
        """The target's."""
        return _OfTopics(self.target)

    @cached_property
    def wanted_topics(self) -> _OfTopics:
        """What the target should have."""
        return _OfTopics(self.wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclPair:
    """One right on both sides. ``source`` None: not the source's, or that of another topic copied to the same place."""

    source: Acl | None
    #: What the target has; where it should and does not, what is missing is in ``expected``.
    remote: Acl | None
    expected: Acl | None
    verdict: AclVerdict

    @property
    def drift(self) -> str | None:
        """What is wrong, in a sentence."""
        if self.verdict not in _COUNTED:
            return None
        if self.verdict == "missing":
            return f"ACL missing on the target: {self.expected}"
        return f"ACL on the target that the source no longer gives: {self.remote}"


def compare_acls(facts: AclFacts, topic: str, remote: str, *, synced: bool) -> tuple[AclPair, ...]:
    """The rights on a topic and on its remote topic; ``synced``: they are to follow the source."""
    wanted = facts.wanted_topics.on(remote)
    pairs: list[AclPair] = []
    for acl in sorted(facts.source_topics.on(topic)):
        expected = _expected(acl, remote, wanted)
        if expected is not None:
            pairs.append(_wanted_pair(facts, acl, expected, synced=synced))
        else:
            pairs.append(AclPair(source=acl, remote=None, expected=None, verdict=_left_out(acl, facts.rules)))
    from_others = wanted - {each.expected for each in pairs}
    pairs += [_wanted_pair(facts, None, each, synced=synced) for each in sorted(from_others)]
    return (*pairs, *_surplus(facts, facts.target_topics.on(remote) - wanted, synced=synced))


def compare_other_acls(facts: AclFacts, remotes: Collection[str], *, synced: bool) -> tuple[AclPair, ...]:
    """The flow's rights on anything but these remote topics: on groups, and on topics that do not exist yet."""
    gone = (facts.given & facts.target) - facts.wanted
    here = _OfTopics(facts.wanted | gone).on_any(remotes)
    wanted = [_wanted_pair(facts, None, each, synced=synced) for each in sorted(facts.wanted - here)]
    return (*wanted, *_surplus(facts, gone - here, synced=synced))


def _wanted_pair(facts: AclFacts, source: Acl | None, expected: Acl, *, synced: bool) -> AclPair:
    there = expected in facts.target
    verdict: AclVerdict = "same" if there else "missing" if synced else "unsynced"
    return AclPair(source=source, remote=expected if there else None, expected=expected, verdict=verdict)


def _surplus(facts: AclFacts, acls: Iterable[Acl], *, synced: bool) -> Iterator[AclPair]:
    """What the target has and need not have."""
    stale = set(facts.changes.delete)
    for acl in sorted(acls):
        verdict: AclVerdict = "kept" if acl in facts.given else "own"
        if acl in stale:
            verdict = "stale" if synced else "unsynced"
        yield AclPair(source=None, remote=acl, expected=None, verdict=verdict)


def _expected(acl: Acl, remote: str, wanted: Collection[Acl]) -> Acl | None:
    """What a source topic's ACL came to on the remote topic; a prefix stays one, or becomes the remote topic's name."""
    carried = target_acl(acl, remote)
    if carried is None:
        return None
    alike = [each for each in wanted if replace(each, name=remote, pattern=acl.pattern) == carried]
    prefixed = (each for each in alike if each.pattern == acl.pattern == "PREFIXED" and each.name.endswith(acl.name))
    return next(prefixed, next((each for each in alike if each.pattern == "LITERAL"), None))


def _left_out(acl: Acl, rules: AclRules) -> AclVerdict:
    if target_acl(acl, acl.name) is None:
        return "write"
    return "pattern" if acl.is_pattern and not rules.patterns else "merged"
