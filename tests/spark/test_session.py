"""Spark in the Ray cluster: what it reads, how it gets into a cluster, and what it says when there is no room."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import ray
from pyspark.sql import SparkSession
from ray.util.placement_group import placement_group

from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import ClusterSettings, SaslSettings, SecuritySettings, SparkSettings, SslSettings
from mirror_ray.lab.devcluster import DevCluster, DevSecurity
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.spark.kafka import read_ranges
from mirror_ray.spark.session import await_resources
from mirror_ray.whoami import whoami
from tests.support.clusters import Clusters
from tests.support.command import PROGRAM, environment, mm2_file
from tests.support.kafka import Message, create_topic, produce, produce_transactions
from tests.support.reading import end_offsets

pytestmark = pytest.mark.timeout(300)


def settings_of(cluster: DevCluster, security: SecuritySettings | None = None) -> ClusterSettings:
    """Settings for a cluster."""
    return ClusterSettings(alias="A", bootstrap_servers=(cluster.bootstrap,), security=security or SecuritySettings())


def test_exactly_the_ranges_are_read(spark: SparkSession, clusters: Clusters, unique_topic: str) -> None:
    """Key and value with nothing left out, of committed transactions alone, between the offsets asked for."""
    config = clusters.a.confluent_config()
    create_topic(config, unique_topic, 2)
    produce(config, unique_topic, [Message(b"v%d" % n, b"k", partition=n % 2) for n in range(100)])
    transactions = [([Message(b"no", partition=1)], False), ([Message(b"yes", partition=1)], True)]
    produce_transactions(config, unique_topic, transactions, transactional_id=unique_topic)
    ends = end_offsets(config, unique_topic)
    ranges = {TopicPartition(unique_topic, 0): (10, 20), TopicPartition(unique_topic, 1): (45, ends[1])}
    rows = read_ranges(spark, settings_of(clusters.a), ranges, splits=4).orderBy("partition", "offset").collect()
    assert [(row["partition"], row["offset"]) for row in rows] == [
        *((0, offset) for offset in range(10, 20)),
        *((1, offset) for offset in range(45, 50)),
        (1, 52),
    ]
    assert bytes(rows[0]["value"]) == b"v20"
    assert bytes(rows[-1]["value"]) == b"yes"


def test_nothing_asked_for_is_nothing(spark: SparkSession, clusters: Clusters) -> None:
    """Empty ranges make an empty table with all columns."""
    table = read_ranges(spark, settings_of(clusters.a), {TopicPartition("any", 0): (7, 7)})
    assert table.count() == 0
    assert table.columns[:2] == ["key", "value"]


def test_security_is_carried_over(spark: SparkSession, unique_topic: str) -> None:
    """SASL_SSL with SCRAM, from stores that only this process reads; the password is in no plan."""
    with DevCluster("A", security=DevSecurity.scram_over_tls()) as cluster:
        config = cluster.confluent_config()
        create_topic(config, unique_topic)
        produce(config, unique_topic, [Message(b"secret")])
        given = cluster.client_properties(store_type="JKS")
        password = str(config["sasl.password"])
        security = SecuritySettings(
            protocol="SASL_SSL",
            ssl=SslSettings(
                truststore_location=given["ssl.truststore.location"],
                truststore_password=Secret(given["ssl.truststore.password"]),
            ),
            sasl=SaslSettings(mechanism="SCRAM-SHA-512", username="admin", password=Secret(password)),
        )
        table = read_ranges(spark, settings_of(cluster, security), {TopicPartition(unique_topic, 0): (0, 1)})
        assert [bytes(row["value"]) for row in table.collect()] == [b"secret"]
        assert password not in table._jdf.queryExecution().toString()


def test_a_command_waits_its_turn(spark: SparkSession, clusters: Clusters, tmp_path: Path) -> None:
    """While this process has Spark in a Ray, another command that wants it there says who has it."""
    config = mm2_file(tmp_path / "mm2.properties", clusters, "A->B.enabled = true")
    place = ("--config", config, "--address", ray.get_runtime_context().gcs_address)
    command = [PROGRAM, "verify", "A->B", "--spark", *place]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as verify:
        assert verify.stderr is not None
        said = ""
        for line in iter(verify.stderr.readline, ""):
            said += line
            if "waiting" in line:
                verify.terminate()
        assert f"waiting for Spark in this Ray: tests of {whoami()}, process {os.getpid()}, since" in said


def test_no_room_is_said(ray_session: None) -> None:
    """More than Ray has is refused after the time that is given, with the next step."""
    wanted = SparkSettings(executors=1, executor_cores=1000, start_timeout_s=1.0)
    room = placement_group([{"CPU": 1000.0}])
    with pytest.raises(MirrorError, match=r"no room for Spark.*lower spark\.executors"):
        await_resources(room, wanted)
