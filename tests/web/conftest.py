"""A server over a system in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.web.fakes import Site, site


@pytest.fixture
async def there() -> AsyncIterator[Site]:
    """With one token, which may act."""
    async with site() as served:
        yield served
