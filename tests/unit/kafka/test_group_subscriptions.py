"""What a classic group's member says of itself, and what is made of it."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from mirror_ray.kafka.group_listing import _classic_subscription, _consumer_subscription, topics_in
from mirror_ray.model.subscription import Subscription


def subscription(*topics: str, version: int = 3, more: bytes = b"\0\0\0\0") -> bytes:
    """ConsumerProtocolSubscription; what follows the topics depends on the version."""
    names = b"".join(struct.pack(">h", len(topic.encode())) + topic.encode() for topic in topics)
    return struct.pack(">hi", version, len(topics)) + names + more


def assignment(**partitions: int) -> bytes:
    """ConsumerProtocolAssignment with so many partitions of each topic."""
    data = struct.pack(">hi", 1, len(partitions))
    for topic, count in partitions.items():
        data += struct.pack(">h", len(topic)) + topic.encode() + struct.pack(f">i{count}i", count, *range(count))
    return data + struct.pack(">i", -1)


def classic(*members: tuple[bytes, bytes], state: str = "Stable", protocol: str = "consumer") -> Any:
    """A group as DescribeGroups tells of it."""
    told = [SimpleNamespace(member_metadata=metadata, member_assignment=given) for metadata, given in members]
    return SimpleNamespace(group_state=state, protocol_type=protocol, members=told)


def test_topics() -> None:
    """Of every version, whatever follows them."""
    for version in range(4):
        assert topics_in(subscription("a", "ü", version=version, more=b"anything")) == {"a", "ü"}
    assert topics_in(assignment(a=3, b=1), partitions=True) == {"a", "b"}
    assert topics_in(b"", partitions=True) == set()
    for broken in (b"", b"\0", subscription("abc", more=b"")[:-1], struct.pack(">hi", 0, 9)):
        with pytest.raises((struct.error, IndexError)):
            topics_in(broken)


def test_a_classic_group() -> None:
    """All members together; nothing while they join, of others than consumers, or where one can't be read."""
    members = ((subscription("a"), assignment(a=1, c=1)), (subscription("b"), b""))
    assert _classic_subscription(classic(*members)) == Subscription(frozenset("abc"))
    assert _classic_subscription(classic()) is None
    assert _classic_subscription(classic(*members, state="PreparingRebalance")) is None
    assert _classic_subscription(classic(*members, protocol="connect")) is None
    assert _classic_subscription(classic(*members, (b"?", b""))) is None


def test_a_group_of_the_new_protocol() -> None:
    """Names, patterns, and what is or will be assigned."""

    def given(*topics: str) -> Any:
        return SimpleNamespace(topic_partitions=[SimpleNamespace(topic_name=topic) for topic in topics])

    member = SimpleNamespace(
        subscribed_topic_names=("a",), subscribed_topic_regex="x.*", assignment=given("b"), target_assignment=given("c")
    )
    found = _consumer_subscription(SimpleNamespace(members=[member]))
    assert found == Subscription(frozenset("abc"), frozenset({"x.*"}))
    assert [found.covers(topic) for topic in ("a", "xy", "ax")] == [True, True, False]
    assert _consumer_subscription(SimpleNamespace(members=[])) is None
