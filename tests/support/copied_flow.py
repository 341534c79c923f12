"""A flow whose statistics are known: for tests of the report."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from typing import Any

import pytest

from mirror_ray.config.settings import MirrorSettings, StatisticsSettings, TopicSettings
from mirror_ray.mirror import Mirror
from mirror_ray.model.internal_topics import statistics_topic
from mirror_ray.report.target_cluster import StatisticsLog, find_statistics
from tests.support.clusters import Clusters, logged_batches
from tests.support.kafka import ConfluentConfig, create_topic, produce, produce_transactions, sample_messages
from tests.support.processes import kill_process
from tests.support.reading import read_all
from tests.support.systems import run, settings_of, wait_caught_up
from tests.support.waiting import wait_until

_INTERVAL_S = 10
_PARTITIONS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedFlow:
    """A flow that has copied, lost a replicator by SIGKILL, and was stopped."""

    settings: MirrorSettings
    source: str
    topics: tuple[str, ...]
    target: Any

    @property
    def flow(self) -> str:
        """The flow's name."""
        return f"{self.source}->B"

    @property
    def topic(self) -> str:
        """The flow's statistics topic."""
        return statistics_topic(self.source)

    def log(self) -> StatisticsLog:
        """The statistics topic as it is now."""
        return find_statistics(self.settings.clusters["B"], self.settings.flows[0])

    def truth(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Records as Kafka's own client counts them, and bytes of the log's files, by source topic and partition."""
        found = {}
        for topic in self.topics:
            remote = f"{self.source}.{topic}"
            for partition, records in read_all(self.target.confluent_config(), remote).items():
                batches = logged_batches(self.target.brokers[0], remote, partition)
                found[topic, partition] = (len(records), sum(len(batch.view) for batch in batches))
        return found


def copy_with_kill(clusters: Clusters) -> CopiedFlow:
    """Copy topics of several codecs and of transactions, with a replicator killed in between. Ray must run."""
    mark = f"s{uuid.uuid4().hex[:6]}"
    config = clusters.a.confluent_config()
    topics = tuple(create_topic(config, f"{mark}-{kind}", _PARTITIONS) for kind in ("zstd", "none", "transactions"))
    settings = settings_of(
        {mark: clusters.a, "B": clusters.b},
        f"{mark}->B",
        topics=TopicSettings(include=(f"{mark}-.*",), refresh_interval_s=1.0),
        statistics=StatisticsSettings(emit_interval_s=_INTERVAL_S),
    )
    copied_flow = CopiedFlow(settings=settings, source=mark, topics=topics, target=clusters.b)
    name = f"report-{mark}"
    mirror = run(name, settings)
    try:
        _copy(copied_flow, clusters, mirror, 0)
        _wait_for_statistics(copied_flow, mirror)
        _kill_between_intervals(copied_flow, clusters, mirror)
        _copy(copied_flow, clusters, mirror, 9)
    finally:
        # What was copied last is published when the flow is drained.
        mirror.down(30.0)
    return copied_flow


def _copy(copied_flow: CopiedFlow, clusters: Clusters, mirror: Mirror, number: int) -> None:
    """Write more to the source, and wait until it is on the target."""
    config = clusters.a.confluent_config()
    messages = sample_messages(600, partitions=_PARTITIONS, value_bytes=400, first=600 * number)
    for topic, codec in zip(copied_flow.topics, ("zstd", "none"), strict=False):
        produce(config, topic, messages, codec=codec, batch_num_messages=50)
    batches = [(messages[at : at + 100], at % 300 > 0) for at in range(0, 600, 100)]
    produce_transactions(config, copied_flow.topics[-1], batches, transactional_id=f"{copied_flow.source}-{number}")
    # The system's status may be that of a replicator that was just killed.
    wanted = {topic: _count(config, topic) for topic in copied_flow.topics}
    target, source = copied_flow.target.confluent_config(), copied_flow.source

    def copied() -> bool:
        return {topic: _count(target, f"{source}.{topic}") for topic in copied_flow.topics} == wanted

    wait_caught_up(mirror, {(copied_flow.flow, topic): _PARTITIONS for topic in copied_flow.topics}, 60.0)
    wait_until(copied, 60.0, f"all on the target: {mirror.events(20)}")


def _count(config: ConfluentConfig, topic: str) -> dict[int, int]:
    return {partition: len(records) for partition, records in read_all(config, topic).items()}


def _wait_for_statistics(copied_flow: CopiedFlow, mirror: Mirror) -> None:
    config = copied_flow.target.confluent_config()

    def all_published() -> bool:
        values = [record.value for records in read_all(config, copied_flow.topic).values() for record in records]
        rows = [json.loads(value or b"{}") for value in values]
        return {(row["topic"], row["partition"]) for row in rows} == {
            (topic, partition) for topic in copied_flow.topics for partition in range(_PARTITIONS)
        }

    wait_until(all_published, 60.0, f"statistics in {copied_flow.topic}: {mirror.events(20)}")


def _kill_between_intervals(copied_flow: CopiedFlow, clusters: Clusters, mirror: Mirror) -> None:
    """Have records copied whose statistics nobody will publish."""
    for number in range(1, 9):
        time.sleep(_INTERVAL_S - time.time() % _INTERVAL_S + 0.5)
        interval = time.time() // _INTERVAL_S
        _copy(copied_flow, clusters, mirror, number)
        (replicator,) = [replicator for replicator in mirror.replicators if replicator.state == "running"]
        assert replicator.pid is not None
        kill_process(replicator.pid)
        if time.time() // _INTERVAL_S == interval:
            return
    pytest.fail("the machine is too slow to copy within an interval")
