"""Which rights are carried over, and what is missing of them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings, PolicySettings
from mirror_ray.model.acls import Acl
from mirror_ray.model.names import FlowName
from mirror_ray.model.policy import IDENTITY_POLICY_CLASS
from mirror_ray.topics.acl_sync import AclRules, acl_changes, remote_prefix, wanted_acls
from tests.support.factories import acl

_TOPICS = {"orders": "A.orders", "orders-eu": "A.orders-eu", "bills": "A.bills"}
_ALL = AclRules(patterns=True, groups=True, revocations=True)


def wanted(
    *source: Acl, rules: AclRules | None = None, topics: dict[str, str] | None = None, renamed: bool = False
) -> set[Acl]:
    """What the target should have; topics that are not there are copied once they are, but for ``secret``.

    ``renamed``: prefixes can be renamed.
    """
    return set(
        wanted_acls(
            source,
            remote_topic=lambda topic: None if topic == "secret" else f"A.{topic}",
            remote_prefix=lambda prefix: f"A.{prefix}" if renamed else None,
            topics=_TOPICS if topics is None else topics,
            groups=("app-1", "app-2"),
            rules=rules or AclRules(),
        )
    )


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (acl("orders"), acl("A.orders")),
        (acl("orders", "WRITE"), None),
        (acl("orders", "ALL"), acl("A.orders")),
        (acl("orders", "DESCRIBE_CONFIGS"), acl("A.orders", "DESCRIBE_CONFIGS")),
        (acl("orders", "WRITE", permission="DENY"), acl("A.orders", "WRITE", permission="DENY")),
        (acl("orders", "ALL", permission="DENY"), acl("A.orders", "ALL", permission="DENY")),
        (acl("not-there-yet"), acl("A.not-there-yet")),
        (acl("secret"), None),
        (acl("orders", pattern="PREFIXED"), None),
        (acl("*"), None),
        (acl("app-1", resource="GROUP"), None),
    ],
)
def test_mm2s_rules(source: Acl, target: Acl | None) -> None:
    """Literal ACLs of topics that are copied; what writes is left out, ALL becomes READ, denials stay."""
    assert wanted(source) == ({target} if target is not None else set())


def test_patterns_are_carried_to_the_topics_that_there_are() -> None:
    """To no other topic on the target, which the source says nothing of."""
    prefixed, every = acl("orders", pattern="PREFIXED"), acl("*", "ALL", principal="User:bob")
    assert wanted(prefixed, every, rules=AclRules(patterns=True)) == {
        acl("A.orders"),
        acl("A.orders-eu"),
        *(acl(remote, principal="User:bob") for remote in _TOPICS.values()),
    }


def test_prefixes_are_renamed_where_they_cover_nothing_else() -> None:
    """So that a topic that is created later is covered, too; a topic that is named otherwise gets literal ACLs."""
    prefixed, rules = acl("orders", pattern="PREFIXED"), AclRules(patterns=True)
    assert wanted(prefixed, rules=rules, renamed=True) == {acl("A.orders", pattern="PREFIXED")}
    elsewhere = {"orders": "A.orders", "orders-eu": "eu"}
    assert wanted(prefixed, rules=rules, renamed=True, topics=elsewhere) == {
        acl("A.orders", pattern="PREFIXED"),
        acl("eu"),
    }
    foreign = {"orders": "A.orders", "bills": "A.orders-bills"}
    assert wanted(prefixed, rules=rules, renamed=True, topics=foreign) == {acl("A.orders")}
    assert wanted(acl("orders", "WRITE", pattern="PREFIXED"), rules=rules, renamed=True) == set()


def test_prefixes_that_can_be_renamed() -> None:
    """Where the alias stands before each name, and no internal topic of the flow begins so."""
    flow = FlowSettings(name=FlowName("A", "B"), enabled=True)
    assert remote_prefix(replication_rules(flow), "orders") == "A.orders"
    assert remote_prefix(replication_rules(flow), "check") is None
    identity = flow.model_copy(update={"policy": PolicySettings(class_name=IDENTITY_POLICY_CLASS)})
    assert remote_prefix(replication_rules(identity), "orders") is None


def test_groups_keep_their_names() -> None:
    """Those that are carried over; by patterns only where patterns are carried over."""
    literal = acl("app-1", resource="GROUP")
    prefixed = acl("app", resource="GROUP", pattern="PREFIXED")
    other = acl("tool", resource="GROUP")
    assert wanted(literal, prefixed, other, rules=AclRules(groups=True)) == {literal}
    both = AclRules(groups=True, patterns=True)
    assert wanted(prefixed, other, rules=both) == {literal, acl("app-2", resource="GROUP")}


def test_a_topic_of_several_origins_is_for_those_who_may_read_each() -> None:
    """And not for those who may not read one of them."""
    merged = {"orders": "all", "bills": "all"}
    ann, bob = (acl(topic) for topic in merged), acl("orders", principal="User:bob")
    denied = acl("bills", principal="User:eve", permission="DENY")
    assert wanted(*ann, bob, denied, topics=merged) == {acl("all"), acl("all", principal="User:eve", permission="DENY")}


def test_denials_come_first_and_go_last() -> None:
    """Otherwise somebody would get in between."""
    allow, deny = acl("A.orders"), acl("A.orders", permission="DENY", principal="User:eve")
    assert acl_changes({allow, deny}, (), (), _ALL).create == (deny, allow)
    assert acl_changes((), {allow, deny}, {allow, deny}, _ALL).delete == (allow, deny)


def test_only_what_the_flow_gave_is_taken_back() -> None:
    """And only where revocations are asked for."""
    ours, theirs = acl("A.orders"), acl("A.orders", principal="User:local")
    assert acl_changes((), {ours, theirs}, {ours}, _ALL).delete == (ours,)
    assert not acl_changes((), {ours, theirs}, {ours}, AclRules())
    assert not acl_changes((), (), {ours}, _ALL)


_ACLS = st.builds(
    acl,
    st.sampled_from([*_TOPICS, "*", "or", "app-1", "secret"]),
    st.sampled_from(["READ", "WRITE", "ALL", "DESCRIBE"]),
    resource=st.sampled_from(["TOPIC", "GROUP"]),
    pattern=st.sampled_from(["LITERAL", "PREFIXED"]),
    permission=st.sampled_from(["ALLOW", "DENY"]),
    principal=st.sampled_from(["User:ann", "User:bob"]),
)
_RULES = st.builds(AclRules, patterns=st.booleans(), groups=st.booleans(), revocations=st.booleans())


def may(principal: str, operation: str, topic: str, acls: Iterable[Acl]) -> bool:
    """What Kafka's authorizer says: a denial wins, ALL is every operation, and READ and WRITE bring DESCRIBE."""
    found = [acl for acl in acls if acl.resource == "TOPIC" and acl.principal == principal and acl.covers(topic)]
    denied = any(item.permission == "DENY" and item.operation in (operation, "ALL") for item in found)
    implied = {operation, "ALL", *(("READ", "WRITE") if operation == "DESCRIBE" else ())}
    return not denied and any(item.permission == "ALLOW" and item.operation in implied for item in found)


@given(source=st.sets(_ACLS, max_size=6), rules=_RULES, merged=st.booleans(), renamed=st.booleans())
def test_never_wider_than_on_the_source(source: set[Acl], rules: AclRules, merged: bool, renamed: bool) -> None:
    """Whoever may do something to a remote topic may do it to each of the topics that it is a copy of."""
    topics = {"orders": "all", "bills": "all", "orders-eu": "A.orders-eu"} if merged else _TOPICS
    carried = wanted(*source, rules=AclRules(patterns=True, groups=rules.groups), topics=topics, renamed=renamed)
    for topic, remote in topics.items():
        for principal in ("User:ann", "User:bob"):
            for operation in ("READ", "WRITE", "DESCRIBE"):
                if may(principal, operation, remote, carried):
                    assert may(principal, operation, topic, source)


@given(source=st.sets(_ACLS, max_size=6), existing=st.sets(_ACLS, max_size=4), rules=_RULES)
def test_a_second_round_changes_nothing(source: set[Acl], existing: set[Acl], rules: AclRules) -> None:
    """Once carried out, nothing is left."""
    target = wanted(*source, rules=rules)
    changes = acl_changes(target, existing, existing, rules)
    after = (existing | set(changes.create)) - set(changes.delete)
    assert not acl_changes(target, after, changes.create, rules)
