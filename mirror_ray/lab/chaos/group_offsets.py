"""Consumer groups that commit on the sources while faults happen; the targets are to have their very offsets."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from mirror_ray.lab.background import BackgroundThread
from mirror_ray.lab.chaos.topology import TARGETS, Topic
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.kafka_client import client_config
from mirror_ray.model.errors import MirrorError

_COMMIT_EVERY_S: Final = 2.0
_TIMEOUT_S: Final = 10.0
_IMPATIENT: Final = {"enable.auto.commit": False, "session.timeout.ms": 6_000, "socket.timeout.ms": 5_000}
#: Of each topic: how much of what is before it a group goes on, at most; the first one is at the end each time.
_SHARES: Final = (1.0, 0.1, 0.01)


class CommittingGroups:
    """Groups without members, some of each topic: one keeps up with it, the others fall behind."""

    def __init__(self, clusters: Mapping[str, DevCluster], topics: Sequence[Topic], seed: int) -> None:
        """The topics must exist; ``seed`` decides how far the groups go."""
        self._clusters = clusters
        self._committers = [_Committer(clusters[topic.cluster], topic, seed) for topic in topics]
        #: How many offsets were the same at the last ``differences``.
        self.compared = 0

    def start(self) -> None:
        """Begin to commit."""
        for committer in self._committers:
            committer.start()

    def check(self) -> None:
        """Raise MirrorError where it has failed; that a broker does not answer is no failure."""
        for committer in self._committers:
            committer.check()

    def ask_to_stop(self) -> None:
        """Commit no more; returns at once."""
        for committer in self._committers:
            committer.ask_to_stop()

    def stop(self) -> None:
        """Commit no more, and wait until nothing is on its way. Raises MirrorError if a thread has failed."""
        self.ask_to_stop()
        for committer in self._committers:
            committer.stop()

    def differences(self) -> list[str]:
        """Groups whose offsets on the target are not those on the source, or that have none; one sentence each.

        Raises:
            MirrorError: A cluster does not answer.
        """
        self.compared = 0
        found = []
        # New ones: librdkafka's admin clients don't always survive that a broker dies.
        admins = {alias: AdminClient(client_config(cluster)) for alias, cluster in self._clusters.items()}
        for committer in self._committers:
            topic, there = committer.topic, TARGETS[committer.topic.cluster]
            for group in committer.groups:
                wanted = _committed(admins[topic.cluster], group, topic.name)
                copied = _committed(admins[there], group, topic.remote_name)
                if len(wanted) < topic.partitions:
                    found.append(f"group {group} has committed in {len(wanted)} partitions of {topic.name} alone")
                elif wanted != copied:
                    found.append(f"group {group} is at {wanted} in {topic.name}, and on {there} at {copied}")
                self.compared += sum(copied.get(number) == offset for number, offset in wanted.items())
        return found


class _Committer(BackgroundThread):
    """Commits for the groups of one topic, now at a record, now at a marker or at a record that was aborted.

    Forward alone: whether a group that goes back is followed depends on whether that was seen.
    """

    def __init__(self, cluster: DevCluster, topic: Topic, seed: int) -> None:
        super().__init__(f"groups of {topic.name}")
        self.topic = topic
        #: By name, how much of what is before it a group goes on at most.
        self.groups = {f"{topic.name}-{number}": share for number, share in enumerate(_SHARES, 1)}
        self._cluster = cluster
        self._random = random.Random(f"{seed} {self.name}")  # noqa: S311 - a seed repeats a run
        #: What was committed last, or tried to.
        self._offsets: dict[tuple[str, int], int] = {}

    def _run(self) -> None:
        while not self._stopping.wait(_COMMIT_EVERY_S):
            for group, share in self.groups.items():
                # A broker that was just killed takes no commit; the next one is as good.
                with suppress(KafkaException):
                    self._commit(group, share)

    def _commit(self, group: str, share: float) -> None:
        # A new consumer each time: one that has seen its broker die may wait for minutes.
        consumer = Consumer(client_config(self._cluster, {"group.id": group, **_IMPATIENT}))
        try:
            partitions = [
                TopicPartition(self.topic.name, number, self._next(consumer, group, number, share))
                for number in range(self.topic.partitions)
            ]
            consumer.commit(offsets=partitions, asynchronous=False)
        finally:
            consumer.close()

    def _next(self, consumer: Consumer, group: str, number: int, share: float) -> int:
        _, end = consumer.get_watermark_offsets(TopicPartition(self.topic.name, number), timeout=_TIMEOUT_S)
        before = self._offsets.get((group, number), self.topic.first_offset)
        most = share if share == 1.0 else self._random.uniform(0.0, share)
        self._offsets[group, number] = offset = before + int(most * max(0, end - before))
        return offset


def _committed(admin: AdminClient, group: str, topic: str) -> dict[int, int]:
    asked = ConsumerGroupTopicPartitions(group)
    try:
        answer = admin.list_consumer_group_offsets([asked])[group].result(_TIMEOUT_S)
    except (KafkaException, TimeoutError) as error:
        raise MirrorError(f"the offsets of group {group} can't be read: {error}") from error
    return {
        partition.partition: partition.offset
        for partition in answer.topic_partitions
        if partition.topic == topic and partition.offset >= 0
    }
