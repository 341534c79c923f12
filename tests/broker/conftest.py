"""Shorter names for tests that look at one cluster, or at a pair as source and target."""

from __future__ import annotations

from contextlib import suppress

import pytest
from confluent_kafka import KafkaException

from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.internal_topics import schemas_topic
from tests.support.clusters import Clusters
from tests.support.kafka import delete_topic


@pytest.fixture
def source(clusters: Clusters) -> DevCluster:
    """Cluster A."""
    return clusters.a


@pytest.fixture
def target(clusters: Clusters) -> DevCluster:
    """Cluster B."""
    return clusters.b


@pytest.fixture
def no_schema_ids(clusters: Clusters) -> None:
    """What the flow A->B knows of other tests' registries is forgotten."""
    with suppress(KafkaException):
        delete_topic(clusters.b.confluent_config(), schemas_topic("A"))
