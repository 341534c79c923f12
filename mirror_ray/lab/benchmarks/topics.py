"""What it costs to keep the configs and ACLs of a thousand topics in step.

::

    make bench-topics
    .venv/bin/python -m mirror_ray.lab.benchmarks.topics [--topics 1000] [--rounds 5]

Two brokers with an authorizer are started on this machine. Every topic of A has three configs and three ACLs, its
remote topic on B none. The first round alters everything, later ones find nothing to alter. Beside it is what MM2 sends
in every round: all configs of all topics, and all ACLs. CPU is this process's own, and that of both
brokers, over all rounds of a line; medians of wall-clock time.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import psutil
from confluent_kafka.cimpl import NewTopic

from mirror_ray.config.flow_rules import config_filter, replication_rules
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.lab.bench.meter import process_cpu_s
from mirror_ray.lab.benchmarks.harness import elapsed, parse_arguments
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import running_clusters
from mirror_ray.lab.devcluster.security import DevSecurity
from mirror_ray.lab.kafka_client import create_topics
from mirror_ray.model.acls import Acl
from mirror_ray.model.cluster_change import ConfigChange
from mirror_ray.model.names import FlowName
from mirror_ray.topics.acl_sync import AclChanges, acl_changes, acl_rules, flow_acls
from mirror_ray.topics.config_sync import planned_changes
from mirror_ray.topics.port import KafkaTopicPort
from mirror_ray.topics.remote_topics import remote_configs
from tests.support.clusters import Clusters, cluster_settings

CONFIGS = {"retention.ms": "86400000", "segment.bytes": "16777216", "cleanup.policy": "compact"}
FLOW = FlowSettings(name=FlowName("A", "B"), enabled=True)


class Rounds:
    """Rounds of topic sync as the coordinator does them."""

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
            await self._alter(
                {remote: {change.key: change.after for change in found} for remote, found in changes.items()}
            )
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
        allow = partial(Acl, resource="TOPIC", pattern="LITERAL", host="*", permission="ALLOW")
        acls = [
            allow(name=topic, principal=f"User:{user}", operation=operation)
            for topic in self.remotes
            for user, operation in (("ann", "READ"), ("bob", "ALL"), ("ann", "DESCRIBE_CONFIGS"))
        ]
        back = MirrorSettings(clusters={"A": self._port.target, "B": self._port.source}, flows=(FLOW,))
        await KafkaTopicPort(back, FLOW, UNRECORDED).change_acls(AclChanges(create=tuple(acls)))

    async def _alter(self, requests: Mapping[str, Mapping[str, str | None]]) -> None:
        changes = {
            topic: [ConfigChange(key=key, before=None, after=value, why="drift") for key, value in configs.items()]
            for topic, configs in requests.items()
        }
        failed = [str(error) for error in (await self._port.alter_configs(changes)).values() if error is not None]
        if failed:
            raise SystemExit(failed[0])


def brokers_cpu_s(clusters: Clusters) -> float:
    return sum(process_cpu_s(psutil.Process(broker.pid)) for cluster in clusters for broker in cluster.brokers)


async def timed(
    clusters: Clusters, title: str, rounds: int, action: Callable[[], Awaitable[int]], expected: int
) -> None:
    """Print what a round costs; ends with an error if it did something else than was meant."""
    wall_s: list[float] = []
    own_s, brokers_s = time.process_time(), brokers_cpu_s(clusters)
    for _ in range(rounds):
        with elapsed() as round_:
            done = await action()
        wall_s.append(round_.seconds)
        if done != expected:
            raise SystemExit(f"{title}: {done} instead of {expected}")
    own_ms = 1000 * (time.process_time() - own_s) / rounds
    brokers_ms = 1000 * (brokers_cpu_s(clusters) - brokers_s) / rounds
    print(f"  {title:<40}{1000 * statistics.median(wall_s):8.0f} ms{own_ms:8.0f} ms{brokers_ms:8.0f} ms", flush=True)


async def measure(clusters: Clusters, options: argparse.Namespace) -> None:
    rounds = Rounds(clusters, options.topics)
    create_topics(clusters.a, [NewTopic(topic, 1, 1, config=CONFIGS) for topic in rounds.remotes])
    create_topics(clusters.b, [NewTopic(remote, 1, 1) for remote in rounds.remotes.values()])
    await rounds.fill_acls()
    print(f"  {f'{options.topics:,} topics':<40}{'wall':>11}{'own CPU':>11}{'brokers':>11}", flush=True)
    await timed(clusters, "configs: everything differs", 1, rounds.configs, options.topics)
    for _ in range(2):  # the brokers' virtual machines compile what runs often
        await timed(clusters, "configs: nothing differs", options.rounds, rounds.configs, 0)
        await timed(clusters, "configs: all sent, as MM2 does", options.rounds, rounds.configs_as_mm2, options.topics)
    acls = 3 * options.topics
    await timed(clusters, "ACLs: everything differs", 1, rounds.acls, acls)
    for _ in range(2):
        await timed(clusters, "ACLs: nothing differs", options.rounds, rounds.acls, 0)
        await timed(clusters, "ACLs: all sent, as MM2 does", options.rounds, rounds.acls_as_mm2, acls)


def main() -> None:
    options = parse_arguments(__doc__, topics=(1000, "on each side"), rounds=(5, "of which the median is shown"))
    security = DevSecurity.plain(authorizer=True)
    with running_clusters(*(DevCluster(name, security=security) for name in "AB")) as pair:
        asyncio.run(measure(Clusters(*pair), options))


if __name__ == "__main__":
    main()
