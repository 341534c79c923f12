"""A flow between the two shared clusters."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.clusters import Clusters
from tests.support.replicated import Replicated


@pytest.fixture
async def flow(clusters: Clusters) -> AsyncIterator[Replicated]:
    """``A->B`` between the shared clusters."""
    async with Replicated(clusters.a, clusters.b) as replicated:
        yield replicated
