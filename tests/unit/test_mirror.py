"""The handle on a running system, without Ray."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import ConfigError, MirrorError, NoAnswerError
from tests.support.factories import system_status
from tests.unit.cli.fakes import FLOW, PARTITION, FakeCoordinator


@pytest.fixture
def coordinator() -> FakeCoordinator:
    """What the handle talks to."""
    return FakeCoordinator()


@pytest.mark.parametrize("drained", [True, False])
def test_down_says_whether_all_was_drained(coordinator: FakeCoordinator, drained: bool) -> None:
    """Every actor has ended either way."""
    coordinator.drained = drained
    assert Mirror("mirror", coordinator).down(3.0) is drained
    assert coordinator.commands == [("down", 3.0)]
    assert coordinator.ended


def test_down_ends_a_coordinator_that_does_not_answer(coordinator: FakeCoordinator) -> None:
    """It was asked to end; that it hangs is no reason to leave it."""
    coordinator.errors["down"] = NoAnswerError("no answer")
    assert Mirror("mirror", coordinator).down(0.0) is False
    assert coordinator.ended


def test_down_that_is_refused_ends_nothing(coordinator: FakeCoordinator) -> None:
    """An error of the coordinator is the caller's to see."""
    coordinator.errors["down"] = ConfigError("not now")
    with pytest.raises(ConfigError):
        Mirror("mirror", coordinator).down()
    assert not coordinator.ended


def test_lag_begins_with_what_lags_most(coordinator: FakeCoordinator) -> None:
    """What is not known yet may lag most of all."""
    lags = (0, None, 7)
    coordinator.partitions = tuple(replace(PARTITION, partition=n, lag_records=lag) for n, lag in enumerate(lags))
    assert [each.lag_records for each in Mirror("mirror", coordinator).lag()] == [None, 7, 0]


def test_it_prints_a_line_for_each_thing(coordinator: FakeCoordinator) -> None:
    """In a Python shell; also when nothing answers."""
    coordinator.status = system_status(replace(FLOW, problems=("orders: refused",)))
    mirror = Mirror("mirror", coordinator)
    system, flow, problem, replicator = repr(mirror).splitlines()
    assert system.startswith("mirror-ray system 'mirror'")
    assert flow.startswith("  A->B  running")
    assert problem.strip() == "! orders: refused"
    assert replicator.strip() == repr(mirror.replicators)
    assert repr(mirror.partitions()).startswith("A->B  orders-0  copying  lag 0")
    assert repr(mirror.topics()).startswith("A->B  orders to A.orders  copying")
    assert repr(mirror.events()).endswith("A->B: found topic orders")
    coordinator.topics = ()
    assert repr(mirror.topics()) == "none"
    coordinator.errors["status"] = MirrorError("hangs")
    assert repr(mirror) == "<Mirror mirror: hangs>"
