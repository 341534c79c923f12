"""Spark inside the Ray cluster that this process is connected to, for as long as a command needs it.

Its executors are Ray actors. What they may take is reserved beforehand, so that a command that finds no room says so
instead of waiting for ever, and so that flows keep what they have.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from typing import Any, Final

import ray
import raydp
from pyspark.sql import SparkSession
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, remove_placement_group
from raydp.utils import parse_memory_size

from mirror_ray.config.settings import SparkSettings
from mirror_ray.jars.maven import SPARK, ensure_jars, java_command
from mirror_ray.model.errors import MirrorError
from mirror_ray.spark.lock import reserve

#: Such jobs last seconds to minutes: what Java's optimising compiler would cost is not won back by the JVMs that plan.
_PLANNING_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_MASTER_MEMORY: Final = "-Xmx256m"
_LOG_CONFIG: Final = "log4j2.properties"


@contextmanager
def spark_session(work: str, settings: SparkSettings, tell: Callable[[str], None]) -> Iterator[SparkSession]:
    """A Spark session whose executors run in the Ray that this process is connected to; it ends with the context.

    One at a time in a Ray. The connector's jars are fetched by Maven on first need.

    Args:
        work: The command and what it works on; Spark and Ray call it so, and whoever waits for it.
        settings: Executors, cores and memory.
        tell: Says for whom is waited where another command of this Ray has Spark.

    Raises:
        MirrorError: Another command has Spark for minutes, or Ray has no room for the executors within
            ``start_timeout_s``, or Spark did not start; says what to do.
    """
    jars = ",".join(str(jar) for jar in sorted(ensure_jars(SPARK).glob("*.jar")))
    java_command()
    room = _reserve(work, settings, tell)
    try:
        with resources.as_file(resources.files("mirror_ray.spark") / _LOG_CONFIG) as log_config:
            spark = _start(work, settings, room, _configs(settings, jars, str(log_config)))
        try:
            yield spark
        finally:
            _stop()
    finally:
        with suppress(RayError):
            remove_placement_group(room)


def _reserve(work: str, settings: SparkSettings, tell: Callable[[str], None]) -> PlacementGroup:
    memory_bytes = int(parse_memory_size(settings.executor_memory))
    bundle = {"CPU": float(settings.executor_cores), "memory": float(memory_bytes)}
    room = reserve([bundle] * settings.executors, work, tell)
    await_room(room, settings)
    return room


def await_room(room: PlacementGroup, settings: SparkSettings) -> None:
    """Wait until Ray has placed the executors' room. Where Ray scales by itself, asking for it brings nodes up.

    Raises:
        MirrorError: It has none within ``start_timeout_s``, and is not asked for it any more.
    """
    if not room.wait(settings.start_timeout_s):
        remove_placement_group(room)
        free = ray.available_resources()  # type: ignore[no-untyped-call]
        raise MirrorError(
            f"Ray has no room for Spark: {settings.executors} executors of {settings.executor_cores} CPUs and"
            f" {settings.executor_memory} each were not to be had within {settings.start_timeout_s:g} s; free are"
            f" {free.get('CPU', 0):g} CPUs and {free.get('memory', 0) / (1 << 30):.1f} GiB in all nodes together:"
            " lower spark.executors, spark.executor.cores or spark.executor.memory, or add nodes to Ray"
        )


def _start(work: str, settings: SparkSettings, room: PlacementGroup, configs: dict[str, str]) -> SparkSession:
    # Executors run the same Python as this process.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        spark: SparkSession = raydp.init_spark(
            # Ray finds RayDP's master by this name.
            f"{work}-{uuid.uuid4().hex[:8]}",
            num_executors=settings.executors,
            executor_cores=settings.executor_cores,
            executor_memory=settings.executor_memory,
            # No data goes through Ray's object store.
            fault_tolerant_mode=False,
            placement_group=room,
            configs=configs,
        )
    except Exception as error:
        _stop()
        raise MirrorError(
            f"Spark did not start in Ray: {_first_line(error)}; its logs are in Ray's session directory"
            " (java-worker-*.log, worker-*.err)"
        ) from error
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _configs(settings: SparkSettings, jars: str, log_config: str) -> dict[str, str]:
    shuffle = str(max(4, 2 * settings.executors * settings.executor_cores))
    return {
        "spark.jars": jars,
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": _PLANNING_JVM,
        "spark.ray.raydp_app_master.extraJavaOptions": f"{_PLANNING_JVM} {_MASTER_MEMORY}",
        "spark.log4j.config.file.name": log_config,
        "spark.sql.shuffle.partitions": shuffle,
        "spark.sql.session.timeZone": "UTC",
        # With a page of its own Spark would open a port.
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # What may be written to logs of plans and options.
        "spark.redaction.regex": r"(?i)secret|password|token|jaas|keystore|access\.?key",
    }


def _stop() -> None:
    # A session that is half started may not know all that is to be stopped.
    with suppress(Exception):
        raydp.stop_spark()


def _first_line(error: Any) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
