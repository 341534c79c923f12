"""How far the machine goes: the profile "model" is part of every test run, "thorough" takes over 100,000 steps."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.model import steps

_COMMON = settings(
    deadline=None, stateful_step_count=100, suppress_health_check=list(HealthCheck), report_multiple_bugs=False
)
settings.register_profile("model", _COMMON, max_examples=400, derandomize=True)
settings.register_profile("thorough", _COMMON, max_examples=2000)


def machine_settings() -> settings:
    """By the environment variable ``MODEL_PROFILE``."""
    return settings.get_profile(os.environ.get("MODEL_PROFILE", "model"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many steps were taken."""
    if steps.told():
        terminalreporter.write_line(f"model: {steps.told()}")
