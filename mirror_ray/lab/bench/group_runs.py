"""Consumer groups: how many records one would read again after a failover, and how soon its commit is carried over."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from statistics import mean
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from mirror_ray.lab.bench.clients import client_config
from mirror_ray.lab.bench.fixture import BenchFixture, CopyGrowth, MeasurementResult
from mirror_ray.lab.bench.measurements import DataSpec, GroupsMeasurement
from mirror_ray.lab.bench.source import fill
from mirror_ray.lab.bench.systems import ContenderProcess

_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.25
_PARTITIONS: Final = 4
_SEED: Final = 11
#: Groups whose further commit is timed, one after the other.
_TIMED, _APART_S = 3, 5.0


class GroupsRun:
    """See `GroupsMeasurement`.

    The source has no holes, so a record's offset is the same on both sides, and where a group should go on is known.
    """

    def __init__(self, stage: BenchFixture, leg: GroupsMeasurement, topic: str) -> None:
        self._leg = leg
        self._data = DataSpec(
            records=leg.records, record_bytes=100, batch_records=100, codec="none", partitions=_PARTITIONS
        )
        self._stage = stage
        self._topic = topic
        self._admins = {cluster.name: AdminClient(client_config(cluster)) for cluster in (stage.source, stage.target)}
        self._end = leg.records // _PARTITIONS
        chance = random.Random(_SEED)  # noqa: S311 - the same data every time is what is wanted
        self._committed = {
            f"{topic}-group-{number}": {
                partition: self._end - chance.randint(0, leg.lag) for partition in range(_PARTITIONS)
            }
            for number in range(leg.groups)
        }

    def prepare(self) -> None:
        """See `Run`."""
        fill(self._stage.source, self._topic, self._data, self._stage.shelf)
        for group, offsets in self._committed.items():
            self._commit(group, offsets)

    def run(self, system: ContenderProcess) -> MeasurementResult:
        """See `Run`."""
        progress = CopyGrowth(self._stage.ends(self._topic, _PARTITIONS), system)
        progress.until(self._leg.records, self._leg.box_s)
        carried = self._carried()
        behind = [
            offset - carried[group].get(partition, 0)
            for group, offsets in self._committed.items()
            for partition, offset in offsets.items()
        ]
        missing = sum(_PARTITIONS - len(each) for each in carried.values())
        delays_s = self._delays_s()
        figures = {
            "reread_mean": mean(max(0, each) for each in behind),
            "reread_most": max(0, *behind),
            "skipped": sum(max(0, -each) for each in behind),
        }
        notes = []
        if missing:
            notes.append(f"{missing} of {len(behind)} offsets were not carried over within {self._leg.box_s:.0f} s")
        if delays_s:
            figures["commit_delay_s"] = mean(delays_s)
        if len(delays_s) < _TIMED:
            notes.append(f"{_TIMED - len(delays_s)} commits were not carried over within {self._leg.box_s:.0f} s")
        return MeasurementResult(
            figures=figures, judgement=self._stage.compare(self._topic, _PARTITIONS), note="; ".join(notes)
        )

    def _carried(self) -> Mapping[str, Mapping[int, int]]:
        """What the target's groups have committed, once all have or the time is over."""
        deadline_s = time.monotonic() + self._leg.box_s
        while True:
            found = {group: self._on_target(group) for group in self._committed}
            if all(len(each) == _PARTITIONS for each in found.values()) or time.monotonic() > deadline_s:
                return found
            time.sleep(_POLL_S)

    def _delays_s(self) -> list[float]:
        """From a commit on the source until the target's group has moved."""
        to_commit = list(self._committed)[:_TIMED]
        waiting: dict[str, tuple[float, Mapping[int, int]]] = {}
        found: list[float] = []
        began_s = time.monotonic()
        while (to_commit or waiting) and time.monotonic() - began_s < self._leg.box_s:
            if to_commit and time.monotonic() - began_s >= _APART_S * (len(waiting) + len(found)):
                group = to_commit.pop(0)
                before = self._on_target(group)
                self._commit(group, dict.fromkeys(range(_PARTITIONS), self._end))
                waiting[group] = (time.monotonic(), before)
            for group, (committed_s, before) in list(waiting.items()):
                if self._on_target(group) != before:
                    found.append(time.monotonic() - committed_s)
                    del waiting[group]
            time.sleep(_POLL_S)
        return found

    def _on_target(self, group: str) -> Mapping[int, int]:
        asked = ConsumerGroupTopicPartitions(group)
        answer = self._admins[self._stage.target.name].list_consumer_group_offsets([asked])[group].result(_TIMEOUT_S)
        remote = self._stage.remote(self._topic)
        return {
            each.partition: each.offset for each in answer.topic_partitions if each.topic == remote and each.offset >= 0
        }

    def _commit(self, group: str, offsets: Mapping[int, int]) -> None:
        partitions = [TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()]
        asked = [ConsumerGroupTopicPartitions(group, partitions)]
        self._admins[self._stage.source.name].alter_consumer_group_offsets(asked)[group].result(_TIMEOUT_S)
