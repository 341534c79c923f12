"""The classes that Ray sees: as much as can be said of them without Ray."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import mirror_ray.coordinator.service
import mirror_ray.groups.service
import mirror_ray.replication.service
import mirror_ray.topics.heartbeat_service
from actors import actor_classes

PAIRS = (
    (actor_classes.Coordinator, mirror_ray.coordinator.service.CoordinatorService),
    (actor_classes.Replicator, mirror_ray.replication.service.ReplicatorService),
    (actor_classes.Checkpoint, mirror_ray.groups.service.GroupSyncService),
    (actor_classes.Heartbeat, mirror_ray.topics.heartbeat_service.HeartbeatService),
)

HEAVY = ("pydantic", "kio", "confluent_kafka", "mirror_ray.coordinator.service", "mirror_ray.config.settings")


def methods(kind: type) -> dict[str, bool]:
    """Public methods, and whether they are asynchronous."""
    found = inspect.getmembers(kind, inspect.isfunction)
    return {name: inspect.iscoroutinefunction(method) for name, method in found if not name.startswith("_")}


@pytest.mark.parametrize(("seen", "real"), PAIRS)
def test_every_method_is_passed_on(seen: type, real: type) -> None:
    """No more and no fewer, and in the same way."""
    assert methods(seen) == methods(real)


def test_what_every_command_imports_is_light() -> None:
    """A command that finds the coordinator imports the module of its class."""
    script = f"import sys, actors.actor_classes; print([each for each in {HEAVY} if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
