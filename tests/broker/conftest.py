"""Shorter names for tests that look at one cluster, or at a pair as source and target."""

from __future__ import annotations

import pytest

from mirror_ray.lab.devcluster import DevCluster
from tests.support.clusters import Clusters


@pytest.fixture
def source(clusters: Clusters) -> DevCluster:
    """Cluster A."""
    return clusters.a


@pytest.fixture
def target(clusters: Clusters) -> DevCluster:
    """Cluster B."""
    return clusters.b
