"""How far the machine goes: the profile "model" is part of every test run, "thorough" takes over 100,000 steps."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from mirror_ray.replication import partition_data
from mirror_ray.replication.partition_states import CopyState, StateEvent, Transition, transition
from tests.model import steps

_COMMON = settings(
    deadline=None, stateful_step_count=100, suppress_health_check=list(HealthCheck), report_multiple_bugs=False
)
settings.register_profile("model", _COMMON, max_examples=400, derandomize=True)
settings.register_profile("thorough", _COMMON, max_examples=2000)


def machine_settings() -> settings:
    """By the environment variable ``MODEL_PROFILE``."""
    return settings.get_profile(os.environ.get("MODEL_PROFILE", "model"))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give each model test time: it computes for half a minute, several times that where others compute, too."""
    item.add_marker(pytest.mark.timeout(900))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many steps were taken."""
    if steps.told():
        terminalreporter.write_line(f"model: {steps.told()}")


class _Unforeseen(logging.Handler):
    """Errors that the sender logs with their traces are faults of it, or of the world."""

    def emit(self, record: logging.LogRecord) -> None:
        """Let the sender's task end with the error, which ``Sending.step`` raises."""
        if record.exc_info and record.exc_info[1] is not None:
            raise record.exc_info[1]


@pytest.fixture(autouse=True, scope="module")
def rows_taken() -> Iterator[None]:
    """Note which rows of the partitions' transition table are taken; a pair outside it is an error anyway."""

    def noted(state: CopyState, event: StateEvent) -> Transition:
        steps.rows.add((state, event))
        return transition(state, event)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition_data, "transition", noted)
        yield


@pytest.fixture(autouse=True, scope="module")
def nothing_unforeseen() -> Iterator[None]:
    """As long as the model is driven."""
    log, handler = logging.getLogger("mirror_ray.replication.supervision"), _Unforeseen()
    level = log.level
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    yield
    log.removeHandler(handler)
    log.setLevel(level)
