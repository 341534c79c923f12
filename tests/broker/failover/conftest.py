"""Plans that poll often, and producers that are noticed soon."""

from __future__ import annotations

import pytest

from mirror_ray.failover import copy_progress, steps


@pytest.fixture(autouse=True)
def polls_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicators of a busy machine publish within three seconds; here one is enough, and saves one for each look."""
    monkeypatch.setattr(copy_progress, "PUBLISHED_WITHIN_S", 1.2)
    for module in (copy_progress, steps):
        monkeypatch.setattr(module, "POLL_S", 0.05)
