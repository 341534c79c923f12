"""Where actors are started, as Ray is told."""

from __future__ import annotations

import pytest

from actors import spawn


def test_the_gateway_asks_for_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its certificate and tokens are there alone; an affinity that is no more than a wish does not hold."""
    options: dict[str, object] = {}
    monkeypatch.setattr(spawn, "spawn_named", lambda _kind, _name, **given: options.update(given))
    spawn.spawn_gateway("mirror")
    assert options["resources"] == spawn.ON_THE_HEAD
    assert "scheduling_strategy" not in options
