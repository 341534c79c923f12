"""``offsets`` in both forms of file, and what it excludes."""

from __future__ import annotations

import pytest

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.mm2 import load_mm2
from mirror_ray.config.native import load_native
from tests.unit.config.conftest import BASE, NATIVE, mistakes

PRESERVE = "A->B.offsets = preserve\n"


@pytest.mark.parametrize(
    "text",
    [
        f"{BASE}{PRESERVE}A->B.offsets.topics = orders.*, users\nA->B.offsets.gap.markers = 3\n",
        f"{NATIVE}flows:\n  A->B:\n    offsets: {{mode: preserve, topics: ['orders.*', users], gap_markers: 3}}\n",
    ],
)
def test_some_topics(text: str) -> None:
    """Heartbeats never: nobody moves with them."""
    (flow,) = (load_native if "version: 1" in text else load_mm2)(text, {}).settings.flows[:1]
    rules = replication_rules(flow)
    topics = ("orders-eu", "users", "raw", "heartbeats")
    assert [topic for topic in topics if rules.preserves_offsets(topic)] == ["orders-eu", "users"]
    assert flow.offsets.gap_markers == 3


def test_the_word_alone_is_for_all_topics() -> None:
    """As in the issue of every other tool; without it no offset is preserved."""
    preserving = load_native(f"{NATIVE}flows:\n  A->B:\n    offsets: preserve\n", {}).settings.flows[0]
    assert replication_rules(preserving).preserves_offsets("any")
    silent = load_native(f"{NATIVE}flows:\n  A->B: {{}}\n", {}).settings.flows[0]
    assert not replication_rules(silent).preserves_offsets("any")
    assert "offsets" in mistakes(f"{NATIVE}flows:\n  A->B:\n    offsets: keep\n")[0]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("A->B.delivery.guarantee = at_least_once\n", "exactly_once alone"),
        (
            (
                "A->B.provenance.headers.enabled = true\n"
                "A->B.replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
            ),
            "provenance.headers.enabled off",
        ),
        (
            "transforms = r\ntransforms.r.type = mirror_ray.transforms:Route\ntransforms.r.to = eu-.*=eu\n",
            "routes records to other topics",
        ),
        ("A->B.offsets.topics = orders(\n", "offsets.topics"),
        ("A->B.offsets.gap.markers = 0\n", "at least 1"),
    ],
)
def test_what_it_excludes(more: str, words: str) -> None:
    """Each says which key to change."""
    assert [problem for problem in mistakes(BASE + PRESERVE + more) if words in problem]
    assert not [problem for problem in mistakes(BASE + more) if "preserved" in problem]
