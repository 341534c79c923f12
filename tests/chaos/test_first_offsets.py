"""Logs of the laboratory that begin at another offset than 0."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.cimpl import NewTopic

from mirror_ray.lab.chaos.first_offsets import begin_logs
from mirror_ray.lab.chaos.topology import Topic
from mirror_ray.lab.devcluster import QUICK_START, DevCluster
from mirror_ray.lab.kafka_client import create_topics, high_watermarks, read_placed
from tests.support.kafka import produce, sample_messages

FIRST = 3_000_000_000
MOVED = Topic(cluster="A", name="moved", kind="plain", partitions=2, first_offset=FIRST)
CLEANED = Topic(cluster="A", name="cleaned", kind="compacted", partitions=1, configs={"cleanup.policy": "compact"})


def test_a_broker_goes_on_where_a_log_is_said_to_begin(tmp_path: Path) -> None:
    """Also after it was killed; other topics begin at 0, also one whose name begins alike."""
    with DevCluster("A", data_dir=tmp_path / "A", jvm_options=QUICK_START) as cluster:
        create_topics(cluster, [MOVED.new_topic(), CLEANED.new_topic(), NewTopic("moved-0", 1, 1)])
        begin_logs({"A": cluster}, (MOVED, CLEANED))
        assert high_watermarks(cluster, "moved", 2) == {0: FIRST, 1: FIRST}
        produce(cluster.confluent_config(), "moved", sample_messages(10, partitions=2))
        cluster.brokers[0].kill()
        cluster.brokers[0].start()
        assert high_watermarks(cluster, "moved", 2) == {0: FIRST + 5, 1: FIRST + 5}
        assert [placed.offset for placed in read_placed(cluster, "moved", 1)] == list(range(FIRST, FIRST + 5))
        assert high_watermarks(cluster, "cleaned", 1) == high_watermarks(cluster, "moved-0", 1) == {0: 0}
