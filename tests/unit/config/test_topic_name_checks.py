"""Maps and rename patterns in both forms of file: what is read, and what ``validate`` says of what can't be."""

from __future__ import annotations

import pytest

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.mm2 import load_mm2
from mirror_ray.config.native import load_native
from mirror_ray.config.settings import RenamePattern
from tests.unit.config.conftest import BASE, NATIVE, mistakes

MM2 = f"{BASE}A->B.topics = orders, payments, legacy.*\n"
FLOWS = f"{NATIVE}flows:\n"


def test_properties() -> None:
    """``topic:name`` and ``pattern:replacement``; a pattern may hold colons. A flow's own replace all flows'."""
    text = MM2 + "topics.map = orders:x\nA->B.topics.map = orders:dr-orders, payments : dr-pay\n"
    text += "topics.rename = legacy\\\\.(?:a|b)(.*):new.$1\n"
    settings = load_mm2(text, {}).settings
    flow = next(flow for flow in settings.flows if flow.enabled)
    assert flow.topics.map == {"orders": "dr-orders", "payments": "dr-pay"}
    assert flow.topics.rename == (RenamePattern(match=r"legacy\.(?:a|b)(.*)", to="new.$1"),)
    assert replication_rules(flow).remote_topic("legacy.a-x") == "new.-x"
    assert [names.flow for names in flow.all_names] == [flow.name]


def test_native() -> None:
    """A mapping and a list; a flow's map goes on top of the one of all flows."""
    text = FLOWS + "  A->B: {topics: {map: {orders: o}, rename: [{match: 'x-(.*)', to: 'y-$1'}]}}\n"
    text += "defaults: {topics: {map: {payments: p}}}\n"
    (flow,) = load_native(text, {}).settings.flows
    assert flow.topics.map == {"orders": "o", "payments": "p"}
    assert replication_rules(flow).remote_topic("x-1") == "y-1"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("A->B.topics.map = orders", "A->B.topics.map: 'orders' is no pair"),
        ("topics.map = orders:a, orders:b", "topics.map: topic 'orders' has two names"),
        ("topics.map = orders:a b", "topics.map: orders: 'a b' can't be a topic's name"),
        ("topics.map = orders:..", "topics.map: orders: '..' can't be"),
        (f"topics.map = orders:{'x' * 250}", "has 250 characters"),
        ("topics.map = orders:__consumer_offsets", "__consumer_offsets is an internal topic"),
        ("topics.map = orders:mm2-x.internal", "mm2-x.internal is an internal topic"),
        ("topics.map = orders:B.heartbeats", "B.heartbeats is a topic of heartbeats"),
        ("topics.map = heartbeats:x", "which keeps its name"),
        ("topics.map = other:x", "topics.map: other is not copied by A->B"),
        ("topics.map = orders:x\ntopics.exclude = orders", "topics.map: orders is not copied by A->B"),
        ("topics.rename = (:x", "topics.rename: '(' is not a regular expression"),
        ("topics.rename = legacy:x$1", "topics.rename: 'x$1' refers to group 1"),
        ("topics.rename = legacy:__x", "topics.rename: 'legacy': __x is an internal topic"),
        ("topics.map = orders:all\ntopics.rename = pay.*:all", "would all be copied into all"),
        ("topics.map = orders:A.payments", "would all be copied into A.payments"),
        ("topics.rename = (?:orders|payments):one", "shared.remote.topics"),
    ],
)
def test_mistakes(lines: str, says: str) -> None:
    """Each is found without a cluster, and names its key and the next step."""
    (problem,) = mistakes(MM2 + lines + "\n")
    assert says in problem


def test_no_copy_goes_into_the_dead_letters() -> None:
    """What was left out of a copy would be in another one."""
    transforms = "transforms: {dead_letter_topic: letters}"
    flow = f"{{topics: {{include: [orders], map: {{orders: letters}}}}, {transforms}}}"
    assert any("letters is the flow's dead-letter topic" in problem for problem in mistakes(f"{FLOWS}  A->B: {flow}\n"))


def test_a_merge_that_is_meant() -> None:
    """By a map alone, or by naming the remote topic."""
    assert mistakes(MM2 + "topics.map = orders:all, payments:all\n") == ()
    text = MM2 + "topics.map = orders:all\ntopics.rename = pay.*:all\nshared.remote.topics = all\n"
    assert mistakes(text) == ()


ROUND = [
    # Each maps what the other has mapped.
    (
        "A->B: {topics: {include: [x], map: {x: y}}}",
        "B->A: {topics: {include: [y], map: {y: x}}}",
        "would go back to A",
    ),
    # The other one copies it by its name.
    ("A->B: {topics: {include: [x], map: {x: y}}}", "B->A: {topics: {include: [y]}}", "topic y would go back to A"),
    ("A->B: {topics: {rename: [{match: '(.*)', to: '$1'}]}}", "B->A: {}", "B->A could copy nothing"),
    (
        "A->B: {topics: {rename: [{match: 'a(.*)', to: 'b$1'}]}}",
        "B->A: {topics: {include: [bx, c]}}",
        "topic bx would go back to A",
    ),
]


@pytest.mark.parametrize(("there", "back", "says"), ROUND)
def test_a_copy_that_would_go_back(there: str, back: str, says: str) -> None:
    """What is listed and would be left out as a copy is a mistake, and never a loop."""
    assert any(says in problem for problem in mistakes(f"{FLOWS}  {there}\n  {back}\n"))


def test_maps_in_both_directions() -> None:
    """The same names on both sides are no loop: each side has its own and the other's."""
    flow = "{topics: {include: [orders, '.*'], map: {orders: dr-orders}}}"
    assert mistakes(f"{FLOWS}  A->B: {flow}\n  B->A: {flow}\n") == ()


def test_patterns_in_a_ring_of_three() -> None:
    """Names can't tell what came from two clusters away; a map can."""
    servers = ", ".join(f"{alias}: {{bootstrap_servers: '{alias}:1'}}" for alias in "ABC")
    ring = f"version: 1\nclusters: {{{servers}}}\n"
    ring += "flows:\n  A->B: {topics: {%s}}\n  B->C: {}\n  C->A: {}\n"
    (problem,) = mistakes(ring % "rename: [{match: '(.*)-x', to: '$1-y'}]")
    assert "A->B and B->C and C->A form a ring" in problem
    assert "topics.map" in problem
    assert mistakes(ring % "map: {orders: dr-orders}") == ()


def test_identity_ring_with_a_map() -> None:
    """Plain lists that a map makes fall together are a loop, too."""
    policy = "policy: {class_name: org.apache.kafka.connect.mirror.IdentityReplicationPolicy}"
    apart = f"{FLOWS}  A->B: {{{policy}, topics: {{include: [x]}}}}\n  B->A: {{{policy}, topics: {{include: [y]}}}}\n"
    assert mistakes(apart) == ()
    mapped = f"{FLOWS}  A->B: {{{policy}, topics: {{include: [x]}}}}\n"
    mapped += f"  B->A: {{{policy}, topics: {{include: [y], map: {{y: x}}}}}}\n"
    assert any("x would go back to B" in problem for problem in mistakes(mapped))
