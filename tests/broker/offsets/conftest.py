"""Fixtures of the tests of offsets."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest

from tests.support.clusters import Clusters
from tests.support.group_sync import internal_topics
from tests.support.replicated import Replicated


@pytest.fixture
async def flow(clusters: Clusters) -> AsyncIterator[Replicated]:
    """``A->B``, with the topics that tell of offsets."""
    internal_topics(clusters)
    async with Replicated(clusters.a, clusters.b) as replicated:
        yield replicated


@pytest.fixture
def prefix() -> str:
    """Of the groups of a test."""
    return f"edge-{uuid.uuid4().hex[:6]}"
