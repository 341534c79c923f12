"""Clusters that may be killed, one target of one broker and one of three, and writers that go on meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirror_ray.devcluster import QUICK_START, DevCluster


@pytest.fixture(scope="module")
def fragile() -> Iterator[DevCluster]:
    """A cluster of one broker, to be killed and started again."""
    with DevCluster("fragile", jvm_options=QUICK_START) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def trio() -> Iterator[DevCluster]:
    """A cluster of three brokers."""
    with DevCluster("trio", 3, heap="320m", jvm_options=QUICK_START) as cluster:
        yield cluster
