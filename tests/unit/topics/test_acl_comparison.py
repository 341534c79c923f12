"""Which differences between both sides' ACLs count, and why the others don't."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings, TopicSettings
from mirror_ray.model.acls import Acl
from mirror_ray.model.names import FlowName
from mirror_ray.topics.acl_comparison import AclFacts, AclVerdict, compare_acls, compare_other_acls
from mirror_ray.topics.acl_sync import AclRules, flow_acls
from tests.support.factories import acl

_ALL = AclRules(patterns=True, groups=True, revocations=True)
_TOPICS = {"orders": "A.orders", "bills": "A.bills"}


def facts(
    source: Iterable[Acl] = (),
    target: Iterable[Acl] = (),
    given: Iterable[Acl] = (),
    rules: AclRules | None = None,
    mapped: Mapping[str, str] | None = None,
) -> AclFacts:
    """Of a flow that copies ``orders`` and ``bills``; ``mapped``: into those remote topics."""
    flow = FlowSettings(name=FlowName("A", "B"), enabled=True, topics=TopicSettings(map=dict(mapped or {})))
    naming, rules = replication_rules(flow), rules or AclRules()
    remotes = {topic: naming.remote_topic(topic) for topic in _TOPICS}
    return AclFacts(
        source=frozenset(source),
        target=frozenset(target),
        wanted=flow_acls(source, naming, remotes, ("app",), rules),
        given=frozenset(given),
        rules=rules,
    )


def verdicts(of: AclFacts, *, synced: bool = True) -> list[tuple[Acl | None, Acl | None, AclVerdict]]:
    """Of ``orders``."""
    found = compare_acls(of, "orders", "A.orders", synced=synced)
    return [(pair.source, pair.remote, pair.verdict) for pair in found]


@pytest.mark.parametrize(
    ("source", "rules", "verdict"),
    [
        (acl("orders"), AclRules(), "missing"),
        (acl("orders", "WRITE", permission="DENY"), AclRules(), "missing"),
        (acl("orders", "WRITE"), _ALL, "write"),
        (acl("ord", pattern="PREFIXED"), AclRules(), "pattern"),
        (acl("*"), AclRules(), "pattern"),
        (acl("ord", pattern="PREFIXED"), _ALL, "missing"),
        (acl("*"), _ALL, "missing"),
    ],
)
def test_what_the_source_has_alone(source: Acl, rules: AclRules, verdict: AclVerdict) -> None:
    """Missing is drift, where it is to be carried over; else it says why it is not."""
    (found,) = compare_acls(facts([source], rules=rules), "orders", "A.orders", synced=True)
    assert (found.source, found.remote, found.verdict) == (source, None, verdict)
    assert (found.drift is not None) is (verdict == "missing")


def test_the_same_right_on_both_sides() -> None:
    """ALL becomes READ; a prefix is renamed; one on ``*`` becomes one on the topic."""
    for source, remote in (
        (acl("orders", "ALL"), acl("A.orders")),
        (acl("ord", pattern="PREFIXED"), acl("A.ord", pattern="PREFIXED")),
        (acl("*"), acl("A.orders")),
    ):
        assert verdicts(facts([source], [remote], rules=_ALL)) == [(source, remote, "same")]


def test_what_the_target_has_alone() -> None:
    """What the flow gave is stale, where it may take it back; what others gave is theirs."""
    there = acl("A.orders")
    assert verdicts(facts([], [there], [there], _ALL)) == [(None, there, "stale")]
    assert verdicts(facts([], [there], [there])) == [(None, there, "kept")]
    assert verdicts(facts([], [there], [], _ALL)) == [(None, there, "own")]


def test_nothing_counts_where_acls_are_not_to_follow() -> None:
    """It is shown all the same."""
    there = acl("A.orders")
    assert verdicts(facts([], [there], [there], _ALL), synced=False) == [(None, there, "unsynced")]
    assert verdicts(facts([acl("orders")]), synced=False) == [(acl("orders"), None, "unsynced")]


def test_a_merged_topic_gives_what_each_of_its_topics_gives() -> None:
    """A right on one of them alone is not carried over, a denial on one of them is, and is shown with the others."""
    merged = {"orders": "A.orders", "bills": "A.orders"}
    denial = acl("bills", permission="DENY")
    found = verdicts(facts([acl("orders"), denial], mapped=merged))
    assert found == [(acl("orders"), None, "merged"), (None, None, "missing")]


def test_groups_and_topics_that_do_not_exist_yet() -> None:
    """They belong to no topic that can be shown."""
    group, later = acl("app", resource="GROUP"), acl("later")
    found = compare_other_acls(facts([group, later, acl("orders")], [group], rules=_ALL), _TOPICS.values(), synced=True)
    assert [(pair.expected, pair.verdict) for pair in found] == [(group, "same"), (acl("A.later"), "missing")]


_ACLS = st.builds(
    acl,
    st.sampled_from(["orders", "bills", "A.orders", "A.bills", "ord", "A.ord", "*", "later", "A.later", "app"]),
    st.sampled_from(["READ", "WRITE", "ALL"]),
    pattern=st.sampled_from(["LITERAL", "PREFIXED"]),
    permission=st.sampled_from(["ALLOW", "DENY"]),
    resource=st.sampled_from(["TOPIC", "GROUP"]),
)
_MANY = st.frozensets(_ACLS, max_size=6)


@given(
    _MANY,
    _MANY,
    _MANY,
    st.builds(AclRules, patterns=st.booleans(), groups=st.booleans(), revocations=st.booleans()),
    st.sampled_from([{}, {"bills": "A.orders"}]),
)
def test_what_counts_is_what_acl_sync_would_change(
    source: frozenset[Acl],
    target: frozenset[Acl],
    given_before: frozenset[Acl],
    rules: AclRules,
    mapped: dict[str, str],
) -> None:
    """No more and no less, over all topics and the rest; every right of the source on a topic is shown."""
    of = facts(source, target, given_before, rules, mapped)
    remotes = {topic: mapped.get(topic, remote) for topic, remote in _TOPICS.items()}
    by_topic = {topic: compare_acls(of, topic, remote, synced=True) for topic, remote in remotes.items()}
    shown = [pair for pairs in by_topic.values() for pair in pairs]
    shown += compare_other_acls(of, remotes.values(), synced=True)
    counted = [pair for pair in shown if pair.drift is not None]
    assert {pair.expected for pair in counted if pair.verdict == "missing"} == set(of.changes.create)
    assert {pair.remote for pair in counted if pair.verdict == "stale"} == set(of.changes.delete)
    for topic, pairs in by_topic.items():
        held = {acl for acl in source if acl.resource == "TOPIC" and acl.covers(topic)}
        assert {pair.source for pair in pairs if pair.source is not None} == held
    alone = of.changes_on(["A.orders"])
    assert {acl for acl in of.changes.create if acl.resource == "TOPIC" and acl.covers("A.orders")} == {*alone.create}
