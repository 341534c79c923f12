"""How a Ray of our own is found by other shells, and ended."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from mirror_ray import own_ray
from mirror_ray.own_ray import OwnRay


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache directory of the test's own."""
    monkeypatch.setenv("MIRROR_RAY_CACHE", str(tmp_path))


def _own(created: float) -> OwnRay:
    processes = ((os.getpid(), created),)
    session = "/tmp/session"  # noqa: S108 - compared, not written to
    return OwnRay(name="east", address="127.0.0.1:5000", processes=processes, session_dir=session, detached=True)


def test_a_living_one_is_found_by_name_and_by_address() -> None:
    """Another shell needs no --address."""
    own = _own(psutil.Process().create_time())
    own_ray.remember(own)
    assert own_ray.find("east") == own
    assert own_ray.find("west") is None
    assert own_ray.is_own("127.0.0.1:5000")
    assert not own_ray.is_own("127.0.0.1:5001")


def test_a_process_id_that_came_again_is_somebody_else() -> None:
    """It is neither found nor ended, and what was left behind is removed."""
    own_ray.remember(_own(psutil.Process().create_time() - 1000))
    assert own_ray.find("east") is None
    assert not own_ray.is_own("127.0.0.1:5000")


def test_what_the_user_set_for_authentication_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Token mode is chosen where a token is there, and only where nothing was chosen."""
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    own_ray.prepare_environment(loopback=False)
    assert os.environ["RAY_AUTH_MODE"] == "disabled"
    monkeypatch.delenv("RAY_AUTH_MODE")
    own_ray.prepare_environment(loopback=False)
    assert os.environ["RAY_AUTH_MODE"] == "token"
    monkeypatch.delenv("RAY_AUTH_MODE")
