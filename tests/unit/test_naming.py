"""Maps and rename patterns: what they name, what can't be used, and that no copy goes round by them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.config.checks import check_loops
from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings, RenamePattern, TopicSettings, with_all_names
from mirror_ray.model.filters import TopicFilter
from mirror_ray.model.names import FlowName
from mirror_ray.model.policy import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from mirror_ray.model.rules import ReplicationRules
from mirror_ray.model.topic_names import MAX_NAME_LENGTH, FlowNames, Rename, TopicNames, illegal_name


def rules(
    flow: str, policy: ReplicationPolicy | None = None, names: TopicNames | None = None, *others: FlowNames
) -> ReplicationRules:
    """Of a flow that takes every topic."""
    name = FlowName.parse(flow)
    own = names or TopicNames()
    return ReplicationRules(
        flow=name,
        policy=policy or DefaultReplicationPolicy(),
        topic_filter=TopicFilter((".*",), ()),
        names=own,
        all_names=(FlowNames(name.source, name.target, own), *others) if own else others,
    )


@pytest.mark.parametrize(
    ("match", "to", "topic", "name"),
    [
        (r"legacy\.(.*)", "new.$1", "legacy.orders", "new.orders"),
        (r"legacy\.(.*)", "new.$1", "orders", None),
        (r"(?<team>[a-z]+)-(.*)", "${team}.$2", "sales-orders", "sales.orders"),
        ("(a)(b)?c", "x$2y$1", "ac", "xya"),
        ("(.*)", "$12", "t", "t2"),
        ("(.*)", "${1}2", "t", "t2"),
        (".*", "one", "any", "one"),
        (".*", "$0-copy", "t", "t-copy"),
    ],
)
def test_rename(match: str, to: str, topic: str, name: str | None) -> None:
    """The whole name must fit; groups are referred to as in Java."""
    assert Rename(match, to).apply(topic) == name


@pytest.mark.parametrize(
    ("match", "to", "says"),
    [
        ("(", "x", "not a regular expression"),
        ("", "x", "is empty"),
        ("(a)", "$2", "refers to group 2, '(a)' has 1"),
        ("(a)", "${b}", "refers to group 'b'"),
        ("a", "", "replacement is empty"),
        ("(a)", "b c$1", "letters, digits"),
        ("(a)", "cost$", "letters, digits"),
        ("a", "..", "can't be a topic's name"),
        ("a", "x" * 250, "has 250 characters"),
        (r"\p{Alpha}", "x", "classes of that kind are Java's"),
    ],
)
def test_rename_that_cannot_be_used(match: str, to: str, says: str) -> None:
    """The error shows the pattern and what is wrong."""
    with pytest.raises(ValueError, match=re.escape(says)):
        Rename(match, to)


def test_the_map_wins_over_patterns_and_patterns_over_the_policy() -> None:
    """The first pattern that fits; heartbeats are named by the policy whatever fits."""
    names = TopicNames({"orders": "dr-orders"}, [Rename("o.*", "first"), Rename("(.*)s", "$1-second")])
    one = rules("A->B", None, names)
    named = {t: (one.remote_topic(t), one.named_by(t)) for t in ("orders", "oranges", "apples", "milk", "heartbeats")}
    assert named == {
        "orders": ("dr-orders", "map"),
        "oranges": ("first", "rename"),
        "apples": ("apple-second", "rename"),
        "milk": ("A.milk", "policy"),
        "heartbeats": ("A.heartbeats", "policy"),
    }


def test_illegal_names() -> None:
    """Kafka's rules."""
    for name in ("", ".", "..", "a b", "a/b", "ä", "x" * (MAX_NAME_LENGTH + 1)):
        assert illegal_name(name) is not None
    for name in ("a", "...", "A.b_c-9", "x" * MAX_NAME_LENGTH):
        assert illegal_name(name) is None


@pytest.mark.parametrize("topic", ["__x", "mm2-x.internal", "A.checkpoints.internal", "heartbeats"])
def test_a_pattern_that_gives_a_reserved_name_is_seen(topic: str) -> None:
    """Only the topics tell: the copy is refused, and the next step named."""
    refused = rules("A->B", None, TopicNames({}, [Rename("from-(.*)", "$1")])).name_refusal(f"from-{topic}")
    assert refused is not None
    assert topic in refused
    assert "topics.map" in refused


@given(st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True))
def test_what_a_pattern_gives_it_may_give(topic: str) -> None:
    """A copy is known by its name, whatever the pattern was fed."""
    for rename in (Rename("(.*)", "new.$1"), Rename("(.).*", "$1x"), Rename(".*", "all"), Rename("(.*)", "$1")):
        name = rename.apply(topic)
        assert name is not None
        assert rename.may_give(name)


def test_copies_do_not_go_back() -> None:
    """By map and by pattern, also over a third cluster; topics of other names do."""
    there = FlowNames("A", "B", TopicNames({"orders": "dr-orders"}, [Rename("x-(.*)", "y-$1")]))
    back = rules("B->A", None, None, there)
    for topic in ("dr-orders", "y-anything", "A.milk"):
        assert back.is_from_target(topic)
        assert not back.should_replicate_topic(topic)
    assert back.should_replicate_topic("orders")
    onwards = FlowNames("B", "C", TopicNames({"dr-orders": "far-orders"}))
    home = rules("C->A", None, None, there, onwards)
    assert not home.should_replicate_topic("far-orders")
    assert not home.should_replicate_topic("B.dr-orders")
    assert home.should_replicate_topic("B.orders")
    assert back.should_replicate_topic("heartbeats")


def test_originals_of_a_copy() -> None:
    """By the map, by a pattern among the topics that there are, by the policy; several of a merged topic."""
    names = TopicNames({"a": "all", "b": "all"}, [Rename("x-(.*)", "y-$1")])
    back = rules("B->A", None, None, FlowNames("A", "B", names))
    assert back.originals("all", ()) == ("a", "b")
    assert back.originals("y-1", ("x-1", "x-2", "y-1")) == ("x-1",)
    assert back.originals("A.milk", ()) == ("milk",)
    # The policy does not name what the map does.
    assert back.originals("A.a", ()) == ()
    assert back.originals("milk", ()) == ()
    assert back.copy_on_source("milk") == "A.milk"
    assert rules("A->B", None, None, FlowNames("B", "A", names)).copy_on_source("a") == "all"


def test_known_copies_on_the_target() -> None:
    """By name, as the policy's."""
    one = rules("A->B", None, TopicNames({"orders": "dr-orders"}, [Rename("x-(.*)", "y-$1")]))
    for topic in ("dr-orders", "y-1", "A.milk"):
        assert one.is_remote_topic(topic)
    assert not one.is_remote_topic("orders")


def test_no_cycles_under_the_identity_policy_with_a_map() -> None:
    """Where names are kept, a map is all that tells a copy."""
    there = FlowNames("A", "B", TopicNames({"orders": "dr-orders"}))
    back = rules("B->A", IdentityReplicationPolicy(source_alias="B"), None, there)
    assert not back.should_replicate_topic("dr-orders")
    assert back.should_replicate_topic("orders")


TOPICS = ("x", "y", "z")
NAMES = st.sampled_from((*TOPICS, "x-copy", "A.x", "C.y"))
RENAMES = st.sampled_from(
    (
        RenamePattern(match="(.*)", to="$1-copy"),
        RenamePattern(match="(.*)-copy", to="$1"),
        RenamePattern(match="([xy])", to="n.$1"),
        RenamePattern(match="x|y", to="z"),
    )
)


@st.composite
def flows(draw: st.DrawFn) -> tuple[FlowSettings, ...]:
    """Some flows among three clusters, with maps and patterns."""
    pairs = [f"{a}->{b}" for a in "ABC" for b in "ABC" if a != b]
    chosen = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=6, unique=True))
    return with_all_names(
        FlowSettings(
            name=FlowName.parse(name),
            enabled=True,
            topics=TopicSettings(
                map=draw(st.dictionaries(st.sampled_from(TOPICS), NAMES, max_size=2)),
                rename=tuple(draw(st.lists(RENAMES, max_size=1))),
                shared_remote=(".*",),
            ),
        )
        for name in chosen
    )


@given(flows())
def test_nothing_goes_round_that_validate_lets_through(chosen: tuple[FlowSettings, ...]) -> None:
    """From any topic on any cluster the copies of copies end, and none comes to where one of its ancestors is."""
    if list(check_loops(chosen)):
        return
    rules_of_flows = [replication_rules(flow) for flow in chosen]

    def walk(cluster: str, topic: str, path: tuple[tuple[str, str], ...]) -> None:
        assert (cluster, topic) not in path, path
        assert len(path) < 12, path
        for one in rules_of_flows:
            if one.flow.source == cluster and one.should_replicate_topic(topic):
                walk(one.flow.target, one.remote_topic(topic), (*path, (cluster, topic)))

    for cluster in "ABC":
        for topic in (*TOPICS, "n.x", "x-copy"):
            walk(cluster, topic, ())
