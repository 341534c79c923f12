"""What becomes of a topic that is reversed, by what each side has of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirror_ray.model.errors import ConfigError
from mirror_ray.model.filters import TopicFilter
from mirror_ray.model.names import FlowName, TopicId, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.policy import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from mirror_ray.model.rules import ReplicationRules
from mirror_ray.model.topic_names import TopicNames
from mirror_ray.records.decode import DecodedRecord
from mirror_ray.reversal.cut import DivergedRecords, PartitionCut, TopicCut, reversed_names, side_of
from mirror_ray.reversal.reverse import parse_policies
from mirror_ray.state.partition_record import PartitionRecord

RECORD = PartitionRecord(
    source_topic_id=TopicId("a"),
    target_topic="orders",
    target_topic_id=TopicId("b"),
    source_offset=100,
    target_offset=80,
    sequence=17,
)
ANEW = side_of("orders", TopicId("c"), 1)
LONELY = (TopicPartition("orders", 7),)
ONE = DivergedRecords().followed_by([DecodedRecord(100, 5, b"")])


def cut(number: int = 0, **changes: Any) -> PartitionCut:
    """A partition of which both sides have all: the source ends where the pair is."""
    fields: dict[str, Any] = {"record": RECORD, "pair": RECORD.pair, "source_end": 100}
    return PartitionCut(source=TopicPartition("orders", number), **(fields | changes))


def topic(*cuts: PartitionCut, **changes: Any) -> TopicCut:
    """Of these partitions."""
    fields: dict[str, Any] = {
        "source_side": side_of("orders", TopicId("a"), len(cuts)),
        "remote_side": side_of("orders", TopicId("b"), len(cuts)),
    }
    return TopicCut(topic="orders", remote="orders", partitions=cuts, **(fields | changes))


PRESERVED = replace(RECORD, preserve_offsets=True, target_offset=100, sequence=None)


@pytest.mark.parametrize(
    ("found", "plans"),
    [
        (topic(cut()), ("in_place", "in_place", "in_place")),
        # Markers behind the cut, which nobody misses.
        (topic(cut(source_end=103)), ("in_place", "in_place", "in_place")),
        (topic(cut(), cut(1, source_end=101, diverged=ONE)), ("undecided", "append", "recreate")),
        (topic(cut(record=PRESERVED, pair=PRESERVED.pair)), ("in_place", "in_place", "in_place")),
        # The same offset would be a marker on one side, and a record on the other.
        (topic(cut(record=PRESERVED, pair=PRESERVED.pair, source_end=101)), ("undecided", "append", "recreate")),
        (topic(cut(source_end=90)), ("undecided", "undecided", "recreate")),
        (topic(cut(pair=None, why="removed")), ("undecided", "undecided", "recreate")),
        (topic(replaced="anew", source_side=ANEW), ("undecided", "undecided", "recreate")),
        (topic(replaced="anew", empty=True, source_side=ANEW), ("recreate", "recreate", "recreate")),
        # A partition that is on the source alone stays there; a topic that has one is not deleted.
        (topic(cut(), only_on_source=LONELY), ("in_place", "in_place", "in_place")),
        (topic(cut(source_end=101, diverged=ONE), only_on_source=LONELY), ("undecided", "append", "undecided")),
        (topic(source_side=side_of("orders")), ("recreate", "recreate", "recreate")),
    ],
)
def test_what_becomes_of_it(found: TopicCut, plans: tuple[str, str, str]) -> None:
    """Without a choice, and with either one."""
    assert (found.plan(None), found.plan("append"), found.plan("recreate")) == plans


def test_the_flow_back_goes_on_behind_both() -> None:
    """From the cut on the target, behind all that the source has, with the number of records that both have."""
    found = topic(cut(), cut(1, source_end=140, diverged=ONE)).records_back()
    assert found[0].pair == OffsetPair(80, 100, 17)
    assert (found[1].pair, found[1].foreign_to, found[1].settled) == (OffsetPair(80, 140, 17), 140, True)
    assert (found[0].source_topic_id, found[0].target_topic_id) == (TopicId("b"), TopicId("a"))
    assert found[0].origin == found[0].pair


def test_offsets_stay_preserved_while_both_logs_end_alike() -> None:
    """What is appended behind records that the other side lacks has other offsets."""
    same = cut(record=PRESERVED, pair=PRESERVED.pair)
    behind = cut(1, record=PRESERVED, pair=PRESERVED.pair, source_end=101, diverged=ONE)
    found = topic(same, behind).records_back()
    assert [record.preserve_offsets for record in found.values()] == [True, False]


def test_diverged_records_are_summed_up() -> None:
    """Over several answers, of which some are empty."""
    times = [[7, 3], [], [9]]
    found = DivergedRecords()
    for number, some in enumerate(times):
        found = found.followed_by([DecodedRecord(10 * number + at, time, b"") for at, time in enumerate(some)])
    assert (found.count, found.oldest_ms, found.newest_ms) == (3, 3, 9)
    assert found.first is not None
    assert found.last is not None
    assert (found.first.offset, found.last.offset) == (0, 20)


def rules(policy: ReplicationPolicy, **names: str) -> ReplicationRules:
    """Of a flow that selects everything."""
    flow = FlowName("A", "B")
    return ReplicationRules(flow=flow, policy=policy, topic_filter=TopicFilter([".*"], []), names=TopicNames(names))


def test_topics_that_keep_their_names() -> None:
    """Of a policy that renames, only those that a map names."""

    def reversed_of(known: ReplicationRules, **remotes: str) -> dict[str, str]:
        records = {TopicPartition(name, 0): replace(RECORD, target_topic=remote) for name, remote in remotes.items()}
        return reversed_names(known, records)

    renames, keeps = DefaultReplicationPolicy(), IdentityReplicationPolicy()
    assert reversed_of(rules(renames, orders="orders"), orders="orders", clicks="A.clicks") == {"orders": "orders"}
    assert reversed_of(rules(renames, orders="dr"), orders="dr") == {"dr": "orders"}
    assert reversed_of(rules(keeps), orders="orders", clicks="clicks") == {"orders": "orders", "clicks": "clicks"}
    assert reversed_of(rules(renames), clicks="A.clicks") == {}
    # Groups come back by the map, as ever; records that producers have written stay.
    assert reversed_of(rules(renames, orders="all", clicks="all"), orders="all", clicks="all") == {}


def test_choices() -> None:
    """For all topics, or by pattern; the first that fits counts."""
    chosen = parse_policies(["orders.*=append", "recreate"])
    assert (chosen.of("orders-1"), chosen.of("clicks")) == ("append", "recreate")
    assert parse_policies(["clicks=append"]).of("orders") is None
    for wrong in ("", "keep", "orders=", "append=orders"):
        with pytest.raises(ConfigError, match="--diverged"):
            parse_policies([wrong])
