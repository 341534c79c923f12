"""Shorter names for tests that look at one cluster, or at a pair as source and target; a cluster with ACLs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirror_ray.lab.devcluster import QUICK_START, DevCluster
from mirror_ray.lab.devcluster.security import DevSecurity
from tests.support.clusters import Clusters


@pytest.fixture
def source(clusters: Clusters) -> DevCluster:
    """Cluster A."""
    return clusters.a


@pytest.fixture
def target(clusters: Clusters) -> DevCluster:
    """Cluster B."""
    return clusters.b


@pytest.fixture(scope="session")
def guarded() -> Iterator[DevCluster]:
    """A cluster that grants alice only what ACLs say; each test uses topics of its own."""
    with DevCluster("guarded", security=DevSecurity.plain(authorizer=True), jvm_options=QUICK_START) as cluster:
        yield cluster
