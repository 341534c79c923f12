"""Which simulation the options of `failover --simulate` ask for."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_ray.cli.failover_drill import chosen
from mirror_ray.lab.failover_drill.drill_report import DrillSettings, KillSettings
from mirror_ray.lab.failover_drill.there_and_back_report import ThereAndBackSettings
from mirror_ray.model.errors import ConfigError


def settings(**options: Any) -> object:
    """What these options choose."""
    none = {"planned": False, "kills": False, "identity": False, "rounds": None, "preserve_offsets": False}
    return chosen(3, 7, **{**none, **options})


def test_each_simulation_has_its_option() -> None:
    """And without one a failover is rehearsed."""
    assert settings(planned=True) == DrillSettings(groups=3, seed=7, planned=True)
    assert settings(kills=True) == KillSettings(groups=3, seed=7)
    assert settings(kills=True, identity=True) == KillSettings(groups=3, seed=7, identity=True)
    assert settings(rounds=2, preserve_offsets=True) == ThereAndBackSettings(
        rounds=2, groups=3, seed=7, planned=False, preserve_offsets=True
    )


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"kills": True, "rounds": 2}, "--kills and --there-and-back are two simulations"),
        ({"preserve_offsets": True}, "say --there-and-back ROUNDS, too"),
        ({"identity": True}, "say --kills, too"),
        ({"preserve_offsets": True, "kills": True}, "say --there-and-back ROUNDS, too"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], why: str) -> None:
    """They are refused, before anything is started."""
    with pytest.raises(ConfigError, match=why):
        settings(**options)
