"""One topic under one name on two clusters, both written to, while replicators and the coordinator are killed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from threading import Thread

import pytest

from mirror_ray.lab.devcluster import DevCluster
from tests.support.both_ways import PARTITIONS, both_ways, check, counts, write
from tests.support.clusters import Clusters
from tests.support.kafka import create_topic
from tests.support.processes import kill_process
from tests.support.systems import replicator_pid, run
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

_EACH = 1_000


def test_nothing_is_doubled_or_lost_in_either_direction(clusters: Clusters, unique_topic: str, system: str) -> None:
    """SIGKILL in full flight: what went round is known for a copy all the same, and each record is there once."""
    both = {"A": clusters.a, "B": clusters.b}
    for cluster in clusters:
        create_topic(cluster.confluent_config(), unique_topic, PARTITIONS)
    mirror = run(system, both_ways(both, unique_topic, None))
    total = 0
    for victim in ("replicator", "coordinator", "replicator"):
        writer = Thread(target=write, args=(both, unique_topic, total, total + _EACH))
        writer.start()
        wait_until(partial(_more_than, both, unique_topic, sum(counts(both, unique_topic)) + _EACH), 60, "copies")
        pid = replicator_pid(mirror) if victim == "replicator" else mirror.status().coordinator_pid
        kill_process(pid)
        writer.join()
        total += _EACH
    wait_until(lambda: counts(both, unique_topic) == [2 * total, 2 * total], 120, "every record on both sides")
    wait_until(lambda: all(line.lag_records == 0 for line in mirror.partitions()), 60, "nothing left to copy")
    check(both, unique_topic, total)


def _more_than(clusters: Mapping[str, DevCluster], topic: str, number: int) -> bool:
    return sum(counts(clusters, topic)) > number
