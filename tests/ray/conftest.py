"""One Ray for all tests of this tier, and systems that are taken down whatever happens."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator

import pytest
import ray

from mirror_ray.attach import attach
from mirror_ray.coordination.naming import NAMESPACE
from mirror_ray.model.errors import MirrorError


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """Ray on loopback, token authentication as Ray has it."""
    os.environ.setdefault("RAY_DISABLE_IMPORT_WARNING", "1")
    ray.init(num_cpus=4, include_dashboard=False, _node_ip_address="127.0.0.1", namespace=NAMESPACE)
    yield
    ray.shutdown()


@pytest.fixture
def system(ray_session: None) -> Iterator[str]:
    """A system's name of its own; what runs under it is taken down afterwards."""
    name = f"test-{uuid.uuid4().hex[:6]}"
    yield name
    with contextlib.suppress(MirrorError):
        attach(name).down(10.0)
