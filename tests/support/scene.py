"""A system that copies while records keep coming: what chaos tests of actors begin with.

What goes on and what stands still is seen by a consumer of the remote topic, not from our own status.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.mirror import Mirror
from mirror_ray.observe.events import Event
from mirror_ray.observe.status import ReplicatorStatus
from tests.support.clusters import TopicMaker
from tests.support.kafka import create_topic
from tests.support.reading import assert_equal_copies
from tests.support.systems import run, settings_of, wait_caught_up
from tests.support.traffic import Arrivals, Production
from tests.support.waiting import wait_until

PARTITIONS = 6
#: On a machine that is busy otherwise.
_TIMEOUT_S = 60.0


class Scene:
    """A topic with traffic, its remote topic with a reader, and a system that copies."""

    def __init__(
        self, mirror: Mirror, settings: MirrorSettings, topic: str, clusters: tuple[DevCluster, DevCluster]
    ) -> None:
        self.mirror, self.settings, self.topic = mirror, settings, topic
        self._source, self._target = (cluster.confluent_config() for cluster in clusters)
        self.production = Production(self._source, topic, PARTITIONS)
        self.arrivals = Arrivals(self._target, f"A.{topic}", PARTITIONS)

    def owners(self) -> dict[int, str]:
        """The replicator of each partition that is copied."""
        return {
            partition.partition: partition.replicator
            for partition in self.mirror.partitions()
            if partition.state == "copying" and partition.replicator is not None
        }

    def owned_by(self, replicator: str) -> set[int]:
        """The partitions that a replicator copies."""
        return {partition for partition, owner in self.owners().items() if owner == replicator}

    def replicator(self, name: str) -> ReplicatorStatus:
        """The status of the replicator with that id."""
        return next(replicator for replicator in self.mirror.replicators if replicator.id == name)

    def scale(self, replicators: int) -> None:
        """Have so many replicators, and wait until they have equal shares."""
        self.mirror.scale(replicators)
        self.spread_over(replicators)

    def spread_over(self, replicators: int, *, without: AbstractSet[int] = frozenset()) -> None:
        """Wait until so many replicators, none of these pids among them, have equal shares."""

        def spread() -> bool:
            shares = [replicator.partitions for replicator in self.mirror.replicators if replicator.state == "running"]
            pids = {replicator.pid for replicator in self.mirror.replicators}
            return (
                shares == [PARTITIONS // replicators] * replicators
                and not pids & without
                and len(self.owners()) == PARTITIONS
            )

        wait_until(spread, _TIMEOUT_S, f"{PARTITIONS} partitions on {replicators} replicators")

    def event(self, *texts: str, since_ms: float = 0) -> Event:
        """Wait for an event with one of these texts, not older than ``since_ms``; the newest."""

        def find() -> Event | None:
            events = reversed([event for event in self.mirror.events(200) if event.time_ms >= since_ms])
            return next((event for event in events if any(text in event.text for text in texts)), None)

        try:
            found = wait_until(find, _TIMEOUT_S, f"event {' or '.join(map(repr, texts))}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()}") from None
        assert found is not None
        return found

    def log(self) -> str:
        """The newest events, for the text of a failure."""
        return "\n".join(
            f"{event.time_ms} {event.level} {event.subject}: {event.text}" for event in self.mirror.events(60)
        )

    def arrives_again(self, partitions: AbstractSet[int], since_s: float) -> float:
        """Wait until each of these partitions has had something new since then (monotonic); seconds that it took."""
        wait_until(lambda: self.arrivals.first_s(partitions, since_s), _TIMEOUT_S, f"records of {sorted(partitions)}")
        return (self.arrivals.first_s(partitions, since_s) or time.monotonic()) - since_s

    def ends_equal(self) -> None:
        """Stop the traffic and compare all of it."""
        self.production.stop()
        wait_caught_up(self.mirror, {("A->B", self.topic): PARTITIONS}, _TIMEOUT_S)
        assert_equal_copies(self._source, self._target, self.topic, f"A.{self.topic}")


@contextmanager
def open_scene(
    system: str, source: DevCluster, target: DevCluster, make_topic: TopicMaker, **changes: object
) -> Iterator[Scene]:
    """One replicator copies from ``source`` to ``target`` as records come; ``changes`` are to the settings."""
    kept = {"retention.ms": "-1"}
    topic = make_topic(source, PARTITIONS, kept)
    create_topic(target.confluent_config(), f"A.{topic}", PARTITIONS, topic_config=kept)
    settings = settings_of({"A": source, "B": target}, "A->B", topics=topic).model_copy(update=changes)
    scene = Scene(run(system, settings), settings, topic, (source, target))
    with scene.production, scene.arrivals:
        yield scene
