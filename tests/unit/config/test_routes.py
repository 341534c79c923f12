"""Routes in both forms of file: the flows that come of them, and what ``validate`` says of those that can't be."""

from __future__ import annotations

import pytest

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.mm2 import load_mm2
from mirror_ray.config.native import load_native
from mirror_ray.config.settings import FlowSettings
from mirror_ray.model.names import FlowName
from tests.unit.config.conftest import BASE, NATIVE, mistakes

MM2 = f"""{BASE}
A->B.topics = orders, users, raw.*
transforms = split
transforms.split.type = mirror_ray.transforms:Route
transforms.split.to = eu-.*=orders-eu, us-.*=orders-us
"""
ROUTES = """
flows:
  A->B:
    topics: {include: [orders, users]}
    transforms:
      steps:
        - {type: 'mirror_ray.transforms:Route', options: {to: {'eu-.*': eu}}, topics: [orders]}
        - {type: 'mirror_ray.transforms:Route', options: {to: {'eu-.*': eu}}, topics: [users, 'u.*']}
"""


def loaded(text: str) -> dict[str, FlowSettings]:
    """Enabled flows by name."""
    settings = (load_native if "version: 1" in text else load_mm2)(text, {}).settings
    return {str(flow.name): flow for flow in settings.flows if flow.enabled}


def test_a_flow_beside_it_for_each_destination() -> None:
    """Literal names are mapped, so that nothing is shared that need not be; others are told what the flow tells."""
    flows = loaded(MM2 + "transforms.split.topics = orders\ntransform.errors = dead_letter\n")
    assert list(flows) == ["A->B", "A->B#orders-eu", "A->B#orders-us"]
    route = flows["A->B#orders-eu"]
    assert FlowName.parse(str(route.name)) == route.name == FlowName("A", "B", route="orders-eu")
    assert route.topics.map == {"orders": "orders-eu"}
    assert (route.topics.rename, route.topics.shared_remote) == ((), ())
    assert not any((route.offset_syncs.enabled, route.heartbeats.emit_enabled, route.groups.history_enabled))
    # The record is set aside by the flow itself.
    assert (flows["A->B"].transforms.errors, route.transforms.errors) == ("dead_letter", "skip")
    rules = replication_rules(route)
    assert [topic for topic in ("orders", "users", "raw1") if rules.should_replicate_topic(topic)] == ["orders"]
    assert rules.remote_topic("orders") == "orders-eu"
    assert not rules.is_routed_to("orders-eu")
    own = replication_rules(flows["A->B"])
    assert own.is_routed_to("orders-eu")
    assert own.remote_topic("orders") == "A.orders"


def test_several_topics_to_one_destination() -> None:
    """By patterns nobody knows how many topics it gets: it counts as written by several."""
    route = loaded(NATIVE + ROUTES)["A->B#eu"]
    assert route.topics.map == {"orders": "eu", "users": "eu"}
    assert [pattern.match for pattern in route.topics.rename] == ["u.*"]
    rules = replication_rules(route)
    assert rules.merges("eu")
    assert rules.is_declared_shared("eu")


def test_what_was_routed_does_not_come_back() -> None:
    """It is a copy, whatever its name looks like."""
    flows = loaded(MM2 + "B->A.enabled = true\nB->A.transforms =\n")
    back = replication_rules(flows["B->A"])
    assert not back.should_replicate_topic("orders-eu")
    assert back.is_from_target("orders-eu")
    # Of its one original the flow back tells by its own remote topic alone.
    assert back.originals("A.orders", ["orders"]) == ("orders",)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("transforms.split.to = x=A.orders", "destination A.orders: it is what a copy of a topic of A is named"),
        ("transforms.split.to = x=mm2-x.internal", "is an internal topic"),
        ("transforms.split.to = x=heartbeats", "it is a topic of heartbeats"),
        ("transforms.split.to = x=dead\\ntransform.dead.letter.topic = dead", "it is the flow's dead-letter topic"),
        ("transforms.split.to = x=0123abcd", "looks like the id of a backfill"),
        (f"transforms.split.to = x={'x' * 240}", "too long"),
        ("transforms.split.to = x=a b", "can't be a topic's name"),
        ("transforms.split.to = x=mine\\nA->B.topics.map = users:mine", "a route needs a topic of its own"),
        (
            "transforms = split, rough\\ntransforms.rough.type = tests.support.transforms:Impure",
            "Impure is not declared pure, and mirror_ray.transforms:Route routes",
        ),
    ],
)
def test_routes_that_can_not_be(lines: str, says: str) -> None:
    """The key and the destination are named."""
    found = mistakes(MM2 + lines.replace("\\n", "\n") + "\n")
    assert found
    assert any(says in item for item in found), found
