"""The state topic's documents and what is decided from them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mirror_ray.model.acls import Acl
from mirror_ray.model.backfill import BackfillRange, BackfillRecord
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.fault import FaultKind, PartitionFault
from mirror_ray.model.names import FlowName, TopicId, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.start import LATEST, StartPosition
from mirror_ray.state import schema
from mirror_ray.state.actor_names import replicator_name, replicator_number
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.records import FaultResolution, FlowRecord, GrantRecord, Pause, ReversalRecord
from mirror_ray.state.schema import FlowStateRecords, RecordKind, decode, read_record
from mirror_ray.topics.discovery_rules import (
    TargetLogBounds,
    TopicSide,
    cluster_refusal,
    flow_refusal,
    identity_faults,
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


PARTITION = TopicPartition("my.topic-1", 12)
PARTITION_DOCUMENT = json.loads("""
{"source_topic_id": "s1", "target_topic": "A.t", "target_topic_id": "t1", "source_offset": 5, "target_offset": 3,
 "sequence": null, "source_epoch": -1, "target_epoch": -1, "settled": false, "producer_id": null, "producer_epoch": 0,
 "shared": false, "foreign_to": -1, "skip": [[1, 3], [7, 8]], "origin_source_offset": null,
 "origin_target_offset": null, "origin_sequence": null, "end_offset": null, "recounting": false, "transforms": "",
 "transforms_source_offset": null, "transforms_target_offset": null, "routes_from": null, "begins_at": null,
 "preserve_offsets": false, "aligned_at": null}
""")
FAULT = PartitionFault(kind="copy_lost", text="x", target_from=3, resume=OffsetPair(1, 2, 3, 4))
RESOLUTION = FaultResolution(trouble=FAULT, policy="resync", time_ms=5, by="ann@desk")
TIMESTAMP = StartPosition("timestamp", 1_700_000_000_123)
OFFSETS = StartPosition("offsets", offsets=((0, 7), (2, 9)))
BACKFILL = BackfillRecord(
    topic="t", into="again", ranges=(BackfillRange(0, 5, 20),), said="from 0@5", time_ms=7, positions=((0, 9),)
)
REVERSED = ReversalRecord(turn=3, away=True, time_ms=7)
SOME_ACL = Acl(
    resource="TOPIC", name="A.t", pattern="LITERAL", principal="User:x", host="*", operation="READ", permission="ALLOW"
)
#: Every kind: kind, key, record, and its documents in the state topic to the letter; null is a tombstone.
DOCUMENTS: tuple[tuple[RecordKind[Any, Any], object, object, str], ...] = (
    (schema.FLOW, "", FLOW_RECORD, """
     {"flow": {"producer_id": 7, "producer_epoch": 0, "source_cluster_id": "a", "target_cluster_id": "b",
               "selection": "s", "starts": ""}}"""),
    (schema.PARTITION, PARTITION, RECORD, json.dumps({"partition/my.topic-1/12": PARTITION_DOCUMENT})),
    (schema.GRANT, PARTITION, GrantRecord(epoch=2, lease_ms=4000, owner="c1"),
     '{"grant/my.topic-1/12": {"epoch": 2, "lease_ms": 4000, "owner": "c1"}}'),
    (schema.RESOLUTION, PARTITION, RESOLUTION, """
     {"repair/my.topic-1/12": {"trouble": {"kind": "copy_lost", "text": "x", "source_from": -1, "source_to": -1,
      "target_from": 3, "target_to": -1, "resume": {"source_offset": 1, "target_offset": 2, "sequence": 3,
      "source_epoch": 4, "target_epoch": -1}}, "policy": "resync", "time_ms": 5, "by": "ann@desk"}}"""),
    (schema.SKIPPED, (PARTITION, 5), RESOLUTION.skipped_range(), """
     {"gap/my.topic-1/12/5": {"kind": "copy_lost", "policy": "resync", "text": "x", "time_ms": 5, "source_from": -1,
      "source_to": -1, "target_from": 3, "target_to": -1}}"""),
    (schema.START, "t", LATEST, '{"latest/t": {}, "start/t": null}'),
    (schema.START, "u", TIMESTAMP, '{"latest/u": null, "start/u": {"at": "2023-11-14T22:13:20.123Z"}}'),
    (schema.START, "v", OFFSETS, '{"latest/v": null, "start/v": {"at": "0@7 2@9"}}'),
    (schema.BACKFILL, "1a2b", BACKFILL, """
     {"backfill/1a2b": {"topic": "t", "into": "again", "ranges": [[0, 5, 20]], "said": "from 0@5", "time_ms": 7,
      "behind": false, "phase": "running", "target_topic_id": "", "positions": [[0, 9]]}}"""),
    (schema.HANDED_BACK, "", 7, '{"handed-back": {"time_ms": 7}}'),
    (schema.REVERSAL, "", REVERSED, '{"reversed": {"turn": 3, "away": true, "time_ms": 7}}'),
    (schema.ACL, schema.acl_id(SOME_ACL), SOME_ACL, """
     {"acl/3e34ef83652cbbe1e5006589989cbf48": {"resource": "TOPIC", "name": "A.t", "pattern": "LITERAL",
      "principal": "User:x", "host": "*", "operation": "READ", "permission": "ALLOW"}}"""),
    (schema.PAUSE, Pause(), True, '{"paused/flow": {}}'),
    (schema.PAUSE, Pause("t"), True, '{"paused/topic/t": {}}'),
    (schema.PAUSE, Pause("t", 4), True, '{"paused/partition/t/4": {}}'),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "key", "record", "documents"), DOCUMENTS)
def test_documents_to_the_letter(kind: RecordKind[Any, Any], key: object, record: object, documents: str) -> None:
    """Systems of other versions read and write the same keys and JSON; what is written is read back as it was."""
    written = kind.documents(key, record)
    assert json.dumps(written) == json.dumps(json.loads(documents))
    kept = {name: document for name, document in json.loads(documents).items() if document is not None}
    assert [read_record(name, document) for name, document in kept.items()] == [(kind, key, record)]
    assert kind.documents(key, None) == dict.fromkeys(written)


def test_every_kind_is_decoded() -> None:
    """Into the field that has it, and removed from there."""
    written = [item for *_, documents in DOCUMENTS for item in json.loads(documents).items()]
    memory = decode({name: document for name, document in written if document is not None})
    assert memory == FlowStateRecords(
        flow=FLOW_RECORD,
        partitions={PARTITION: RECORD},
        grants={PARTITION: GrantRecord(epoch=2, lease_ms=4000, owner="c1")},
        starts={"t": LATEST, "u": TIMESTAMP, "v": OFFSETS},
        paused={Pause(), Pause("t"), Pause("t", 4)},
        resolutions={PARTITION: RESOLUTION},
        skipped_ranges={(PARTITION, 5): RESOLUTION.skipped_range()},
        backfills={"1a2b": BACKFILL},
        handed_back_ms=7,
        reversal=REVERSED,
        acls={schema.acl_id(SOME_ACL): SOME_ACL},
    )
    for kind, key, *_ in DOCUMENTS:
        memory.put(kind, key, None)
    assert memory == FlowStateRecords()


def test_grants_of_older_versions_are_read() -> None:
    """They do not say which coordinator made them; who reads them with an older version does not ask."""
    where = TopicPartition("t", 0)
    assert schema.read_grant("grant/t/0", {"epoch": 2, "lease_ms": 1}) == (where, GrantRecord(epoch=2, lease_ms=1))
    assert schema.read_grant("partition/t/0", PARTITION_DOCUMENT) is None


def test_unknown_keys_and_fields_are_ignored() -> None:
    """A newer version's state can be read."""
    memory = schema.decode(
        {"segments/t/0": {"x": 1}, "partition/t": {}, "flow": {**schema.FLOW.write(FLOW_RECORD), "new": 1}}
    )
    assert memory.flow == FLOW_RECORD


@pytest.mark.parametrize(
    ("key", "document", "wrong"),
    [
        ("partition/t/0", {}, "source_topic_id"),
        ("partition/t/x", PARTITION_DOCUMENT, "x"),
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


def test_same_ids_may_be_copied_on() -> None:
    """A topic that is what it was is in no trouble."""
    assert identity_faults(SOURCE, REMOTE, {0: RECORD}) == {}
    assert identity_faults(SOURCE, None, {}) == {}
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
    """A recreated or deleted topic is reported with its identities, for each partition that was copied."""
    (trouble,) = identity_faults(source, remote, {0: RECORD}).values()
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
    memory = decode({"handed-back": {"time_ms": 7}})
    assert memory.handed_back_ms == 7
    reason = flow_refusal(FlowName("A", "B"), memory, "a", "b")
    assert reason is not None
    assert "mirror-ray takeover CONFIG 'A->B'" in reason
    assert flow_refusal(FlowName("A", "B"), decode({}), "a", "b") is None
