"""Clusters that may be killed, one target of one broker and one of three, and writers that go on meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirror_ray.devcluster import QUICK_START, DevCluster


@pytest.fixture(scope="module")
def fragile() -> Iterator[DevCluster]:
    """A cluster of one broker, to be killed and started again.

    It looks for producers to forget, those of old records, five times a second instead of every ten minutes.
    """
    forgetful = {"producer.id.expiration.check.interval.ms": "200"}
    with DevCluster("fragile", server_properties=forgetful, jvm_options=QUICK_START) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def trio() -> Iterator[DevCluster]:
    """A cluster of three brokers."""
    with DevCluster("trio", 3, heap="320m", jvm_options=QUICK_START) as cluster:
        yield cluster
