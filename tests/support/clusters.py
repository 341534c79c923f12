"""The types of the fixtures in tests/conftest.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from mirror_ray.devcluster import DevCluster


class Clusters(NamedTuple):
    """Two clusters of one broker each, named A and B, shared by all tests of a session: never stop or kill these."""

    a: DevCluster
    b: DevCluster


class TopicMaker(Protocol):
    """Creates a topic of a new name and returns the name."""

    def __call__(self, cluster: DevCluster, partitions: int = 1, topic_config: Mapping[str, str] | None = None) -> str:
        """Topic config as for kafka-topics; the topic has leaders when this returns."""
        ...
