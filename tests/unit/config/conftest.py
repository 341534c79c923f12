"""Shared by the tests of the configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mirror_ray.config.load import load_settings
from mirror_ray.config.loaded import LoadedConfig
from mirror_ray.config.mm2 import load_mm2
from mirror_ray.config.native import load_native
from mirror_ray.model.errors import ConfigError

BASE = """
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""

NATIVE = "version: 1\nclusters:\n  A: {bootstrap_servers: 'a:9092'}\n  B: {bootstrap_servers: 'b:9092'}\n"

Load = Callable[..., LoadedConfig]
Problems = Callable[..., list[str]]


def mistakes(text: str) -> tuple[str, ...]:
    """What is wrong with the text of a file in either form; nothing where it is valid."""
    try:
        (load_native if "version: 1" in text else load_mm2)(text, {})
    except ConfigError as error:
        return error.problems
    return ()


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a file's text, for ``mm2.properties`` after two clusters and a flow."""

    def call(text: str, base: str = BASE, suffix: str = ".properties", **environ: str) -> LoadedConfig:
        path = tmp_path / f"config{suffix}"
        path.write_text(base + text)
        return load_settings(path, environ)

    return call


@pytest.fixture
def problems(load: Load, tmp_path: Path) -> Problems:
    """What is wrong with a file's text, without the path before each sentence."""

    def call(text: str, base: str = BASE, suffix: str = ".properties", **environ: str) -> list[str]:
        with pytest.raises(ConfigError) as error:
            load(text, base, suffix, **environ)
        prefix = f"{tmp_path / f'config{suffix}'}: "
        assert all(problem.startswith(prefix) for problem in error.value.problems)
        return [problem.removeprefix(prefix) for problem in error.value.problems]

    return call
