"""A running system's filter changed under traffic, on real Ray and real clusters."""

from __future__ import annotations

import time

from actors.system import start_system
from mirror_ray.config.settings import MirrorSettings, TopicSettings
from mirror_ray.mirror import Mirror
from tests.support.clusters import Clusters, TopicMaker
from tests.support.kafka import create_topic, produce, sample_messages
from tests.support.reading import assert_equal_copies
from tests.support.systems import copied, run, settings_of
from tests.support.traffic import Arrivals, Production
from tests.support.waiting import wait_until

#: A flow that is begun anew stands for longer; a machine with two cores and five processes stands for less.
_STANDSTILL_S = 1.0


def _settings(clusters: Clusters, *topics: str) -> MirrorSettings:
    selected = TopicSettings(include=topics, refresh_interval_s=60.0)
    return settings_of({"A": clusters.a, "B": clusters.b}, "A->B", topics=selected)


def _assigned(mirror: Mirror, topic: str) -> int:
    return sum("assigned" in event.text and f"{topic}-" in event.text for event in mirror.events(1000))


def test_a_filter_is_changed_under_traffic(clusters: Clusters, make_topic: TopicMaker, system: str) -> None:
    """One topic goes and comes back, one is added, by file and by key; the one between never stops; all are equal."""
    config, remote = clusters.a.confluent_config(), clusters.b.confluent_config()
    stays, comes, leaves = (make_topic(clusters.a, 2) for _ in range(3))
    for topic in (comes, leaves):
        produce(config, topic, sample_messages(1000, partitions=2))
    mirror = run(system, _settings(clusters, stays, leaves))
    wait_until(lambda: copied(mirror, leaves) == 1000, 30, "what leaves is copied before")
    pids = [replicator.pid for replicator in mirror.replicators]
    with Production(config, stays, 2, records_per_s=200), Arrivals(remote, f"A.{stays}", 2) as arrivals:
        wait_until(lambda: arrivals.first_s((0, 1), 0.0), 20, "traffic arrives")
        since_s = time.monotonic()
        start_system(_settings(clusters, stays, comes), name=system)
        wait_until(lambda: copied(mirror, comes) == 1000, 20, "what comes is copied")
        assert leaves not in {partition.topic for partition in mirror.partitions()}
        produce(config, leaves, sample_messages(1000, partitions=2, first=1000))
        # Elsewhere matching this pattern and this name would take years.
        create_topic(config, f"{'a' * 40}.{stays}")
        assert str(mirror.set("A->B", {"topics.include": f"{stays},{leaves},(a+)+b"})) == "A->B configured (topics)"
        wait_until(lambda: copied(mirror, leaves) == 2000, 20, "what left goes on")
        longest_s = arrivals.longest_s((0, 1), since_s)
    assert longest_s < _STANDSTILL_S
    assert _assigned(mirror, stays) == 1
    assert [replicator.pid for replicator in mirror.replicators] == pids
    wait_until(lambda: mirror.flows[0].lag_records == 0, 20, "caught up")
    for topic in (stays, comes, leaves):
        assert_equal_copies(config, remote, topic, f"A.{topic}")
