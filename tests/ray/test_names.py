"""Maps, rename patterns and merged topics on real Ray and real clusters, with records that keep coming."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping

from confluent_kafka import TopicPartition as KafkaPartition

from mirror_ray.config.settings import RenamePattern, TopicSettings
from mirror_ray.failover.bulk_translation import BulkOrder
from mirror_ray.groups.bulk import LocalMaps
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.mirror import Mirror
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.verification.planner import VerifyRequest
from mirror_ray.verification.run import verify_flow
from tests.support.clusters import Clusters
from tests.support.groups import commit, committed, member
from tests.support.kafka import Message, create_topic, produce
from tests.support.processes import kill_process
from tests.support.reading import Record, read_all
from tests.support.systems import copied, run, settings_of, topics_with, wait_caught_up
from tests.support.unrecorded import translate_in_bulk as carry_out
from tests.support.waiting import wait_until

RECORDS = 3000


class Scene:
    """Topics of one mark on A, by what becomes of their names, and their partitions."""

    def __init__(self, clusters: Clusters) -> None:
        self.mark = f"t{uuid.uuid4().hex[:8]}"
        self.orders, self.payments = f"{self.mark}-orders", f"{self.mark}-payments"
        self.plain, self.legacy, self.other = f"{self.mark}-plain", f"legacy.{self.mark}.x", f"{self.mark}-other"
        self.partitions = {self.orders: 3, self.payments: 5, self.plain: 2, self.legacy: 2, self.other: 1}
        self.merged = f"{self.mark}-all"
        self.remotes = {
            self.orders: self.merged,
            self.payments: self.merged,
            self.plain: f"dr-{self.mark}",
            self.legacy: f"new.{self.mark}.x",
            self.other: f"A.{self.other}",
        }
        self.source, self.target = clusters.a, clusters.b
        for topic, count in self.partitions.items():
            create_topic(self.source.confluent_config(), topic, count)

    def settings(self) -> TopicSettings:
        """By map, by pattern, and by the policy."""
        return TopicSettings(
            include=(f".*{self.mark}.*",),
            refresh_interval_s=1.0,
            map={topic: self.remotes[topic] for topic in (self.orders, self.payments, self.plain)},
            rename=(RenamePattern(match=r"legacy\.(.*)", to="new.$1"),),
        )

    def fill(self, first: int) -> None:
        """Write some more of every topic."""
        for topic, count in self.partitions.items():
            messages = [Message(f"{topic} {n}".encode(), partition=n % count) for n in range(first, first + RECORDS)]
            produce(self.source.confluent_config(), topic, messages, codec="zstd")

    def read(self, cluster: DevCluster, topic: str) -> Mapping[int, list[Record]]:
        """By partition."""
        return read_all(cluster.confluent_config(), topic)


def test_names_and_a_merge_through_a_kill(clusters: Clusters, system: str) -> None:
    """Every record once, in the order of its source partition, and groups go on at their record."""
    scene = Scene(clusters)
    scene.fill(0)
    mirror = run(
        system, settings_of({"A": clusters.a, "B": clusters.b}, "A->B", topics=scene.settings(), replicators=2)
    )
    wait_until(lambda: copied(mirror) > RECORDS, 40, "some of it copied")
    victim = mirror.replicators[0].pid
    kill_process(victim)
    killed_ms = int(time.time() * 1000)
    scene.fill(RECORDS)
    wait_until(lambda: victim not in {replicator.pid for replicator in mirror.replicators}, 30, "it is seen dead")
    wait_caught_up(mirror, {("A->B", topic): count for topic, count in scene.partitions.items()}, 60)
    assert topics_with(clusters.b, scene.mark) == set(scene.remotes.values())
    sources = {topic: scene.read(clusters.a, topic) for topic in scene.partitions}
    targets = {remote: scene.read(clusters.b, remote) for remote in scene.remotes.values()}
    for topic in (scene.plain, scene.legacy, scene.other):
        assert targets[scene.remotes[topic]] == sources[topic]
    merged = targets[scene.merged]
    assert len(merged) == max(scene.partitions[scene.orders], scene.partitions[scene.payments])
    for number, found in merged.items():
        assert len(found) == sum(len(sources[topic].get(number, ())) for topic in (scene.orders, scene.payments))
        for topic in (scene.orders, scene.payments):
            wanted = sources[topic].get(number, [])
            ours = set(wanted)
            assert [record for record in found if record in ours] == wanted
    _groups(mirror, scene, sources, targets)
    _reported_alike(mirror, scene)
    _verified(mirror, scene, killed_ms)


def _verified(mirror: Mirror, scene: Scene, killed_ms: int) -> None:
    """``verify`` finds every record; which of a merged topic's last second before the kill are whose may be unknown."""
    flow = FlowName("A", "B")
    report = asyncio.run(verify_flow(mirror.settings(), flow, VerifyRequest(topics=tuple(scene.partitions))))
    doubtful = [outcome for outcome in report.partitions if outcome.outcome != "equal"]
    for outcome in doubtful:
        assert outcome.topic in (scene.orders, scene.payments), outcome.text
        assert "others write to the remote topic" in outcome.text
    if doubtful:
        later = VerifyRequest(topics=tuple({outcome.topic for outcome in doubtful}), since_ms=killed_ms)
        report = asyncio.run(verify_flow(mirror.settings(), flow, later))
        assert [outcome.text for outcome in report.partitions if outcome.outcome != "equal"] == []


def _reported_alike(mirror: Mirror, scene: Scene) -> None:
    """``translate --all`` says what the checkpoint actor says."""
    settings, flow = mirror.settings(), FlowName("A", "B")
    rows = asyncio.run(carry_out(settings, BulkOrder(flow=flow), LocalMaps))
    asked = {
        (status.group, TopicPartition(p.topic, p.partition)): (p.target_offset, p.exact)
        for status in mirror.groups("A->B")
        for p in status.partitions
        if scene.mark in status.group
    }
    found = {
        (row.group, row.origin): (row.translation.offset, row.translation.exact)
        for row in (row.translated for row in rows)
        if scene.mark in row.group
    }
    assert found == asked


def _groups(
    mirror: Mirror,
    scene: Scene,
    sources: Mapping[str, Mapping[int, list[Record]]],
    targets: Mapping[str, Mapping[int, list[Record]]],
) -> None:
    """A group of one topic stands at its record; of merged ones at the first that it has not read of either.

    The positions lie behind what was copied when the replicator was killed: of its last second the map of a topic that
    several write says less.
    """

    def place(topic: str, offset: int) -> int:
        """Behind the last record that the group has read."""
        log, source = targets[scene.remotes[topic]][0], sources[topic][0]
        return log.index(source[offset]) if offset < len(source) else log.index(source[-1]) + 1

    end = {topic: len(sources[topic][0]) for topic in scene.partitions}
    positions = {
        "one": {scene.orders: 1500},
        "both": {scene.orders: 1700, scene.payments: 700},
        "done": {scene.orders: end[scene.orders], scene.payments: end[scene.payments]},
        "idle": {scene.orders: 1900, scene.payments: end[scene.payments]},
        "named": {scene.plain: 2011, scene.legacy: 2013},
    }
    one = f"one-{scene.mark}"
    for group, offsets in positions.items():
        if group != "one":
            commit(scene.source, f"{group}-{scene.mark}", {(topic, 0): offset for topic, offset in offsets.items()})
    wanted: dict[tuple[str, str], int] = {}
    for group, offsets in positions.items():
        for topic, offset in offsets.items():
            key, log = (group, scene.remotes[topic]), targets[scene.remotes[topic]][0]
            # A topic that was read to its end holds nobody up.
            bound = len(log) if offset == end[topic] else place(topic, offset)
            wanted[key] = min(bound, wanted.get(key, bound))
    # That it reads no other topic, its members alone tell.
    with member(scene.source, one, scene.orders) as consumer:
        consumer.commit(offsets=[KafkaPartition(scene.orders, 0, positions["one"][scene.orders])], asynchronous=False)
        for (group, remote), offset in wanted.items():
            _wait_for(mirror, scene, f"{group}-{scene.mark}", remote, offset)
    shown = {status.group: {p.topic: p.exact for p in status.partitions} for status in mirror.groups("A->B")}
    for group, offsets in positions.items():
        # What the group has read already behind the offset it reads again, and is told so.
        exact = {t: place(t, offset) <= wanted[group, scene.remotes[t]] for t, offset in offsets.items()}
        assert shown[f"{group}-{scene.mark}"] == exact, group


def _wait_for(mirror: Mirror, scene: Scene, group: str, remote: str, offset: int) -> None:
    try:
        wait_until(
            lambda: committed(scene.target, group, remote, 1) == {0: offset}, 20, f"{group} at {offset} in {remote}"
        )
    except AssertionError as error:
        reported = [str(p) for status in mirror.groups("A->B") if status.group == group for p in status.partitions]
        raise AssertionError("\n".join([str(error), *reported])) from None
