"""Writers and groups at work in a failover drill, with the time of everything that they have done."""

from __future__ import annotations

import time
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer

from mirror_ray.lab.chaos.consumers import GroupMember
from mirror_ray.lab.chaos.topology import Topic
from mirror_ray.lab.chaos.writers import AcknowledgedRecords, LoadWriter, TransactionalWriter
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.kafka_client import read_partition
from mirror_ray.lab.load_record import RecordId, record_id
from mirror_ray.mirror import Mirror
from mirror_ray.model.names import FlowName

#: A cluster that was killed has its members again when it comes back, and nobody waits long for them to go.
_SESSION_TIMEOUT_S: Final = 10.0


# array[int] can't be subscripted at run time.
class _TimedNumbers(array):  # type: ignore[type-arg]
    """Numbers of records, and when each was acknowledged."""

    def __init__(self, *_: object) -> None:
        self.times_s: list[float] = []

    def append(self, number: int, /) -> None:
        super().append(number)
        self.times_s.append(time.time())


class TimedMember(GroupMember):
    """A group's member that notes when it processed each record."""

    def __init__(self, cluster: DevCluster, group: str, topics: Sequence[str], *, to_the_end: bool = False) -> None:
        super().__init__(cluster, group, topics, to_the_end=to_the_end, session_timeout_s=_SESSION_TIMEOUT_S)
        #: ``time.time()`` of each of ``processed``.
        self.times_s: list[float] = []

    def _process(self, consumer: Consumer, messages: Sequence[Any], ended: set[tuple[str, int]]) -> None:
        # Before the commit, which may hang where the cluster was killed.
        now_s = time.time()
        super()._process(consumer, messages, ended)
        self.times_s += [now_s] * (len(self.processed) - len(self.times_s))


def make_writers(cluster: DevCluster, topics: Sequence[Topic], seed: int, prefix: str = "") -> tuple[LoadWriter, ...]:
    """A writer for each topic, called by the prefix and the topic's name."""
    made = []
    for topic in topics:
        kind = TransactionalWriter if topic.transactions else LoadWriter
        writer = kind(cluster, topic, f"{prefix}{topic.name}", seed)
        writer.acknowledged = AcknowledgedRecords(written=defaultdict(lambda: _TimedNumbers("Q")))
        made.append(writer)
    return tuple(made)


def acknowledged_at(writers: Iterable[LoadWriter]) -> dict[RecordId, float]:
    """When each record was acknowledged, by ``time.time()``; of those that ``make_writers`` has made."""
    return {
        RecordId(writer.name, number): at_s
        for writer in writers
        for numbers in writer.acknowledged.written.values()
        for number, at_s in zip(numbers, _times(numbers), strict=True)
    }


def aborted(writers: Iterable[LoadWriter]) -> set[RecordId]:
    """The records of aborted transactions."""
    return {
        RecordId(writer.name, number)
        for writer in writers
        for numbers in writer.acknowledged.aborted.values()
        for number in numbers
    }


def record_ids(cluster: DevCluster, topics: Mapping[str, int]) -> set[RecordId]:
    """What a cluster holds of topics, given with the numbers of their partitions."""
    return {
        found
        for topic, partitions in topics.items()
        for number in range(partitions)
        for record in read_partition(cluster, topic, number)
        if (found := record_id(record)) is not None
    }


def is_copying(system: Mirror, flow: FlowName, topics: Sequence[Topic]) -> bool:
    """Whether the flow copies every partition of the topics."""
    wanted = {(topic.name, number) for topic in topics for number in range(topic.partitions)}
    found = system.partitions(str(flow))
    return wanted <= {(status.topic, status.partition) for status in found if status.state == "copying"}


def synced_groups(system: Mirror, flow: FlowName) -> int:
    """How many groups have a committed offset on the target."""
    found = system.groups(str(flow))
    return sum(any(partition.target_offset is not None for partition in group.partitions) for group in found)


def _times(numbers: array[int]) -> list[float]:
    return numbers.times_s if isinstance(numbers, _TimedNumbers) else []
