"""What MM2's integration tests assert of checkpoints and groups, of a running ``mirror-ray``: no record is read again.

Two flows between the same clusters under aliases of their own share one system: ``near->there`` keeps its offset-syncs
on the target and has ``offset.lag.max`` 0, ``far->there`` has 10 and keeps them on the source.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from mirror_ray import own_ray
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.mm2_records import CheckpointRecord
from tests.support.clusters import Clusters
from tests.support.command import answer, mirror_ray, wait_for
from tests.support.groups import commit, committed
from tests.support.kafka import Message, create_topic, exists, produce
from tests.support.reading import end_offsets, read_all
from tests.support.waiting import wait_until

#: On a machine that is busy otherwise.
pytestmark = pytest.mark.timeout(600)

PARTITIONS = 10
#: On a machine that is busy otherwise; else it takes about five seconds.
WITHIN_S = 60.0


class Running:
    """A detached system, and the names that are its own."""

    def __init__(self, clusters: Clusters, mark: str, directory: Path) -> None:
        self.clusters, self.mark = clusters, mark
        self.near, self.far, self.there = f"near-{mark}", f"far-{mark}", f"there-{mark}"
        lines = [
            f"clusters = {self.near}, {self.far}, {self.there}",
            *(f"{alias}.bootstrap.servers = {clusters.a.bootstrap}" for alias in (self.near, self.far)),
            f"{self.there}.bootstrap.servers = {clusters.b.bootstrap}",
            f"topics = {mark}.*",
            f"groups = {mark}.*",
            "gateway.enabled = false",
            "refresh.topics.interval.seconds = 1",
            "refresh.groups.interval.seconds = 1",
            "emit.checkpoints.interval.seconds = 1",
            "sync.group.offsets.interval.seconds = 1",
        ]
        for alias, line in (
            (self.near, "offset.lag.max = 0"),
            (self.near, "offset-syncs.topic.location = target"),
            (self.far, "offset.lag.max = 10"),
            (self.near, "enabled = true"),
            (self.far, "enabled = true"),
        ):
            lines.append(f"{alias}->{self.there}.{line}")
        self._file = directory / "mm2.properties"
        self._file.write_text("\n".join([*lines, ""]))

    def up(self) -> None:
        """Start it."""
        mirror_ray("up", str(self._file), "--detach", "--name", self.mark)

    def down(self) -> None:
        """End it."""
        if own_ray.find(self.mark) is not None:
            mirror_ray("down", "--deadline", "10", "--name", self.mark)

    @property
    def source(self) -> DevCluster:
        """Where everything is copied from."""
        return self.clusters.a

    @property
    def target(self) -> DevCluster:
        """Where everything is copied to."""
        return self.clusters.b

    def topic(self, partitions: int = PARTITIONS) -> str:
        """A new topic that is copied."""
        name = f"{self.mark}-{uuid.uuid4().hex[:6]}"
        return create_topic(self.source.confluent_config(), name, partitions)

    def checkpoints(self, alias: str, group: str) -> dict[TopicPartition, list[tuple[int, int]]]:
        """All that were ever emitted, by remote partition: upstream and downstream offset."""
        topic, found = f"{alias}.checkpoints.internal", defaultdict[TopicPartition, list[tuple[int, int]]](list)
        if exists(self.target.confluent_config(), topic):
            for record in read_all(self.target.confluent_config(), topic)[0]:
                checkpoint = CheckpointRecord.decode(record.key, record.value)
                if checkpoint.group == group:
                    found[checkpoint.partition].append((checkpoint.upstream_offset, checkpoint.downstream_offset))
        return found

    def synced(self, group: str, remote: str, offsets: Mapping[int, int]) -> None:
        """Wait until the group stands there on the target."""

        def stands() -> bool:
            found = committed(self.target, group, remote, PARTITIONS)
            return {partition: found[partition] for partition in offsets} == offsets

        wait_for(self.mark, stands, f"{group} stands at {offsets} of {remote}", WITHIN_S)

    def copied(self, remote: str, ends: Mapping[int, int]) -> None:
        """Wait until the remote topic ends there."""
        wait_for(
            self.mark,
            lambda: (
                exists(self.target.confluent_config(), remote)
                and end_offsets(self.target.confluent_config(), remote) == ends
            ),
            f"{remote} ends at {ends}",
            WITHIN_S,
        )


@pytest.fixture(scope="module")
def running(clusters: Clusters, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One system for all tests here."""
    system = Running(clusters, f"up{uuid.uuid4().hex[:6]}", tmp_path_factory.mktemp("system"))
    try:
        system.up()
        yield system
    finally:
        system.down()


def messages(partitions: int = PARTITIONS, *, first: int = 0, of_each: int = 10) -> list[Message]:
    """Ten records in each partition."""
    return [
        Message(b"%d" % (first + n), b"key", partition=partition)
        for n in range(of_each)
        for partition in range(partitions)
    ]


def consume(cluster: DevCluster, group: str, topic: str, records: int) -> list[bytes | None]:
    """What a member of the group is given until it has so many, or nothing comes; it commits and leaves."""
    consumer = Consumer(
        {
            **cluster.confluent_config(),
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    values: list[bytes | None] = []
    ended: set[int] = set()
    partitions = len(end_offsets(cluster.confluent_config(), topic))

    def done() -> bool:
        for message in consumer.consume(500, 0.2):
            if message.error() is None:
                values.append(message.value())
            else:
                ended.add(message.partition() or 0)
        return len(ended) == partitions and len(values) >= records

    try:
        consumer.subscribe([topic])
        wait_until(done, 30, f"{group} has read {topic}")
        # As Java's commitSync: where nothing was read, where reading would begin.
        positions = consumer.position(consumer.assignment())
        for each, before in zip(positions, consumer.committed(consumer.assignment(), timeout=30), strict=True):
            each.offset = max(each.offset, before.offset, 0)
        consumer.commit(offsets=positions, asynchronous=False)
    finally:
        consumer.close()
    return values


@pytest.mark.parametrize("flow", ["near", "far"])
def test_one_way_replication_with_auto_offset_sync(running: Running, flow: str) -> None:
    """testOneWayReplicationWithAutoOffsetSync, ...FrequentOffsetSyncs: no record twice, also of a second topic."""
    alias, group = getattr(running, flow), f"{running.mark}-auto-{flow}"
    for _ in range(2):
        topic = running.topic()
        remote = f"{alias}.{topic}"
        produce(running.source.confluent_config(), topic, messages())
        assert len(consume(running.source, group, topic, 100)) == 100
        running.synced(group, remote, dict.fromkeys(range(PARTITIONS), 10))
        assert end_offsets(running.target.confluent_config(), remote) == dict.fromkeys(range(PARTITIONS), 10)
        produce(running.source.confluent_config(), topic, messages(first=10, of_each=1))
        running.copied(remote, dict.fromkeys(range(PARTITIONS), 11))
        # It fails over: the new ones alone.
        assert consume(running.target, group, remote, PARTITIONS) == [b"10"] * PARTITIONS
        assert not exists(running.source.confluent_config(), f"{running.there}.{topic}")
    for pairs in running.checkpoints(alias, group).values():
        assert pairs == sorted(pairs)


def test_offset_translation_behind_the_replication_flow(running: Running) -> None:
    """testOffsetTranslationBehindReplicationFlow: far behind, and then back: the checkpoint is the very place."""
    topic, group = running.topic(1), f"{running.mark}-behind"
    place = TopicPartition(f"{running.near}.{topic}", 0)
    for part in range(4):
        produce(running.source.confluent_config(), topic, messages(1, first=250 * part, of_each=250))
    for offset in (900, 100, 101):
        commit(running.source, group, {(topic, 0): offset})
        running.synced(group, place.topic, {0: offset})
        assert running.checkpoints(running.near, group)[place][-1] == (offset, offset)
    (status,) = [
        each
        for each in answer("groups", f"{running.near}->{running.there}", "--name", running.mark)
        if each["group"] == group
    ]
    assert (status["state"], status["reason"]) == ("synced", None)
    assert [(each["target_offset"], each["exact"]) for each in status["partitions"]] == [(101, True)]


def test_offset_syncs_topics_on_target(running: Running) -> None:
    """testOffsetSyncsTopicsOnTarget: of that flow nothing is on the source; the other one has them there."""
    topic, group = running.topic(1), f"{running.mark}-syncs"
    produce(running.source.confluent_config(), topic, messages(1))
    commit(running.source, group, {(topic, 0): 10})
    for alias in (running.near, running.far):
        running.synced(group, f"{alias}.{topic}", {0: 10})
    there, here = running.target.confluent_config(), running.source.confluent_config()
    assert exists(there, f"mm2-offset-syncs.{running.near}.internal")
    assert not exists(there, f"mm2-offset-syncs.{running.far}.internal")
    assert exists(here, f"mm2-offset-syncs.{running.there}.internal")
    assert not exists(here, f"mm2-offset-syncs.{running.near}.internal")


def test_no_checkpoints_if_no_records_are_mirrored(running: Running) -> None:
    """testNoCheckpointsIfNoRecordsAreMirrored: none of an empty topic; one as soon as records flow."""
    empty, other, group = running.topic(1), running.topic(1), f"{running.mark}-none"
    produce(running.source.confluent_config(), other, messages(1))
    commit(running.source, group, {(empty, 0): 0, (other, 0): 10})
    running.synced(group, f"{running.near}.{other}", {0: 10})
    place = TopicPartition(f"{running.near}.{empty}", 0)
    assert place not in running.checkpoints(running.near, group)
    produce(running.source.confluent_config(), empty, messages(1))
    commit(running.source, group, {(empty, 0): 10})
    running.synced(group, place.topic, {0: 10})
    assert running.checkpoints(running.near, group)[place][-1] == (10, 10)


def test_replication_with_an_empty_partition(running: Running) -> None:
    """testReplicationWithEmptyPartition: a group that fails over stands at 0 there, and at the ends elsewhere."""
    topic, group = running.topic(), f"{running.mark}-empty"
    remote = f"{running.near}.{topic}"
    produce(running.source.confluent_config(), topic, [each for each in messages() if each.partition != 9])
    assert len(consume(running.source, group, topic, 90)) == 90
    full = dict.fromkeys(range(9), 10)
    running.synced(group, remote, full)
    assert consume(running.target, group, remote, 0) == []
    assert committed(running.target, group, remote, PARTITIONS) == {**full, 9: 0}


def test_restart_replication(running: Running) -> None:
    """testRestartReplication: all goes on where it was; checkpoints never go back."""
    topic, group = running.topic(), f"{running.mark}-restart"
    remote = f"{running.near}.{topic}"
    produce(running.source.confluent_config(), topic, messages())
    consume(running.source, group, topic, 100)
    running.synced(group, remote, dict.fromkeys(range(PARTITIONS), 10))
    running.down()
    produce(running.source.confluent_config(), topic, messages(first=10))
    assert len(consume(running.source, group, topic, 100)) == 100
    running.up()
    running.synced(group, remote, dict.fromkeys(range(PARTITIONS), 20))
    found = running.checkpoints(running.near, group)
    assert len(found) == PARTITIONS
    for pairs in found.values():
        assert pairs == sorted(pairs)
        assert pairs[-1] == (20, 20)
