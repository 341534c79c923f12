"""Whole systems on Ray, for tests: settings from a few words, waiting until everything is copied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka.admin import AdminClient

from actors.system import start_system
from mirror_ray.config.gateway import GatewaySettings
from mirror_ray.config.settings import ClusterSettings, FlowSettings, HeartbeatSettings, MirrorSettings, TopicSettings
from mirror_ray.config.transforms import with_routes
from mirror_ray.kafka.librdkafka import client_config
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.mirror import Mirror
from mirror_ray.model.names import FlowName
from mirror_ray.observe.status import PartitionStatus
from mirror_ray.runtime import attach
from tests.support.clusters import Reachable
from tests.support.processes import kill_process
from tests.support.reading import end_offsets
from tests.support.waiting import wait_until


def settings_of(
    clusters: Mapping[str, Reachable],
    *flows: str,
    topics: str | TopicSettings,
    replicators: int = 1,
    gateway: bool = False,
    **flow_settings: Any,
) -> MirrorSettings:
    """Settings for plain clusters: each of ``flows`` (``A->B``) with these topics alone, found within a second.

    ``gateway``: the page is served too, which costs a process.
    """
    if isinstance(topics, str):
        topics = TopicSettings(include=(topics,), refresh_interval_s=1.0)
    return MirrorSettings(
        clusters={
            alias: ClusterSettings(alias=alias, bootstrap_servers=tuple(cluster.bootstrap.split(",")))
            for alias, cluster in clusters.items()
        },
        flows=tuple(
            with_routes(
                FlowSettings(
                    name=FlowName.parse(flow),
                    enabled=True,
                    topics=topics,
                    **{"heartbeats": HeartbeatSettings(replication_enabled=False), **flow_settings},
                )
                for flow in flows
            )
        ),
        replicators=replicators,
        replicator_cpus=0.5,
        gateway=GatewaySettings(enabled=gateway),
    )


def run(name: str, settings: MirrorSettings) -> Mirror:
    """Start a system, or update the one of that name."""
    start_system(settings, name=name)
    return attach(name)


def copied(mirror: Mirror, topic: str | None = None) -> int:
    """How many source offsets of a topic, or of all, the target has acknowledged."""
    return sum(partition.position for partition in mirror.partitions() if topic in (None, partition.topic))


def replicator_pid(mirror: Mirror, *others: int) -> int:
    """The first replicator's, which is none of ``others``; one that starts, or that a coordinator adopts, has 0 yet."""
    return wait_until(lambda: next(iter({one.pid for one in mirror.replicators[:1]} - {0, *others}), 0), 60, "its pid")


def kill_replicators(mirror: Mirror, *records: float) -> None:
    """Kill the first replicator, and whichever comes in its place, as soon as so many records are copied."""
    killed: list[int] = []
    for count in records:
        wait_until(lambda at=count: copied(mirror) > at, 60, f"{count:.0f} copied")  # type: ignore[misc]
        killed.append(replicator_pid(mirror, *killed))
        kill_process(killed[-1])


def wait_caught_up(mirror: Mirror, expected: Mapping[tuple[str, str], int], timeout_s: float = 30.0) -> None:
    """Wait until each (flow, topic) of ``expected`` has that many partitions, and all that its source has is copied.

    A lag of 0 alone may be of a moment before: a replicator says where the source ended when it fetched last.
    """
    ends: dict[tuple[str, str], dict[int, int]] = {}

    def is_behind(partition: PartitionStatus) -> bool:
        if partition.lag_records != 0 or partition.state != "copying":
            return True
        key = (partition.flow, partition.topic)
        if key not in ends:
            ends[key] = _source_ends(mirror, *key)
        return partition.position < ends[key][partition.partition]

    def missing() -> list[str]:
        partitions = mirror.partitions()
        behind = []
        for (flow, topic), count in expected.items():
            there = [partition for partition in partitions if (partition.flow, partition.topic) == (flow, topic)]
            behind += [f"{flow} {topic}: {len(there)} of {count} partitions"] if len(there) != count else []
            behind += [str(partition) for partition in there if is_behind(partition)]
        return behind

    last: list[str] = []

    def done() -> bool:
        last[:] = missing()
        return not last

    try:
        wait_until(done, timeout_s, "everything copied")
    except AssertionError as error:
        raise AssertionError(f"{error}: {last[:5]}; {mirror.events(20)}") from None


def _source_ends(mirror: Mirror, flow: str, topic: str) -> dict[int, int]:
    source = mirror.settings().clusters[FlowName.parse(flow).source]
    return end_offsets(client_config(source, "test"), topic, isolation_level="read_committed")


def topics_with(cluster: DevCluster, part: str) -> set[str]:
    """Names of the cluster's topics that contain ``part``."""
    admin = AdminClient(dict(cluster.confluent_config()))
    return {name for name in admin.list_topics(timeout=30).topics if part in name}
