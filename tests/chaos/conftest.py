"""A cluster of three brokers that may be killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirror_ray.lab.devcluster import QUICK_START, DevCluster


@pytest.fixture(scope="module")
def trio() -> Iterator[DevCluster]:
    """A cluster of three brokers."""
    with DevCluster("trio", 3, heap="320m", jvm_options=QUICK_START) as cluster:
        yield cluster
