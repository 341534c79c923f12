"""The classes that Ray sees: as much as can be said of them without Ray."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import actors.checkpoint
import actors.coordinator
import actors.heartbeat
import actors.replicator
from actors import on_ray

PAIRS = (
    (on_ray.Coordinator, actors.coordinator.Coordinator),
    (on_ray.Replicator, actors.replicator.Replicator),
    (on_ray.Checkpoint, actors.checkpoint.Checkpoint),
    (on_ray.Heartbeat, actors.heartbeat.Heartbeat),
)

HEAVY = ("pydantic", "kio", "confluent_kafka", "actors.coordinator", "mirror_ray.config.settings")


def methods(kind: type) -> dict[str, bool]:
    """Public methods, and whether they are asynchronous."""
    found = inspect.getmembers(kind, inspect.isfunction)
    return {name: inspect.iscoroutinefunction(method) for name, method in found if not name.startswith("_")}


@pytest.mark.parametrize(("seen", "real"), PAIRS)
def test_every_method_is_passed_on(seen: type, real: type) -> None:
    """No more and no fewer, and in the same way."""
    assert methods(seen) == methods(real)
    assert seen.__name__ == real.__name__


def test_what_every_command_imports_is_light() -> None:
    """A command that finds the coordinator imports the module of its class."""
    script = f"import sys, actors.on_ray; print([each for each in {HEAVY} if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
