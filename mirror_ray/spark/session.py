"""Spark inside the Ray cluster that this process is connected to, for as long as a command needs it.

Its executors are Ray actors. Their resources are reserved beforehand, so that a command fails if Ray has none, instead
of waiting for ever, and so that flows keep theirs.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
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
from mirror_ray.records.kernel import OFF_VARIABLE
from mirror_ray.spark.lock import reserve

#: Such jobs last seconds to minutes: Java's optimising compiler would cost the planning JVMs more than it saves.
_PLANNING_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_MASTER_MEMORY: Final = "-Xmx256m"
_NEVER_A_FILE: Final = "1g"
_LOG_CONFIG: Final = "log4j2.properties"


@contextmanager
def spark_session(work: str, settings: SparkSettings, report: Callable[[str], None]) -> Iterator[SparkSession]:
    """A Spark session whose executors run in the Ray that this process is connected to; it ends with the context.

    There is one at a time in a Ray. Maven fetches the connector's jars on first use. ``work`` is the command and its
    subject: the name in Spark and Ray, and for commands that wait. ``report`` gets a message about each command that is
    waited for.

    Raises:
        MirrorError: Another command has Spark for ten minutes, or Ray has no resources for the executors within
            ``start_timeout_s``, or Spark does not start; says what to do.
    """
    jars = ",".join(str(jar) for jar in sorted(ensure_jars(SPARK).glob("*.jar")))
    java_command()
    group = _reserve(work, settings, report)
    before = signal.getsignal(signal.SIGINT)
    try:
        with resources.as_file(resources.files("mirror_ray.spark") / _LOG_CONFIG) as log_config:
            spark = _start(work, settings, group, _configs(settings, jars, str(log_config)))
        try:
            yield spark
        finally:
            _stop()
    finally:
        _restore_sigint(before)
        with suppress(RayError):
            remove_placement_group(group)


def _restore_sigint(before: Any) -> None:
    # SparkContext's handler cancels its jobs, and fails once there is no context; Spark leaves it there.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)


def _reserve(work: str, settings: SparkSettings, report: Callable[[str], None]) -> PlacementGroup:
    memory_bytes = int(parse_memory_size(settings.executor_memory))
    bundle = {"CPU": float(settings.executor_cores), "memory": float(memory_bytes)}
    group = reserve([bundle] * settings.executors, work, report)
    await_resources(group, settings)
    return group


def await_resources(group: PlacementGroup, settings: SparkSettings) -> None:
    """Wait until Ray has reserved the executors' resources; where Ray scales by itself, it starts nodes for them.

    Raises:
        MirrorError: It has not within ``start_timeout_s``; the placement group is removed.
    """
    if not group.wait(settings.start_timeout_s):
        remove_placement_group(group)
        free = ray.available_resources()  # type: ignore[no-untyped-call]
        raise MirrorError(
            f"Ray has no room for Spark: {settings.executors} executors of {settings.executor_cores} CPUs and"
            f" {settings.executor_memory} each were not to be had within {settings.start_timeout_s:g} s; free are"
            f" {free.get('CPU', 0):g} CPUs and {free.get('memory', 0) / (1 << 30):.1f} GiB in all nodes together:"
            " lower spark.executors, spark.executor.cores or spark.executor.memory, or add nodes to Ray"
        )


def _start(work: str, settings: SparkSettings, group: PlacementGroup, configs: dict[str, str]) -> SparkSession:
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
            placement_group=group,
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
    configs = {
        "spark.jars": jars,
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": _PLANNING_JVM,
        "spark.ray.raydp_app_master.extraJavaOptions": f"{_PLANNING_JVM} {_MASTER_MEMORY}",
        "spark.log4j.config.file.name": log_config,
        "spark.sql.shuffle.partitions": shuffle,
        "spark.sql.session.timeZone": "UTC",
        # Spark's own UI would open a port.
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Of options that are written to logs of plans.
        "spark.redaction.regex": r"(?i)secret|password|token|jaas|keystore|access\.?key",
        # Python code above that size goes through files; that of a verification has secrets.
        "spark.broadcast.UDFCompressionThreshold": _NEVER_A_FILE,
    }
    if os.environ.get(OFF_VARIABLE):
        # Executors leave the record kernel aside as this process does.
        configs[f"spark.executorEnv.{OFF_VARIABLE}"] = os.environ[OFF_VARIABLE]
    return configs


def _stop() -> None:
    # A session that has not started completely may fail to stop.
    with suppress(Exception):
        raydp.stop_spark()


def _first_line(error: Any) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
