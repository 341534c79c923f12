"""One Spark for all tests of this folder: its start takes longer than any of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(ray_session: None) -> Iterator[SparkSession]:
    """Spark in the Ray of the session, with one executor of one core."""
    from mirror_ray.config.settings import SparkSettings
    from mirror_ray.spark.session import spark_session

    with spark_session("tests", SparkSettings(), print) as session:
        yield session
