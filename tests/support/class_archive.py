"""Kafka's classes as Java keeps them for the next process (class data sharing): brokers start at half the cost."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from pathlib import Path

from mirror_ray.jars.maven import KAFKA, cache_dir, java_command
from mirror_ray.lab.devcluster import QUICK_START, DevCluster
from tests.support.kafka import create_topic, produce, sample_messages
from tests.support.reading import read_all


def share_classes() -> None:
    """Give every Java process that is started from now on the archive, which is made where there is none.

    A process whose classes are others, or whose Java is, starts as ever.
    """
    if "-XX:SharedArchiveFile=" in os.environ["JDK_JAVA_OPTIONS"]:
        return
    version = subprocess.run([java_command(), "-version"], capture_output=True, check=True).stderr
    archive = cache_dir() / f"{KAFKA}-{hashlib.sha256(version).hexdigest()[:8]}.jsa"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _make(archive)
    # Java would say of each process whose classes are others that it does without.
    os.environ["JDK_JAVA_OPTIONS"] += f" -XX:SharedArchiveFile={archive} -Xlog:disable"


def quick_mm2() -> dict[str, str]:
    """What to set in the environment where MM2 is started and not measured.

    It starts as by Kafka's own scripts, whatever ``JDK_JAVA_OPTIONS`` says, and has a garbage collector of its own.
    """
    share_classes()
    options = os.environ["JDK_JAVA_OPTIONS"].split()
    return {"JAVA_TOOL_OPTIONS": " ".join(option for option in options if option != "-XX:+UseSerialGC")}


def _make(archive: Path) -> None:
    scratch = archive.with_suffix(".new")
    options = (*QUICK_START, f"-XX:ArchiveClassesAtExit={scratch}")
    with DevCluster("classes", jvm_options=options) as cluster:
        produce(cluster.confluent_config(), create_topic(cluster.confluent_config(), "t"), sample_messages(10))
        read_all(cluster.confluent_config(), "t")
        cluster.brokers[0].stop(timeout_s=60.0)
    scratch.rename(archive)
