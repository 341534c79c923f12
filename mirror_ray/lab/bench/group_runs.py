"""Consumer groups: how many records one would read again after a failover, and how soon its commit is synced."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from statistics import mean
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from mirror_ray.lab.bench.contender_process import ContenderProcess
from mirror_ray.lab.bench.dataset import fill
from mirror_ray.lab.bench.environment import BenchEnvironment, CopyGrowth, MeasurementRun
from mirror_ray.lab.bench.measurements import DataSpec, GroupsMeasurement
from mirror_ray.lab.bench.results import MeasurementResult
from mirror_ray.lab.kafka_client import client_config

_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.25
_PARTITIONS: Final = 4
_SEED: Final = 11
#: Groups whose further commit is timed, one after the other, and seconds between these commits.
_TIMED, _APART_S = 3, 5.0


class GroupsRun(MeasurementRun[GroupsMeasurement]):
    """Runs a `GroupsMeasurement`.

    The source has no offset gaps, so a record's offset is the same on both sides, and the right committed offset on the
    target is known.
    """

    def __init__(self, environment: BenchEnvironment, measurement: GroupsMeasurement, topic: str) -> None:
        super().__init__(environment, measurement, topic)
        self._data = DataSpec(
            records=measurement.records, record_bytes=100, batch_records=100, codec="none", partitions=_PARTITIONS
        )
        self._source = AdminClient(client_config(environment.source))
        self._target = AdminClient(client_config(environment.target))
        self._end = measurement.records // _PARTITIONS
        chance = random.Random(_SEED)  # noqa: S311 - the same data every time is what is wanted
        self._committed = {
            f"{topic}-group-{number}": {
                partition: self._end - chance.randint(0, measurement.lag) for partition in range(_PARTITIONS)
            }
            for number in range(measurement.groups)
        }

    def prepare(self) -> None:
        """Fill the topic and commit each group's offsets."""
        fill(self._environment.source, self._topic, self._data, self._environment.prepared)
        for group, offsets in self._committed.items():
            self._commit(group, offsets)

    def run(self, system: ContenderProcess) -> MeasurementResult:
        """Measure what the groups' synced offsets are, and how long further commits take."""
        limit_s = self._measurement.limit_s
        progress = CopyGrowth(self._environment.ends(self._topic, _PARTITIONS), system)
        progress.until(self._measurement.records, limit_s)
        synced = self._synced_offsets()
        behind = [
            offset - synced[group].get(partition, 0)
            for group, offsets in self._committed.items()
            for partition, offset in offsets.items()
        ]
        missing = sum(_PARTITIONS - len(offsets) for offsets in synced.values())
        delays_s = self._commit_delays_s()
        figures = {
            "reread_mean": mean(max(0, records) for records in behind),
            "reread_most": max(0, *behind),
            "skipped": sum(max(0, -records) for records in behind),
        }
        notes = []
        if missing:
            notes.append(f"{missing} of {len(behind)} offsets were not synced within {limit_s:.0f} s")
        if delays_s:
            figures["commit_delay_s"] = mean(delays_s)
        if len(delays_s) < _TIMED:
            notes.append(f"{_TIMED - len(delays_s)} commits were not synced within {limit_s:.0f} s")
        return MeasurementResult(
            figures=figures, judgement=self._environment.compare(self._topic, _PARTITIONS), note="; ".join(notes)
        )

    def _synced_offsets(self) -> Mapping[str, Mapping[int, int]]:
        """The groups' committed offsets on the target, once all are there or the time is over."""
        deadline_s = time.monotonic() + self._measurement.limit_s
        while True:
            found = {group: self._target_offsets(group) for group in self._committed}
            if all(len(offsets) == _PARTITIONS for offsets in found.values()) or time.monotonic() > deadline_s:
                return found
            time.sleep(_POLL_S)

    def _commit_delays_s(self) -> list[float]:
        """From a commit on the source until the group's committed offset on the target changes."""
        to_commit = list(self._committed)[:_TIMED]
        waiting: dict[str, tuple[float, Mapping[int, int]]] = {}
        found: list[float] = []
        began_s = time.monotonic()
        while (to_commit or waiting) and time.monotonic() - began_s < self._measurement.limit_s:
            if to_commit and time.monotonic() - began_s >= _APART_S * (len(waiting) + len(found)):
                group = to_commit.pop(0)
                before = self._target_offsets(group)
                self._commit(group, dict.fromkeys(range(_PARTITIONS), self._end))
                waiting[group] = (time.monotonic(), before)
            for group, (committed_s, before) in list(waiting.items()):
                if self._target_offsets(group) != before:
                    found.append(time.monotonic() - committed_s)
                    del waiting[group]
            time.sleep(_POLL_S)
        return found

    def _target_offsets(self, group: str) -> Mapping[int, int]:
        asked = ConsumerGroupTopicPartitions(group)
        answer = self._target.list_consumer_group_offsets([asked])[group].result(_TIMEOUT_S)
        remote = self._environment.remote(self._topic)
        return {
            found.partition: found.offset
            for found in answer.topic_partitions
            if found.topic == remote and found.offset >= 0
        }

    def _commit(self, group: str, offsets: Mapping[int, int]) -> None:
        partitions = [TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()]
        asked = [ConsumerGroupTopicPartitions(group, partitions)]
        self._source.alter_consumer_group_offsets(asked)[group].result(_TIMEOUT_S)
