"""No file brings anything else than settings or sentences, soon, and no sentence tells a secret.

The profile "files" is part of every test run; ``make fuzz-config`` takes 10,000 of each.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from mirror_ray.config.load import load_settings
from mirror_ray.config.native import load_native
from mirror_ray.config.runtime_changes import with_changes
from mirror_ray.model.errors import ConfigError
from tests.unit.config import odd_files

_COMMON = settings(deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("files", _COMMON, max_examples=60)
settings.register_profile("many files", _COMMON, max_examples=10_000)
_PROFILE = settings.get_profile(os.environ.get("CONFIG_PROFILE", "files"))
#: Processor time; on an idle machine none of them takes a tenth of it.
_MOST_S = 2.0


def _problems(act: Callable[[], object]) -> tuple[str, ...]:
    """What is wrong, if anything; a refusal says it."""
    try:
        act()
    except ConfigError as error:
        return error.problems or ("nothing is said",)
    return ()


def _look_at(path: Path, text: str) -> None:
    """See that nothing comes of it but settings or sentences."""
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    begin = time.process_time()
    found = _problems(partial(load_settings, path, odd_files.ENVIRON))
    assert time.process_time() - begin < _MOST_S
    assert all(problem.startswith(str(path)) for problem in found), found
    assert odd_files.SECRET not in "".join(found)
    assert sum(map(len, found)) < 100_000


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the files are; hypothesis takes no fixture of a test's own."""
    return tmp_path_factory.mktemp("odd")


@_PROFILE
@given(text=odd_files.properties())
def test_properties(directory: Path, text: str) -> None:
    """MM2's form."""
    _look_at(directory / "mm2.properties", text)


@_PROFILE
@given(text=odd_files.native())
def test_native(directory: Path, text: str) -> None:
    """YAML."""
    _look_at(directory / "mirror.yaml", text)


@_PROFILE
@given(text=odd_files.native() | odd_files.properties())
def test_either(directory: Path, text: str) -> None:
    """A file that does not say which it is."""
    _look_at(directory / "mirror", text)


_RUNNING = load_native(
    "version: 1\nclusters: {A: {bootstrap_servers: 'a:1'}, B: {bootstrap_servers: 'b:1'}}\nflows: {A->B: {}}\n", {}
).settings


@_PROFILE
@given(flow=odd_files.flows, changes=odd_files.changes)
def test_changes(flow: str | None, changes: dict[str, str | None]) -> None:
    """Of a running system's settings."""
    begin = time.process_time()
    _problems(partial(with_changes, _RUNNING, flow, changes))
    assert time.process_time() - begin < _MOST_S
