"""MirrorClient on a real cluster: what mirror-ray and MM2 write is read back."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mirror_ray.client import MirrorClient, OffsetAndMetadata
from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.kafka.heartbeats import HeartbeatEmitter
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.errors import ClusterUnreachableError, NoAnswerError, TopicMissingError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.records.mm2_records import CheckpointRecord
from tests.support.kafka import Message, create_topic, produce

DOCS = Path(__file__).parents[2] / "docs" / "client.md"


@pytest.fixture
def client(target: DevCluster) -> Iterator[MirrorClient]:
    """A client of cluster B."""
    with MirrorClient({"bootstrap.servers": target.bootstrap, "target.cluster.alias": "B"}) as client:
        yield client


@pytest.fixture
def alias() -> str:
    """An upstream cluster that no other test has."""
    return f"up{uuid.uuid4().hex[:8]}"


def write_checkpoints(target: DevCluster, alias: str, *messages: Message) -> None:
    """Put records into the checkpoints topic of an upstream cluster."""
    topic = f"{alias}.checkpoints.internal"
    create_topic(target.confluent_config(), topic, topic_config={"cleanup.policy": "compact"})
    produce(target.confluent_config(), topic, messages)


def checkpoint(group: str, partition: TopicPartition, offset: int, metadata: str = "") -> Message:
    """A checkpoint as a record."""
    key, value = CheckpointRecord(
        group=group, partition=partition, upstream_offset=offset + 7, downstream_offset=offset, metadata=metadata
    ).encode()
    return Message(value, key)


def test_positions_are_the_newest_checkpoints(target: DevCluster, client: MirrorClient, alias: str) -> None:
    """The last one of each partition counts, a rewind too; deleted ones and foreign records are none."""
    first, second, third = (TopicPartition(f"{alias}.t", number) for number in range(3))
    deleted = checkpoint("app", third, 9)._replace(value=None)
    foreign = Message(b"?", b"what is that")
    write_checkpoints(
        target,
        alias,
        checkpoint("app", first, 20),
        checkpoint("app", second, 30, "by hand"),
        checkpoint("app", third, 9),
        checkpoint("app-2", first, 40),
        foreign,
        deleted,
        checkpoint("app", first, 10),
    )
    app = {first: OffsetAndMetadata(10), second: OffsetAndMetadata(30, "by hand")}
    assert client.remote_consumer_offsets("app", alias) == app
    assert client.remote_consumer_offsets("nobody", alias) == {}
    both = {"app": app, "app-2": {first: OffsetAndMetadata(40)}}
    assert client.remote_consumer_offsets(re.compile("app.*"), alias) == both
    assert client.remote_consumer_offsets(re.compile("app"), alias) == {"app": app}
    assert client.remote_consumer_offsets(re.compile("ap"), alias) == {}
    assert f"{alias}.checkpoints.internal" in client.checkpoint_topics()


def test_heartbeats_of_every_pair_with_their_age(target: DevCluster, client: MirrorClient, alias: str) -> None:
    """By whatever topic they come, the newest one counts."""
    here, far = FlowName(alias, "B"), FlowName(f"far-{alias}", alias)
    settings = ClusterSettings(alias="B", bootstrap_servers=(target.bootstrap,))
    now_ms = int(time.time() * 1000)
    written = (
        ("heartbeats", here, now_ms - 5_000),
        ("heartbeats", here, now_ms - 2_000),
        (f"{alias}.heartbeats", far, now_ms - 9_000),
        (f"other-{alias}.{alias}.heartbeats", far, now_ms - 60_000),
    )
    for topic, flow, timestamp_ms in written:
        emitter = HeartbeatEmitter(settings, [flow], UNRECORDED, topic=topic)
        emitter.emit(timestamp_ms)
        emitter.close()
    found = client.heartbeats()
    assert (found[here].timestamp_ms, found[here].topic) == (now_ms - 2_000, "heartbeats")
    assert (found[far].timestamp_ms, found[far].topic) == (now_ms - 9_000, f"{alias}.heartbeats")
    assert 2_000 <= found[here].age_ms < 60_000
    assert client.replication_hops(alias) == 1
    assert {alias, f"other-{alias}"} <= client.upstream_clusters()


def test_an_alias_without_checkpoints_is_named(client: MirrorClient, alias: str) -> None:
    """Not an empty answer, which would read as a group that has nothing to go on from."""
    with pytest.raises(TopicMissingError, match=rf"cluster B has no checkpoints topic {alias}\.checkpoints\.internal"):
        client.remote_consumer_offsets("app", alias)


def test_an_answer_that_would_be_partial_is_refused(target: DevCluster, client: MirrorClient, alias: str) -> None:
    """Where the time is too short for all checkpoints, MM2's client returns those that it has."""
    partition = TopicPartition(f"{alias}.t", 0)
    write_checkpoints(target, alias, *(checkpoint("app", partition, number) for number in range(20_000)))
    with pytest.raises((NoAnswerError, ClusterUnreachableError), match=r"longer timeout|did not answer"):
        client.remote_consumer_offsets("app", alias, timeout_s=0.001)
    assert client.remote_consumer_offsets("app", alias) == {partition: OffsetAndMetadata(19_999)}


def test_a_cluster_that_is_not_there_is_named_in_time() -> None:
    """With its addresses, and what to look at, by every call."""
    with MirrorClient({"bootstrap.servers": "127.0.0.1:9", "target.cluster.alias": "backup"}) as client:
        for ask in (lambda: client.remote_consumer_offsets("app", "A", 1), lambda: client.heartbeats(1)):
            began = time.monotonic()
            with pytest.raises(
                ClusterUnreachableError, match=r"backup: no broker answers.*:9: Connection refused.*check"
            ):
                ask()
            assert time.monotonic() - began < 10


def test_the_example_of_the_docs_runs(
    target: DevCluster, alias: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it stands in docs/client.md, with another address and alias."""
    first, second = TopicPartition(f"{alias}.orders", 0), TopicPartition(f"{alias}.orders", 1)
    create_topic(target.confluent_config(), f"{alias}.orders", 2)
    write_checkpoints(target, alias, checkpoint("orders-app", first, 3, "m"), checkpoint("orders-2", second, 4))
    beating = HeartbeatEmitter(
        ClusterSettings(alias="B", bootstrap_servers=(target.bootstrap,)),
        [FlowName("far", alias)],
        UNRECORDED,
        topic=f"{alias}.heartbeats",
    )
    beating.emit()
    beating.close()
    asking, from_file = (
        part.split("```")[0].replace("primary", alias).replace("backup:9092", target.bootstrap)
        for part in DOCS.read_text().split("```python\n")[1:]
    )
    exec(asking, {})  # noqa: S102 - a text of the documentation
    printed = capsys.readouterr().out
    assert "hops: 1 -1\n" in printed
    assert f"far->{alias}: " in printed
    assert f"{alias}.orders-0: 3 m\n" in printed
    assert "orders-2 1\n" in printed
    (tmp_path / "mm2.properties").write_text(
        f"clusters = {alias}, backup\n{alias}.bootstrap.servers = a:1\nbackup.bootstrap.servers = {target.bootstrap}\n"
        f"{alias}->backup.enabled = true\n"
    )
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    exec(from_file, scope)  # noqa: S102 - a text of the documentation
    with scope["client"] as client:
        assert client.remote_consumer_offsets("orders-app", alias) == {first: OffsetAndMetadata(3, "m")}
