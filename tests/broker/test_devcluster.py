"""Real brokers: started, killed, held still, restarted, protected, and gone when their owner is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from mirror_ray.jars import maven
from mirror_ray.lab.devcluster import DevCluster, stop_clusters
from mirror_ray.model.errors import MirrorError, NotRunningError
from tests.support.clusters import Clusters, TopicMaker
from tests.support.kafka import CODECS, produce, produce_transactions, sample_messages
from tests.support.reading import assert_equal_copies, read_all

OWNER = """
import sys, threading
from pathlib import Path
from mirror_ray.lab.devcluster import QUICK_START, DevCluster
cluster = DevCluster("orphan", data_dir=Path(sys.argv[1]), jvm_options=QUICK_START)
# From a thread that ends at once: a broker must not end with the thread that started it.
starter = threading.Thread(target=cluster.start)
starter.start()
starter.join()
print(cluster.brokers[0].pid, flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_written_is_read(clusters: Clusters, make_topic: TopicMaker, codec: str) -> None:
    """The independent reader gives back keys, values and headers as they were produced, in every codec."""
    config = clusters.a.confluent_config()
    topic = make_topic(clusters.a, 2)
    messages = sample_messages(50, partitions=2)
    produce(config, topic, messages, codec=codec)
    for partition, records in read_all(config, topic).items():
        wanted = [(m.key, m.value, m.headers) for m in messages if m.partition == partition]
        assert [record[:3] for record in records] == wanted


def test_aborted_transactions_are_not_read(clusters: Clusters, make_topic: TopicMaker) -> None:
    """A read_committed reader sees what was committed, one that reads all sees the aborted records too."""
    config = clusters.a.confluent_config()
    topic = make_topic(clusters.a)
    transactions = [(sample_messages(5, first=first), first != 5) for first in (0, 5, 10)]
    produce_transactions(config, topic, transactions, transactional_id=topic)
    assert len(read_all(config, topic)[0]) == 10
    assert len(read_all(config, topic, isolation_level="read_uncommitted")[0]) == 15


def test_a_difference_between_copies_is_named(clusters: Clusters, make_topic: TopicMaker) -> None:
    """The first record that differs is told with its partition and number."""
    a, b = (cluster.confluent_config() for cluster in clusters)
    source, copy = make_topic(clusters.a), make_topic(clusters.b)
    messages = [message._replace(timestamp_ms=1_700_000_000_000) for message in sample_messages(3)]
    produce(a, source, messages)
    produce(b, copy, messages[:2])
    with pytest.raises(AssertionError, match=rf"{copy}-0, record 2 of 2 \(source has 3\).*found nothing"):
        assert_equal_copies(a, b, source, copy)
    produce(b, copy, messages[2:])
    assert_equal_copies(a, b, source, copy)


@pytest.mark.parametrize("listener", ["PLAIN", "OAUTH", "SCRAM", "TLS"])
def test_a_protected_cluster_lets_its_users_in(secured: DevCluster, make_topic: TopicMaker, listener: str) -> None:
    """The client settings of each kind of security open the cluster."""
    config, topic = secured.listener(listener).confluent_config(), make_topic(secured)
    produce(config, topic, sample_messages(3))
    assert len(read_all(config, topic)[0]) == 3


def test_brokers_end_when_their_owner_is_killed(tmp_path: Path) -> None:
    """SIGKILL of the process that started a broker ends the broker within two seconds."""
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        broker = psutil.Process(int(owner.stdout.readline()))
        assert broker.is_running()
        owner.kill()
        broker.wait(2.0)


def test_a_broker_that_cannot_start_shows_its_log() -> None:
    """The error names the log file and has its end."""
    cluster = DevCluster("wrong", server_properties={"num.io.threads": "none"})
    with pytest.raises(MirrorError, match=r"num\.io\.threads"):
        cluster.start()


def test_clusters_run_until_another_process_stops_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two clusters come up with a file for their flows, and stop_clusters ends them.

    As in an image: the jars lie elsewhere than in the cache directory, which is not there yet.
    """
    monkeypatch.setenv("MIRROR_RAY_JARS", str(maven.ensure_jars().parent))
    monkeypatch.setenv("MIRROR_RAY_CACHE", str(tmp_path / "cache"))
    directory = tmp_path / "clusters"
    call = f"run_clusters(Path({str(directory)!r}))"
    script = f"from pathlib import Path; from mirror_ray.lab.devcluster import run_clusters; {call}"
    command = [sys.executable, "-c", script]
    # As most users have it: Python buffers what it writes into a pipe.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(3)]
            assert [line.split()[0] for line in lines] == ["A", "B", "flows"]
            config = (directory / "mm2.properties").read_text()
            assert f"A.bootstrap.servers = {lines[0].split()[1]}" in config
            assert json.loads((tmp_path / "cache/clusters.json").read_text())["pid"] == process.pid
            stop_clusters()
            assert process.wait(5) in {0, -signal.SIGTERM}
        finally:
            process.terminate()
    with pytest.raises(NotRunningError, match="clusters up"):
        stop_clusters()
