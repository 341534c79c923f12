"""The types of the fixtures in tests/conftest.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from mirror_ray.lab.devcluster import Broker, DevCluster, DevListener

#: A cluster with one listener, or one listener of a cluster: clients need not know which.
KafkaCluster = DevCluster | DevListener


class Reachable(Protocol):
    """A cluster, of whatever version, as clients see it."""

    @property
    def bootstrap(self) -> str:
        """``bootstrap.servers``."""
        ...

    def confluent_config(self) -> Mapping[str, str | int | float | bool]:
        """What a confluent-kafka client of it needs."""
        ...


class WithFiles(Reachable, Protocol):
    """One whose brokers' files can be read."""

    @property
    def brokers(self) -> Sequence[Broker]:
        """By node id."""
        ...


class Clusters(NamedTuple):
    """Two clusters of one broker each, named A and B, shared by all tests of a session: never stop or kill these."""

    a: DevCluster
    b: DevCluster


class KafkaClusters(NamedTuple):
    """Two clusters, or listeners of clusters, as `Clusters`."""

    a: KafkaCluster
    b: KafkaCluster


class TopicMaker(Protocol):
    """Creates a topic of a new name and returns the name."""

    def __call__(
        self, cluster: KafkaCluster, partitions: int = 1, topic_config: Mapping[str, str] | None = None
    ) -> str:
        """Topic config as for kafka-topics; the topic has leaders when this returns."""
        ...
