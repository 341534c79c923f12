"""One Spark for all tests of this folder: its start takes longer than any of them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from mirror_ray.cli.app import app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(ray_session: None) -> Iterator[SparkSession]:
    """Spark in the Ray of the session, with one executor of one core; once it has ended, Ctrl-C is as it was."""
    from mirror_ray.config.settings import SparkSettings
    from mirror_ray.spark.session import spark_session

    before = signal.getsignal(signal.SIGINT)
    with spark_session("tests", SparkSettings(), print) as session:
        yield session
    assert signal.getsignal(signal.SIGINT) is before


@pytest.fixture
def command_here(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs a command in this process, without a system, on the Spark that is there; returns what it prints."""
    monkeypatch.setattr("mirror_ray.runtime.some_ray", lambda *_: nullcontext())
    monkeypatch.setattr("mirror_ray.spark.session.spark_session", lambda *_: nullcontext(spark))

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        return done.stdout

    return run
