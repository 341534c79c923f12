"""The state topic's documents and what is decided from them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mirror_ray.model.errors import MirrorError
from mirror_ray.model.fault import FaultKind, PartitionFault
from mirror_ray.model.names import FlowName, TopicId, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.start import LATEST, StartPosition
from mirror_ray.state import schema
from mirror_ray.state.actor_names import replicator_name, replicator_number
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.schema import HANDED_BACK_KEY, FaultResolution, FlowRecord, GrantRecord, Pause, decode
from mirror_ray.topics.discovery_rules import (
    TargetLogBounds,
    TopicSide,
    cluster_refusal,
    flow_refusal,
    identity_troubles,
    occupied_refusal,
    renamed_refusal,
    unaccounted,
)

RECORD = PartitionRecord(
    source_topic_id=TopicId("s1"),
    target_topic="A.t",
    target_topic_id=TopicId("t1"),
    source_offset=5,
    target_offset=3,
    skip=((1, 3), (7, 8)),
)
FLOW_RECORD = FlowRecord(producer_id=7, producer_epoch=0, source_cluster_id="a", target_cluster_id="b", selection="s")
SOURCE = TopicSide(topic="t", topic_id=TopicId("s1"), partitions=2)
REMOTE = TopicSide(topic="A.t", topic_id=TopicId("t1"), partitions=2)


def test_documents_survive_json() -> None:
    """Everything that is written is read back as it was, through JSON."""
    pauses = {Pause(), Pause("t"), Pause("t", 4)}
    repair = FaultResolution(
        trouble=PartitionFault(kind="copy_lost", text="x", target_from=3, resume=OffsetPair(1, 2, 3, 4)),
        policy="resync",
        time_ms=5,
        by="ann@desk",
    )
    gap = repair.gap()
    starts = {
        "t": LATEST,
        "u": StartPosition("timestamp", 1_700_000_000_123),
        "v": StartPosition("offsets", offsets=((0, 7), (2, 9))),
    }
    where = TopicPartition("my.topic-1", 12)
    written = {
        schema.repair_key(where): schema.encode(repair),
        schema.gap_key(where, gap): schema.encode(gap),
        schema.FLOW_KEY: schema.encode(FLOW_RECORD),
        schema.partition_key(TopicPartition("my.topic-1", 12)): schema.encode(RECORD),
        schema.grant_key(TopicPartition("my.topic-1", 12)): schema.encode(GrantRecord(epoch=2, lease_ms=4000)),
        **dict(schema.start_mark(topic, start) for topic, start in starts.items()),
        **{schema.pause_key(pause): {} for pause in pauses},
    }
    memory = schema.decode(json.loads(json.dumps(written)))
    assert memory.flow == FLOW_RECORD
    assert memory.partitions == {TopicPartition("my.topic-1", 12): RECORD}
    assert memory.grants == {TopicPartition("my.topic-1", 12): GrantRecord(epoch=2, lease_ms=4000)}
    assert memory.starts == starts
    assert schema.start_mark("t", LATEST) == ("latest/t", {})
    assert memory.repairs == {where: repair}
    assert memory.gaps == {(where, 5): gap}
    assert memory.paused == pauses


def test_grants_of_older_versions_are_read() -> None:
    """They do not say which coordinator made them; who reads them with an older version does not ask."""
    where = TopicPartition("t", 0)
    assert schema.read_grant("grant/t/0", {"epoch": 2, "lease_ms": 1}) == (where, GrantRecord(epoch=2, lease_ms=1))
    grant = GrantRecord(epoch=2, lease_ms=1, owner="a")
    assert schema.read_grant(schema.grant_key(where), schema.encode(grant)) == (where, grant)


def test_unknown_keys_and_fields_are_ignored() -> None:
    """A newer version's state can be read."""
    memory = schema.decode({"segments/t/0": {"x": 1}, schema.FLOW_KEY: {**schema.encode(FLOW_RECORD), "new": 1}})
    assert memory.flow == FLOW_RECORD


@pytest.mark.parametrize(
    ("key", "document", "wrong"),
    [
        ("partition/t/0", {}, "source_topic_id"),
        ("partition/t/x", schema.encode(RECORD), "x"),
        ("grant/t/0", {"epoch": 1}, "lease_ms"),
        ("flow", [], "."),
        ("repair/t/0", {"trouble": 3}, "."),
        ("gap/t/0/1", None, "."),
        ("backfill/1", {}, "."),
        ("start/t", {"at": "never"}, "never"),
    ],
)
def test_what_is_not_ours_is_named(key: str, document: Any, wrong: str) -> None:
    """A record that somebody else wrote is an error with its key and what is wrong, whatever it holds."""
    with pytest.raises(MirrorError, match=rf"state record '{key}': not written by mirror-ray \(.*{wrong}"):
        schema.decode({key: document})


@pytest.mark.parametrize(
    ("pause", "covered"), [(Pause(), True), (Pause("t"), True), (Pause("t", 1), True), (Pause("t", 2), False)]
)
def test_pause_covers_its_scope(pause: Pause, covered: bool) -> None:
    """A pause holds the flow, a topic, or one partition."""
    assert pause.covers(TopicPartition("t", 1)) is covered


def test_same_ids_may_be_copied_on() -> None:
    """A topic that is what it was is in no trouble."""
    assert identity_troubles(SOURCE, REMOTE, {0: RECORD}) == {}
    assert identity_troubles(SOURCE, None, {}) == {}
    assert renamed_refusal("t", "A.t", {0: RECORD}) is None


@pytest.mark.parametrize(
    ("source", "remote", "kind", "words"),
    [
        (TopicSide(topic="t", topic_id=TopicId("s2"), partitions=1), REMOTE, "source_recreated", ("s1", "s2")),
        (SOURCE, TopicSide(topic="A.t", topic_id=TopicId("t2"), partitions=1), "target_recreated", ("t1", "t2")),
        (SOURCE, None, "target_missing", ("A.t", "t1")),
    ],
)
def test_other_topics_under_known_names_are_in_trouble(
    source: TopicSide, remote: TopicSide | None, kind: FaultKind, words: tuple[str, ...]
) -> None:
    """A recreated or deleted topic is told with its identities, for each partition that was copied."""
    (trouble,) = identity_troubles(source, remote, {0: RECORD}).values()
    assert trouble.kind == kind
    assert all(word in trouble.text for word in words)


def test_renamed_remote_topic_is_refused() -> None:
    """Another replication policy is not a trouble that somebody could skip."""
    reason = renamed_refusal("t", "X.t", {0: RECORD})
    assert reason is not None
    assert all(word in reason for word in ("A.t", "X.t", "policy"))


def test_only_partitions_on_both_sides_are_begun() -> None:
    """A partition that the target does not show yet waits."""
    assert unaccounted(SOURCE, TopicSide(topic="A.t", topic_id=TopicId("t1"), partitions=1), {}) == [0]
    assert unaccounted(SOURCE, REMOTE, {0: RECORD}) == [1]


def test_emptied_log_is_not_occupied() -> None:
    """A log whose start is its end holds nothing, whatever the offsets are; one record makes it occupied."""
    assert occupied_refusal("A.t", {0: TargetLogBounds(start=500, end=500)}) is None
    reason = occupied_refusal("A.t", {0: TargetLogBounds(start=0, end=0), 1: TargetLogBounds(start=2, end=3)})
    assert reason is not None
    assert "partition 1" in reason


def test_moved_alias_is_refused() -> None:
    """Cluster ids other than the stored ones are refused; the first start knows none."""
    flow = FlowName("A", "B")
    assert cluster_refusal(flow, None, "a", "b") is None
    assert cluster_refusal(flow, FLOW_RECORD, "a", "b") is None
    reason = cluster_refusal(flow, FLOW_RECORD, "a", "other")
    assert reason is not None
    assert "other" in reason


def test_replicator_names_are_parsed_back() -> None:
    """A replicator's number is in its name; other names have none."""
    assert replicator_number("m", replicator_name("m", 12)) == 12
    assert replicator_number("m", "m:coordinator") is None
    assert replicator_number("m", "other:replicator:1") is None


def test_handed_back_flow_is_refused() -> None:
    """MM2 copies it again: nothing of it is ours until it is taken over."""
    memory = decode({HANDED_BACK_KEY: {"time_ms": 7}})
    assert memory.handed_back_ms == 7
    reason = flow_refusal(FlowName("A", "B"), memory, "a", "b")
    assert reason is not None
    assert "mirror-ray takeover CONFIG 'A->B'" in reason
    assert flow_refusal(FlowName("A", "B"), decode({}), "a", "b") is None
