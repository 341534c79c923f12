"""Cluster B, as most tests of clients have it."""

from __future__ import annotations

import pytest

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.lab.devcluster import DevCluster


@pytest.fixture
def settings(target: DevCluster) -> ClusterSettings:
    """Cluster B as a configuration names it."""
    return ClusterSettings(alias="B", bootstrap_servers=(target.bootstrap,))
