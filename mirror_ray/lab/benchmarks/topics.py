"""What it costs to keep the configs and ACLs of a thousand topics in step.

::

    make bench-topics
    .venv/bin/python -m mirror_ray.lab.benchmarks.topics [--topics 1000] [--rounds 5]

Two brokers with an authorizer are started on this machine. Every topic of A has three configs and three ACLs, its
remote topic on B none. The first round alters everything, the ones after it find nothing to alter. Beside it stands
what MM2 sends in every round: all configs of all topics, and all ACLs. CPU is this process's own, and that of both
brokers, over all rounds of a line; medians of wall-clock time.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

import psutil
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from mirror_ray.config.flow_rules import config_filter, replication_rules
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import start_all
from mirror_ray.lab.devcluster.security import DevSecurity
from mirror_ray.model.acls import Acl
from mirror_ray.model.cluster_change import ConfigChange
from mirror_ray.model.names import FlowName
from mirror_ray.topics.acl_sync import AclChanges, acl_changes, acl_rules, flow_acls
from mirror_ray.topics.config_sync import planned_changes
from mirror_ray.topics.port import KafkaTopicPort
from mirror_ray.topics.remote_topics import remote_configs
from tests.support.clusters import Clusters
from tests.support.engine import cluster_settings

CONFIGS = {"retention.ms": "86400000", "segment.bytes": "16777216", "cleanup.policy": "compact"}
FLOW = FlowSettings(name=FlowName("A", "B"), enabled=True)


class Rounds:
    """Asks, decides and alters as the coordinator does."""

    def __init__(self, clusters: Clusters, topics: int) -> None:
        settings = MirrorSettings(
            clusters={"A": cluster_settings("A", clusters.a), "B": cluster_settings("B", clusters.b)}, flows=(FLOW,)
        )
        self._port = KafkaTopicPort(settings, FLOW, UNRECORDED)
        self.remotes = {f"topic-{number:05}": f"A.topic-{number:05}" for number in range(topics)}

    async def configs(self) -> int:
        """A round of configs; how many topics were altered."""
        source, target = await self._port.configs(self.remotes)
        changes, problems = planned_changes(self.remotes, source, target, config_filter(FLOW))
        if changes:
            await self._alter({remote: {each.key: each.after for each in found} for remote, found in changes.items()})
        if problems:
            raise SystemExit(f"not all could be compared: {problems}")
        return len(changes)

    async def configs_as_mm2(self) -> int:
        """What MM2 sends: SET of what is set, DELETE of every default that is not excluded."""
        source, _ = await self._port.configs(self.remotes)
        rules = config_filter(FLOW)
        requests: dict[str, dict[str, str | None]] = {}
        for topic, remote in self.remotes.items():
            found = source[topic]
            if isinstance(found, Mapping):
                defaults = {key for key, value in found.items() if value.is_default}
                kept = filter(rules.should_replicate_config_property, defaults)
                requests[remote] = {**dict.fromkeys(kept), **remote_configs(found, rules)}
        await self._alter(requests)
        return len(requests)

    async def acls(self) -> int:
        """A round of ACLs; how many were created."""
        source, target = await self._port.acls()
        wanted = flow_acls(source or (), replication_rules(FLOW), self.remotes, (), acl_rules(FLOW))
        changes = acl_changes(wanted, target or (), (), acl_rules(FLOW))
        if changes:
            await self._port.change_acls(changes)
        return len(changes.create)

    async def acls_as_mm2(self) -> int:
        """What MM2 sends: all of them."""
        source, _ = await self._port.acls()
        wanted = flow_acls(source or (), replication_rules(FLOW), self.remotes, (), acl_rules(FLOW))
        await self._port.change_acls(AclChanges(create=tuple(wanted)))
        return len(wanted)

    async def fill_acls(self) -> None:
        """Three ACLs for each topic of the source."""
        given = [
            Acl(
                resource="TOPIC",
                name=topic,
                pattern="LITERAL",
                principal=f"User:{user}",
                host="*",
                operation=operation,
                permission="ALLOW",
            )
            for topic in self.remotes
            for user, operation in (("ann", "READ"), ("bob", "ALL"), ("ann", "DESCRIBE_CONFIGS"))
        ]
        back = MirrorSettings(clusters={"A": self._port.target, "B": self._port.source}, flows=(FLOW,))
        await KafkaTopicPort(back, FLOW, UNRECORDED).change_acls(AclChanges(create=tuple(given)))

    async def _alter(self, requests: Mapping[str, Mapping[str, str | None]]) -> None:
        changes = {
            topic: [ConfigChange(key=key, before=None, after=value, why="drift") for key, value in configs.items()]
            for topic, configs in requests.items()
        }
        failed = [str(error) for error in (await self._port.alter_configs(changes)).values() if error is not None]
        if failed:
            raise SystemExit(failed[0])


@contextmanager
def two_clusters() -> Iterator[Clusters]:
    """A and B with an authorizer."""
    pair = Clusters(*(DevCluster(name, security=DevSecurity.plain(authorizer=True)) for name in "AB"))
    try:
        start_all(pair)
        yield pair
    finally:
        for cluster in pair:
            cluster.close()


def create(cluster: DevCluster, topics: list[NewTopic]) -> None:
    """Create topics, some at a time."""
    admin = AdminClient(dict(cluster.confluent_config()))
    for start in range(0, len(topics), 200):
        for future in admin.create_topics(topics[start : start + 200]).values():
            future.result(120)
    while len(admin.list_topics(timeout=60).topics) < len(topics):
        time.sleep(0.1)


def brokers_cpu_s(clusters: Clusters) -> float:
    """What both brokers have used."""
    return sum(sum(psutil.Process(broker.pid).cpu_times()[:2]) for cluster in clusters for broker in cluster.brokers)


async def timed(clusters: Clusters, title: str, rounds: int, act: Callable[[], Awaitable[int]], expected: int) -> None:
    """Print what a round costs; a figure of something else than was meant is none."""
    wall_s: list[float] = []
    own_s, theirs_s = time.process_time(), brokers_cpu_s(clusters)
    for _ in range(rounds):
        began_s = time.perf_counter()
        done = await act()
        wall_s.append(time.perf_counter() - began_s)
        if done != expected:
            raise SystemExit(f"{title}: {done} instead of {expected}")
    own_ms = 1000 * (time.process_time() - own_s) / rounds
    theirs_ms = 1000 * (brokers_cpu_s(clusters) - theirs_s) / rounds
    print(f"  {title:<40}{1000 * statistics.median(wall_s):8.0f} ms{own_ms:8.0f} ms{theirs_ms:8.0f} ms", flush=True)


async def measure(clusters: Clusters, options: argparse.Namespace) -> None:
    """All figures."""
    rounds = Rounds(clusters, options.topics)
    create(clusters.a, [NewTopic(topic, 1, 1, config=CONFIGS) for topic in rounds.remotes])
    create(clusters.b, [NewTopic(remote, 1, 1) for remote in rounds.remotes.values()])
    await rounds.fill_acls()
    print(f"  {f'{options.topics:,} topics':<40}{'wall':>11}{'own CPU':>11}{'brokers':>11}", flush=True)
    await timed(clusters, "configs: everything differs", 1, rounds.configs, options.topics)
    for _ in range(2):  # the brokers' machines compile what runs often
        await timed(clusters, "configs: nothing differs", options.rounds, rounds.configs, 0)
        await timed(clusters, "configs: all sent, as MM2 does", options.rounds, rounds.configs_as_mm2, options.topics)
    given = 3 * options.topics
    await timed(clusters, "ACLs: everything differs", 1, rounds.acls, given)
    for _ in range(2):
        await timed(clusters, "ACLs: nothing differs", options.rounds, rounds.acls, 0)
        await timed(clusters, "ACLs: all sent, as MM2 does", options.rounds, rounds.acls_as_mm2, given)


def main() -> None:
    """Start the brokers, measure, and end them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with two_clusters() as clusters:
        asyncio.run(measure(clusters, options))


if __name__ == "__main__":
    main()
