"""The benchmark's data, and its comparison of copies, on real brokers."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from mirror_ray.lab.bench.dataset import Backlog, PreparedTopics, fill
from mirror_ray.lab.bench.measurements import DataSpec
from mirror_ray.lab.bench.raw_connection import RawConnection
from mirror_ray.lab.copy_check import check_copy, hash_records
from mirror_ray.lab.devcluster.clusters import far_cluster
from mirror_ray.lab.kafka_client import TopicEnds, client_config
from tests.support.clusters import Clusters
from tests.support.kafka import Message, create_topic, produce
from tests.support.waiting import wait_until

DATA = DataSpec(records=1200, record_bytes=200, batch_records=50, codec="zstd", partitions=3)


@pytest.fixture
def prepared(tmp_path: Path) -> PreparedTopics:
    """Files of batches."""
    return PreparedTopics(tmp_path)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_backlog_is_seen_at_once_when_it_is_opened(clusters: Clusters, prepared: PreparedTopics, codec: str) -> None:
    """Before, committed readers see none of it; then all, each record once."""
    data = DataSpec(records=1200, record_bytes=200, batch_records=50, codec=codec, partitions=3)
    topic = f"backlog-{uuid.uuid4().hex[:8]}"
    backlog = Backlog(clusters.a, topic, data, prepared)
    ends = TopicEnds(clusters.a, topic, range(3))
    assert ends.total() == 0
    backlog.open()
    # Each partition has its marker.
    wait_until(lambda: ends.total() == data.records + 3, 10, "the marker is written")
    found = hash_records(clusters.a, topic, 3)
    assert list(map(len, found)) == [400, 400, 400]
    assert len({record for partition in found for record in partition}) == data.records


def test_a_raw_connection_reads_what_it_wrote(clusters: Clusters, prepared: PreparedTopics) -> None:
    """Every batch, byte by byte but for what the broker sets."""
    topic = f"wire-{uuid.uuid4().hex[:8]}"
    fill(clusters.a, topic, DATA, prepared)
    assert len(AdminClient(client_config(clusters.a)).list_topics(timeout=30).topics[topic].partitions) == 3
    with RawConnection(clusters.a.bootstrap) as connection:
        batches = list(connection.fetch(topic, [400, 400, 400]))
        assert connection.total(topic, 3) == DATA.records
        assert connection.total(f"{topic}-missing", 3) == 0
    assert sum(int.from_bytes(batch[57:61], "big") for _, batch in batches) == DATA.records
    assert sorted(bytes(batch)[21:] for _, batch in batches) == sorted(batch[21:] for batch in prepared.batches(DATA))


def test_the_comparison_finds_what_was_lost_and_doubled(clusters: Clusters) -> None:
    """A changed timestamp is another record."""
    topic = f"judged-{uuid.uuid4().hex[:8]}"
    create_topic(clusters.a.confluent_config(), topic)
    create_topic(clusters.b.confluent_config(), topic)
    messages = [Message(f"{number}".encode(), timestamp_ms=1_700_000_000_000 + number) for number in range(100)]
    produce(clusters.a.confluent_config(), topic, messages)
    produce(clusters.b.confluent_config(), topic, [*messages[:10], *messages[5:90]])
    found = check_copy(clusters.a, topic, clusters.b, topic, 1)
    assert (found.lost, found.doubled, found.foreign) == (10, 5, 0)
    assert check_copy(clusters.a, topic, clusters.b, topic, 1, finished=False).lost == 0
    changed = Message(b"0", timestamp_ms=1)
    produce(clusters.b.confluent_config(), topic, [changed])
    assert check_copy(clusters.a, topic, clusters.b, topic, 1).foreign == 1


def test_a_far_cluster_takes_its_time() -> None:
    """Two requests at least, each a round trip of 100 ms: it can take longer, but no less."""
    with far_cluster("far", 1, 0.05, heap="256m") as (cluster, bootstrap), cluster:
        began_s = time.monotonic()
        with RawConnection(bootstrap) as connection:
            connection.begin(f"asked-{uuid.uuid4().hex}", 60_000)
        assert time.monotonic() - began_s >= 0.2
        assert TopicEnds(cluster, "nothing", [0]).total() == -1
