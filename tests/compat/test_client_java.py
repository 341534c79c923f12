"""MM2's own client and record classes against ours: both read what we wrote, and answer alike."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import mirror_ray
from mirror_ray.client import OffsetAndMetadata
from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.kafka.heartbeats import HeartbeatEmitter
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.records.mm2_records import CheckpointRecord, HeartbeatRecord, OffsetSyncRecord
from tests.support.clusters import Clusters
from tests.support.java import run_java
from tests.support.kafka import Message, create_topic, produce

PROGRAM = Path(__file__).with_name("Mm2Client.java")
COMPACTED = {"cleanup.policy": "compact"}
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
NOW_MS = 1_700_000_000_000

Internal = HeartbeatRecord | CheckpointRecord | OffsetSyncRecord

RECORDS: list[Internal] = [
    OffsetSyncRecord(partition=TopicPartition("t1", 2), upstream_offset=100, downstream_offset=200),
    OffsetSyncRecord(
        partition=TopicPartition("ü" * 100, 0x7FFF_FFFF), upstream_offset=(1 << 63) - 1, downstream_offset=-1
    ),
    CheckpointRecord(group="g", partition=TopicPartition("A.t1", 2), upstream_offset=100, downstream_offset=200),
    CheckpointRecord(
        group="größe-🙂",
        partition=TopicPartition("A.t", 0),
        upstream_offset=0,
        downstream_offset=(1 << 63) - 1,
        metadata="m" * 0x7FFF,
    ),
    CheckpointRecord(group="", partition=TopicPartition("", 0), upstream_offset=-1, downstream_offset=-1),
    HeartbeatRecord(source_alias="A", target_alias="B", timestamp_ms=NOW_MS),
    HeartbeatRecord(source_alias="", target_alias="ß->ü", timestamp_ms=-1),
]
#: MM2's bytes for the first of each kind, computed from its schemas.
VECTORS = {
    0: ("0002743100000002", "000000000000006400000000000000c8"),
    2: ("0001670004412e743100000002", "0000000000000000006400000000000000c80000"),
    5: ("000141000142", "00000000018bcfe56800"),
}


class Names(NamedTuple):
    """Aliases of this run: far->near->here."""

    near: str
    far: str


@pytest.fixture(scope="module")
def names() -> Names:
    """Aliases that no other test uses."""
    unique = uuid.uuid4().hex[:8]
    return Names(f"near-{unique}", f"far-{unique}")


@pytest.fixture(scope="module")
def answers(clusters: Clusters, names: Names, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What MM2 says to all questions: one JVM for all tests."""
    fill(clusters.b, names)
    directory = tmp_path_factory.mktemp("java")
    questions, answers = directory / "questions.json", directory / "answers.json"
    asked = {
        "records": [{"kind": type(each).__name__.removesuffix("Record"), **hexed(each)} for each in RECORDS],
        "clients": questions_of_clients(clusters.b, names),
        "printed": [
            {"servers": clusters.b.bootstrap, "topic": topic, "formatter": formatter, "count": str(count)}
            for topic, formatter, count in (
                (f"{names.near}.heartbeats", "HeartbeatFormatter", 1),
                (f"{names.near}.checkpoints.internal", "CheckpointFormatter", 5),
                (f"mm2-offset-syncs.{names.near}.internal", "OffsetSyncFormatter", 2),
            )
        ],
    }
    questions.write_text(json.dumps(asked))
    run_java(PROGRAM, questions, answers)
    found: dict[str, Any] = json.loads(answers.read_text())
    return found


def hexed(record: Internal) -> dict[str, str]:
    """A record's bytes, as our encoder writes them."""
    key, value = record.encode()
    return {"key": key.hex(), "value": value.hex()}


def checkpoint(group: str, topic: str, partition: int, offset: int, metadata: str = "") -> CheckpointRecord:
    """One whose source is 7 ahead."""
    return CheckpointRecord(
        group=group,
        partition=TopicPartition(topic, partition),
        upstream_offset=offset + 7,
        downstream_offset=offset,
        metadata=metadata,
    )


def fill(cluster: DevCluster, names: Names) -> None:
    """Write heartbeats of both flows, remote topics, checkpoints under three namings, and offset-syncs."""
    near, far = names
    settings = ClusterSettings(alias="here", bootstrap_servers=(cluster.bootstrap,))
    for topic, flow in (
        ("heartbeats", FlowName(near, "here")),
        (f"{near}.heartbeats", FlowName(far, near)),
        (f"{near}.{far}.heartbeats", FlowName("nobody", far)),
    ):
        emitter = HeartbeatEmitter(settings, [flow], UNRECORDED, topic=topic)
        emitter.emit(NOW_MS)
        emitter.close()
    config = cluster.confluent_config()
    for topic in (f"{near}.orders", f"{near}.{far}.clicks", f"{near}--orders"):
        create_topic(config, topic)
    orders = f"{near}.orders"
    written: Mapping[str, list[Internal]] = {
        f"{near}.checkpoints.internal": [
            checkpoint("app", orders, 0, 10),
            checkpoint("app", orders, 1, 20, "by hand"),
            checkpoint("apps", orders, 0, 30),
            checkpoint("other", orders, 0, 40),
            checkpoint("app", orders, 0, 5),
        ],
        f"{near}--checkpoints--internal": [checkpoint("app", f"{near}--orders", 0, 77)],
        f"mm2-offset-syncs.{near}.internal": [
            OffsetSyncRecord(partition=TopicPartition("orders", 0), upstream_offset=1, downstream_offset=2),
            OffsetSyncRecord(partition=TopicPartition("orders", 1), upstream_offset=3, downstream_offset=4),
        ],
    }
    for topic, records in written.items():
        create_topic(config, topic, topic_config=COMPACTED)
        # Headers of ours are nothing to MM2.
        headers = (("mirror-ray.written", b"\0"),)
        produce(config, topic, [Message(value, key, headers) for key, value in (each.encode() for each in records)])
    gone_key, gone_value = checkpoint("app", orders, 0, 1).encode()
    create_topic(config, f"{far}.checkpoints.internal", topic_config=COMPACTED)
    produce(config, f"{far}.checkpoints.internal", [Message(gone_value, gone_key), Message(None, gone_key)])


def questions_of_clients(cluster: DevCluster, names: Names) -> list[dict[str, Any]]:
    """Four clients that name topics differently, and what they are asked."""
    near, far = names
    servers = {"bootstrap.servers": cluster.bootstrap}
    groups = [("app", near), ("nobody", near)]
    patterns = [("app.*", near), ("app", near), ("ap", near)]
    dashes = {"replication.policy.separator": "--"}
    dotted = {"replication.policy.internal.topic.separator.enabled": "false"}
    identity = {"replication.policy.class": IDENTITY, "source.cluster.alias": near}
    return [
        {"properties": properties, "aliases": [near, far, "nobody", "here"], "groups": groups, "patterns": patterns}
        for properties in (servers, servers | dashes, servers | dashes | dotted, servers | identity)
    ] + [{"properties": servers, "aliases": [], "groups": [("app", far)], "patterns": []}]


def our_answers(question: Mapping[str, Any]) -> dict[str, Any]:
    """What our client says, as the Java program writes it down."""
    found: dict[str, Any] = {}

    def plain(positions: Mapping[TopicPartition, OffsetAndMetadata]) -> dict[str, list[object]]:
        return {str(partition): list(position) for partition, position in positions.items()}

    with mirror_ray.MirrorClient(question["properties"]) as client:
        for name in ("heartbeat_topics", "checkpoint_topics", "upstream_clusters", "remote_topics"):
            found[name] = sorted(getattr(client, name)())
        for alias in question["aliases"]:
            found[f"remote_topics {alias}"] = sorted(client.remote_topics(alias))
            found[f"replication_hops {alias}"] = client.replication_hops(alias)
        for group, alias in question["groups"]:
            found[f"group {group} of {alias}"] = plain(client.remote_consumer_offsets(group, alias))
        for pattern, alias in question["patterns"]:
            groups = client.remote_consumer_offsets(re.compile(pattern), alias)
            found[f"pattern {pattern} of {alias}"] = {name: plain(each) for name, each in groups.items()}
    return found


@pytest.mark.parametrize("which", range(4), ids=["default", "separator", "internal separator", "identity"])
def test_both_clients_answer_alike(clusters: Clusters, names: Names, answers: dict[str, Any], which: int) -> None:
    """Hops, topics, upstream clusters and positions: MirrorClient, RemoteClusterUtils and ours, under each naming."""
    ours = our_answers(questions_of_clients(clusters.b, names)[which])
    theirs = answers["clients"][which]
    assert ours == theirs["client"]
    assert {key: ours[key] for key in theirs["utils"]} == theirs["utils"]


def test_the_answers_are_what_was_written(names: Names, answers: dict[str, Any]) -> None:
    """Hops by names, the last checkpoint of each partition, whole names for patterns."""
    near, far = names
    found = answers["clients"][0]["client"]
    hops = {alias: found[f"replication_hops {alias}"] for alias in (near, far, "nobody")}
    assert hops == {near: 1, far: 2, "nobody": -1}
    copied = {"heartbeats", "orders", f"{far}.clicks", f"{far}.heartbeats"}
    assert set(found[f"remote_topics {near}"]) == {f"{near}.{topic}" for topic in copied}
    app = {f"{near}.orders-0": [5, ""], f"{near}.orders-1": [20, "by hand"]}
    assert found[f"group app of {near}"] == app
    assert found[f"group nobody of {near}"] == {}
    assert found[f"pattern app.* of {near}"] == {"app": app, "apps": {f"{near}.orders-0": [30, ""]}}
    assert found[f"pattern ap of {near}"] == {}


def test_a_deleted_checkpoint_is_gone_and_breaks_mm2s_client(
    clusters: Clusters, names: Names, answers: dict[str, Any]
) -> None:
    """A tombstone among checkpoints ends MM2's reading with an error: why none is ever written there."""
    question = questions_of_clients(clusters.b, names)[4]
    assert our_answers(question)[f"group app of {names.far}"] == {}
    assert answers["clients"][4]["client"][f"group app of {names.far}"] == "java.lang.NullPointerException"


def test_records_are_the_same_bytes(answers: dict[str, Any]) -> None:
    """What we encode MM2 decodes and encodes to the same bytes, and we decode those."""
    for number, (record, theirs) in enumerate(zip(RECORDS, answers["records"], strict=True)):
        key, value = bytes.fromhex(theirs["key"]), bytes.fromhex(theirs["value"])
        assert record.encode() == (key, value), record
        assert type(record).decode(key, value) == record
        if number in VECTORS:
            assert (key.hex(), value.hex()) == VECTORS[number]


def test_the_console_consumer_prints_them(names: Names, answers: dict[str, Any]) -> None:
    """MM2's three formatters."""
    near, far = names
    beats, checkpoints, syncs = answers["printed"]
    assert beats == [f"Heartbeat{{sourceClusterAlias={far}, targetClusterAlias={near}, timestamp={NOW_MS}}}"]
    assert len(checkpoints) == 5
    partition = f"topicPartition={near}.orders-1"
    assert checkpoints[1] == (
        f"Checkpoint{{consumerGroupId=app, {partition}, upstreamOffset=27, downstreamOffset=20, metadata=by hand}}"
    )
    assert syncs == [
        "OffsetSync{topicPartition=orders-0, upstreamOffset=1, downstreamOffset=2}",
        "OffsetSync{topicPartition=orders-1, upstreamOffset=3, downstreamOffset=4}",
    ]
