"""Everything that a run needs: two regions, two clusters, Ray's nodes, a running flow, writers and a watch."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka.cimpl import NewTopic

from mirror_ray.lab.background import wait_until
from mirror_ray.lab.chaos.arrivals import ArrivalWatch
from mirror_ray.lab.chaos.chaos_report import TopicOutcome
from mirror_ray.lab.chaos.compare import compare_topic
from mirror_ray.lab.chaos.topology import TRANSLATED, flow_properties
from mirror_ray.lab.chaos.writers import ChaosLoad
from mirror_ray.lab.devcluster.clusters import running_clusters, write_mm2_properties
from mirror_ray.lab.kafka_client import create_topics, high_watermarks
from mirror_ray.lab.ray_nodes.machines import LabMachine
from mirror_ray.lab.ray_nodes.placed_brokers import PlacedCluster
from mirror_ray.lab.ray_nodes.ray_cluster import StartedNodes
from mirror_ray.lab.ray_nodes.redis_store import start_redis
from mirror_ray.lab.ray_nodes.regions import Regions
from mirror_ray.model.errors import MirrorError

Say = Callable[[str], None]
NEAR, FAR = "near", "far"
REPLICATORS: Final = 2
_COPIED_WITHIN_S: Final = 300.0
#: One that is steady in each of its partitions, transactions, and a compacted topic.
TOPICS: Final = tuple(
    replace(topic, partitions=6) if topic.kind == "plain" else topic
    for topic in TRANSLATED
    if topic.cluster == "A" and topic.remote_configs is None
)
LAYOUT: Final = (
    "near: the target's broker; a broker of the source, which follows in every partition",
    "near: Ray's head (no CPU), nodes near1 and near2 (room for one replicator each), Redis, writers, consumers",
    "far: the source's two other brokers, which lead its partitions; node far1 (room for one replicator)",
)


class Stand:
    """The flow A->B in full swing, its replicators on the target's side."""

    def __init__(self, directory: Path, stack: ExitStack, delay_s: float, say: Say) -> None:
        """Start all of it."""
        self.say, self._directory, self._stack = say, directory, stack
        say("switching the machines on")
        self.regions = Regions(directory, stack, delay_s)
        brokers = {name: self.regions.machine(name, region) for name, region in _BROKERS}
        self.follower, self.leaders = brokers["a3"], (brokers["a1"], brokers["a2"])
        source = PlacedCluster(
            "A", [(brokers["a1"], FAR), (brokers["a2"], FAR), (self.follower, NEAR)], directory / "A"
        )
        target = PlacedCluster("B", [(brokers["b1"], NEAR)], directory / "B")
        self.redis = self.regions.machine("redis", 1)
        self.machines = {name: self.regions.machine(name, region) for name, region in _NODES}
        say("starting two clusters of three brokers and one")
        stack.enter_context(running_clusters(source, target))
        self.clusters: dict[str, PlacedCluster] = {"A": source, "B": target}
        _create(source)
        more = flow_properties(preserve_offsets=False) + _PROPERTIES
        self.config = write_mm2_properties(directory, [source, target], more)
        say("starting Ray on four nodes, its head's state in Redis")
        self.ray = StartedNodes(directory, stack)
        self.store = dict(start_redis(self.redis, directory, stack))
        self.start_head(with_store=True)
        for name in ("near1", "near2", "far1"):
            self.ray.start_worker(self.machines[name], FAR if name == "far1" else NEAR)
        self.ray.wait_for(self.head, 4)
        say("starting the flow and the writers")
        self.up()
        self.load = ChaosLoad(self.clusters, TOPICS, 1)
        stack.callback(self.load.ask_to_stop)
        self.load.start()
        self.wait_for("every partition is copied", lambda: not self.not_copying(), 180)
        self.watch = stack.enter_context(ArrivalWatch(self.clusters, TOPICS))
        self.settle()

    @property
    def head(self) -> LabMachine:
        """The machine of Ray's head."""
        return self.machines["head"]

    def start_head(self, *, with_store: bool) -> None:
        """Start Ray's head on its machine, with its state in Redis or without."""
        self.ray.start_head(self.head, NEAR, self.store if with_store else {})

    def up(self) -> None:
        """`mirror-ray up`, on the head's machine."""
        self.command("up", str(self.config), "--detach", "--yes", "--replicators", str(REPLICATORS))

    def command(self, *words: str, timeout_s: float = 240.0) -> str:
        """Run a command of mirror-ray on the head's machine."""
        return self.ray.mirror_ray(self.head, *words, timeout_s=timeout_s)

    def partitions(self) -> list[dict[str, Any]]:
        """The status of each partition."""
        found: list[dict[str, Any]] = json.loads(self.command("lag", "-o", "json"))
        return [partition for partition in found if partition["topic"] in {topic.name for topic in TOPICS}]

    def replicators(self) -> dict[str, tuple[str, int]]:
        """Running replicators: the address of the node and how many partitions, by name."""
        found = json.loads(self.command("replicators", "-o", "json"))
        return {each["id"]: (each["node"], each["partitions"]) for each in found if each["pid"]}

    def nodes_of_replicators(self) -> list[str]:
        """The names of the machines on which replicators run."""
        names = {machine.address: name for name, machine in self.machines.items()}
        return sorted(names.get(node, node) for node, _ in self.replicators().values())

    def pids(self) -> list[tuple[str, int]]:
        """The processes of the replicators, each with its node."""
        return [(each["node"], each["pid"]) for each in json.loads(self.command("replicators", "-o", "json"))]

    def remote_partitions_on(self, machine: LabMachine) -> set[str]:
        """The steady remote partitions that a replicator on this machine copies, as the target names them."""
        there = {name for name, (node, _) in self.replicators().items() if node == machine.address}
        done = self.head.run(sys.executable, "-c", _OWNERS, self.ray.address, environment=self.ray.environment)
        return {f"A.{name}" for name, replicator in json.loads(done.stdout or "{}").items() if replicator in there}

    def others_during(self, victim: LabMachine | None, hit: set[str]) -> list[str]:
        """What the watch says of the fault so far, while it lasts."""
        if victim is None:
            return []
        stood = {key: value for key, value in self.watch.standstills_s().items() if key in hit}
        return (
            [f"the partitions of {victim.name} stood for {max(stood.values()):.1f} s at most while it lasted"]
            if stood
            else []
        )

    def switch_on(self, name: str) -> None:
        """Switch a lost machine on again, with its node of Ray unless it is the head's."""
        self.machines[name] = self.regions.machine(name, 2 if name == "far1" else 1)
        if name != "head":
            self.ray.start_worker(self.machines[name], FAR if name == "far1" else NEAR)

    def not_copying(self) -> list[str]:
        """Partitions that are not known yet."""
        known = {(each["topic"], each["partition"]) for each in self.partitions() if each["position"] >= 0}
        return [
            f"{topic.name}-{number}"
            for topic in TOPICS
            for number in range(topic.partitions)
            if (topic.name, number) not in known
        ]

    def settle(self, *, replicators: int = REPLICATORS) -> float:
        """Wait until every partition has new records and the replicators are complete; returns when, by the watch."""
        begin_s = time.monotonic()
        arrived_s = self.wait_for_arrivals()
        self.wait_for(f"{replicators} replicators", lambda: len(self.replicators()) == replicators, 300)
        self.wait_for_arrivals()
        return arrived_s - begin_s

    def wait_for_arrivals(self, within_s: float = _COPIED_WITHIN_S) -> float:
        """Wait until every partition has had something new since now; returns the time."""
        begin_s = time.monotonic()
        last: list[str] = []

        def arrived() -> bool:
            self.load.check()
            last[:] = self.watch.silent_since(begin_s)
            return not last

        try:
            wait_until(arrived, within_s, "every partition has new records", every_s=0.05)
        except MirrorError as error:
            raise MirrorError(f"{error}: {', '.join(last)}\n{self.events()}") from error
        return time.monotonic()

    def wait_for(self, what: str, condition: Callable[[], bool], within_s: float) -> None:
        """Wait; while the coordinator does not answer it is not so."""

        def holds() -> bool:
            with suppress(MirrorError, ValueError):
                return condition()
            return False

        wait_until(holds, within_s, what, every_s=1.0)

    def events(self) -> str:
        """The last events, as far as they can be had."""
        try:
            return self.command("events", timeout_s=60)
        except Exception as error:  # noqa: BLE001 - it is asked when something is wrong already
            return f"no events: {error}"

    def finish(self) -> list[TopicOutcome]:
        """Stop the writers, wait until all is copied, stop the flow, compare every record."""
        self.say("stopping the writers; waiting until all is copied")
        self.load.stop()
        ends = {topic.name: high_watermarks(self.clusters["A"], topic.name, topic.partitions) for topic in TOPICS}
        self.wait_for("everything is copied", lambda: self._has_copied(ends), _COPIED_WITHIN_S)
        (self._directory / "events.log").write_text(self.events())
        self.command("down")
        self.say("comparing every record of every partition")
        return [compare_topic(topic, self.clusters, self.load, preserve_offsets=False) for topic in TOPICS]

    def _has_copied(self, ends: dict[str, dict[int, int]]) -> bool:
        copied = {(each["topic"], each["partition"]): each["position"] for each in self.partitions()}
        return all(
            copied[topic, number] >= end for topic, by_number in ends.items() for number, end in by_number.items()
        )


_BROKERS: Final = (("a1", 2), ("a2", 2), ("a3", 1), ("b1", 1))
_NODES: Final = (("head", 1), ("near1", 1), ("near2", 1), ("far1", 2))
#: What a user of Python asks.
_OWNERS: Final = """
import json, sys, mirror_ray
with mirror_ray.attach(address=sys.argv[1]) as mirror:
    print(json.dumps({f"{each.topic}-{each.partition}": each.replicator for each in mirror.partitions()}))
"""
_PROPERTIES: Final = """\
B->A.enabled = false
A.consumer.client.rack = near
placement.labels = ray.io/availability-region=near
"""


def _create(source: PlacedCluster) -> None:
    create_topics(
        source,
        [
            NewTopic(
                topic.name,
                topic.partitions,
                replica_assignment=[[1 + number % 2, 3] for number in range(topic.partitions)],
                config=dict(topic.configs),
            )
            for topic in TOPICS
        ],
    )


@contextmanager
def frozen(machine: LabMachine) -> Iterator[None]:
    """A machine that stands still."""
    machine.freeze()
    try:
        yield
    finally:
        machine.thaw()
