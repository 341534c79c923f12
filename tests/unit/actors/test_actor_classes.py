"""The classes that Ray sees: as much as can be said of them without Ray."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import mirror_ray.groups.service
import mirror_ray.replication.service
import mirror_ray.topics.heartbeat_service
import mirror_ray.web.service
from actors import actor_classes, runtime, worker_classes
from mirror_ray import runtime as front
from mirror_ray.coordinator.service import CoordinatorService
from mirror_ray.mirror import VERBS, CoordinatorClient

PAIRS = (
    (worker_classes.Replicator, mirror_ray.replication.service.ReplicatorService),
    (worker_classes.Checkpoint, mirror_ray.groups.service.GroupSyncService),
    (worker_classes.Gateway, mirror_ray.web.service.GatewayService),
    (worker_classes.Heartbeat, mirror_ray.topics.heartbeat_service.HeartbeatService),
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


def test_queries_are_passed_on_and_commands_come_by_act() -> None:
    """A command that came in another way would be in no audit log."""
    queries = {name for name, verb in VERBS.items() if verb.kind is None}
    assert methods(actor_classes.Coordinator) == dict.fromkeys({*queries, "act"}, True)


@pytest.mark.parametrize("name", VERBS)
def test_the_coordinator_has_each_verb_as_it_is_declared(name: str) -> None:
    """Parameters in their order, with their defaults: so they are sent; ``operator`` is the audit log's to add."""
    real = inspect.signature(getattr(CoordinatorService, name)).parameters.values()
    taken = [
        (parameter.name, parameter.default, parameter.annotation) for parameter in real if parameter.name != "operator"
    ]
    declared = inspect.signature(getattr(CoordinatorClient, name)).parameters.values()
    assert taken == [(parameter.name, parameter.default, parameter.annotation) for parameter in declared]


@pytest.mark.parametrize("name", ["attach", "start", "some_ray", "loopback_ray", "ending_with_ray"])
def test_the_runtime_has_what_is_asked_of_it(name: str) -> None:
    """It is loaded by its name, so that no type checker sees it."""
    declared, real = (list(inspect.signature(getattr(module, name)).parameters) for module in (front, runtime))
    assert declared == real


def test_what_every_command_imports_is_light() -> None:
    """A command that finds the coordinator imports the module of its class."""
    script = f"import sys, actors.actor_classes; print([module for module in {HEAVY} if module in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
