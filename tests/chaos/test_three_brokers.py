"""A target of three brokers, replication factor 3: leaders move and one broker is killed while copying."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from mirror_ray.config.settings import TopicSettings
from mirror_ray.lab.devcluster import DevCluster
from tests.support.clusters import Clusters, TopicMaker
from tests.support.reading import assert_equal_copies
from tests.support.systems import run, settings_of, wait_caught_up
from tests.support.traffic import Production
from tests.support.waiting import wait_until

#: On a machine that is busy otherwise.
pytestmark = pytest.mark.timeout(600)

PARTITIONS = 6
#: Time in which copying goes on between two events.
PEACE_S = 2.0


def test_leaders_move_and_a_broker_dies(
    clusters: Clusters, trio: DevCluster, make_topic: TopicMaker, system: str
) -> None:
    """A broker is stopped, leaders are elected back, another is killed and comes again: the copies end equal."""
    topic = make_topic(clusters.a, PARTITIONS, {"retention.ms": "-1"})
    remote = f"A.{topic}"
    admin = AdminClient(trio.confluent_config())

    def leaders() -> dict[int, int]:
        known = admin.list_topics(remote, timeout=30).topics[remote].partitions
        return {number: partition.leader for number, partition in known.items()}

    def in_sync() -> bool:
        known = admin.list_topics(remote, timeout=30).topics[remote].partitions
        return len(known) == PARTITIONS and all(len(partition.isrs) == 3 for partition in known.values())

    def prefer(preferred: dict[int, int]) -> None:
        """Give each partition back to its preferred leader; one that has just come back is refused for a while."""
        partitions = [TopicPartition(remote, number) for number in range(PARTITIONS)]

        def elected() -> bool:
            admin.elect_leaders(ElectionType.PREFERRED, partitions).result(30)
            return leaders() == preferred

        wait_until(in_sync, 60, "all replicas in sync")
        wait_until(elected, 60, "each partition is led by its preferred replica", every_s=0.5)
        time.sleep(PEACE_S)

    with Production(clusters.a.confluent_config(), topic, PARTITIONS) as production:
        topics = TopicSettings(include=(topic,), refresh_interval_s=1.0, replication_factor=3)
        mirror = run(system, settings_of({"A": clusters.a, "B": trio}, "A->B", topics=topics))
        wait_until(in_sync, 60, "the remote topic with three replicas")
        before = leaders()
        assert set(before.values()) == {1, 2, 3}

        trio.broker(2).stop()
        assert 2 not in wait_until(lambda: _none_at(2, leaders()), 30, "leaders moved").values()
        time.sleep(PEACE_S)
        trio.broker(2).start()
        prefer(before)
        assert leaders() == before

        trio.broker(3).kill()
        wait_until(lambda: _none_at(3, leaders()), 30, "leaders moved")
        time.sleep(PEACE_S)
        trio.broker(3).start()
        prefer(before)
        assert leaders() == before
        production.stop()
        wait_caught_up(mirror, {("A->B", topic): PARTITIONS}, 60)
        assert_equal_copies(clusters.a.confluent_config(), trio.confluent_config(), topic, remote)
        mirror.down()


def _none_at(broker: int, leaders: dict[int, int]) -> dict[int, int]:
    """The leaders, once the broker is none and each partition has one."""
    return leaders if not {broker, -1} & set(leaders.values()) else {}
