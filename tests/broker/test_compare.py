"""Both sides of a flow's topics, read from real brokers, and the command that shows them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, AdminClient, NewPartitions  # type: ignore[attr-defined]
from typer.testing import CliRunner, Result

from mirror_ray.cli.app import app
from mirror_ray.lab.devcluster import DevListener
from mirror_ray.state.schema import state_topic
from tests.support.clusters import Clusters, TopicMaker
from tests.support.kafka import alter_topic, create_topic, delete_leftover, delete_records, produce, sample_messages
from tests.support.rights import grant

RETENTION = {"retention.ms": "123456", "min.insync.replicas": "1"}

Compare = Callable[..., Result]


@pytest.fixture
def compare(clusters: Clusters, tmp_path: Path) -> Compare:
    """``mirror-ray compare 'N->B' --config FILE`` of a flow that never began; lines are added to the configuration."""

    def run(topic: str, *options: str, lines: str = "") -> Result:
        config = tmp_path / "mm2.properties"
        config.write_text(
            f"clusters = N, B\nN.bootstrap.servers = {clusters.a.bootstrap}\nB.bootstrap.servers = "
            f"{clusters.b.bootstrap}\nN->B.enabled = true\nN->B.topics = {topic}\n"
            f"heartbeats.replication.enabled = false\n{lines}"
        )
        return CliRunner().invoke(app, ["compare", "N->B", "--config", str(config), "--name", "nobody", *options])

    return run


@pytest.fixture
def pair(clusters: Clusters, make_topic: TopicMaker) -> str:
    """A source topic of two partitions and its faithful remote topic, with some records on both."""
    topic = make_topic(clusters.a, partitions=2, topic_config=RETENTION)
    create_topic(clusters.b.confluent_config(), f"N.{topic}", 2, topic_config=RETENTION)
    messages = [message._replace(partition=0) for message in sample_messages(20)]
    for cluster, name in ((clusters.a, topic), (clusters.b, f"N.{topic}")):
        produce(cluster.confluent_config(), name, messages)
    return topic


def only_topic(result: Result) -> dict[str, Any]:
    """The one topic of a JSON answer about ``pair``."""
    (found,) = [topic for topic in json.loads(result.stdout)["topics"] if topic["topic"]]
    return dict(found)


def test_a_faithful_copy(clusters: Clusters, pair: str, compare: Compare) -> None:
    """Exit 0, with everything about both sides; what retention took on one side is shown and is no drift."""
    delete_records(clusters.b.confluent_config(), f"N.{pair}", 5)
    result = compare(pair, "-o", "json")
    assert result.exit_code == 0, result.output
    found = only_topic(result)
    assert (found["state"], found["drift"]) == ("equal", [])
    assert (found["source"]["offsets"], found["remote"]["offsets"]) == (20, 15)
    assert found["source"]["size_bytes"] > 1000
    assert (found["source"]["partitions"], found["source"]["replication_factor"]) == (2, 1)
    first, second = found["partitions"]
    assert (first["source"]["start"], first["source"]["end"], first["remote"]["start"]) == (0, 20, 5)
    assert (second["remote"]["end"], second["remote"]["size_bytes"]) == (0, 0)
    assert {config["key"]: config["verdict"] for config in found["configs"]} == {
        "min.insync.replicas": "same",
        "retention.ms": "same",
    }


def test_table_with_partitions(pair: str, compare: Compare) -> None:
    """People see one table for each topic, with offsets and sizes of each partition where they ask for them."""
    lines = compare(pair, "--partitions").stdout.splitlines()
    assert f"{pair} -> N.{pair}: equal, records not read" in lines
    assert any(line.split()[:3] == ["retention.ms", "123456", "123456"] for line in lines)
    assert any(line.split() == ["name", pair, f"N.{pair}", *["by", "the", "replication", "policy"]] for line in lines)
    assert any(line.split()[:3] == ["0", "0", "20"] for line in lines)
    assert compare(pair, pair, "--differences").stdout == (
        "topics: 1 equal\nrecords were not read: `mirror-ray verify` compares them\n"
        "ACLs are not compared: cluster N has no authorizer\n"
        "N->B has copied nothing yet: whose records its remote topics hold was not checked\n"
    )


def test_partitions_that_were_added_on_the_source(clusters: Clusters, pair: str, compare: Compare) -> None:
    """Exit 1; the surplus one has nothing on the other side."""
    admin = AdminClient(dict(clusters.a.confluent_config()))
    admin.create_partitions([NewPartitions(pair, 3)])[pair].result(30)
    result = compare(pair, "-o", "json")
    assert result.exit_code == 1
    found = only_topic(result)
    assert found["drift"] == ["3 partitions on the source, 2 on the target"]
    assert found["partitions"][2]["remote"] is None
    shown = compare(pair, "--differences").stdout
    assert "differs" in shown
    assert "retention.ms" not in shown


def test_config_that_was_changed(clusters: Clusters, pair: str, compare: Compare) -> None:
    """Drift, unless configs are not to be kept the same; an excluded one is marked as such."""
    alter_topic(clusters.a.confluent_config(), pair, {"retention.ms": "99999", "min.insync.replicas": "2"})
    result = compare(pair, "-o", "json")
    assert result.exit_code == 1
    found = only_topic(result)
    assert found["drift"] == ["retention.ms: 99999 on the source, 123456 on the target"]
    assert {config["key"]: config["verdict"] for config in found["configs"]} == {
        "min.insync.replicas": "excluded",
        "retention.ms": "differs",
    }
    assert "excluded by config.properties.exclude" in compare(pair).stdout
    loose = compare(pair, lines="sync.topic.configs.enabled = false\n")
    assert loose.exit_code == 0
    assert "sync.topic.configs.enabled is false" in loose.stdout
    assert compare(pair, lines="config.properties.exclude = retention\\\\.ms, min\\\\..*\n").exit_code == 0


def test_defaults_of_the_source(clusters: Clusters, pair: str, compare: Compare) -> None:
    """What is set on the remote topic alone is drift; where the source's defaults are carried, it is one of those."""
    alter_topic(clusters.b.confluent_config(), f"N.{pair}", {"segment.bytes": "2000000"})
    for lines in ("", "use.defaults.from = source\n"):
        result = compare(pair, "-o", "json", lines=lines)
        assert result.exit_code == 1
        assert only_topic(result)["drift"] == ["segment.bytes: 1073741824 on the source, 2000000 on the target"]


def test_remote_topic_that_is_gone_and_one_without_a_source(clusters: Clusters, pair: str, compare: Compare) -> None:
    """The one is drift, the other only told of."""
    admin = AdminClient(dict(clusters.b.confluent_config()))
    create_topic(clusters.b.confluent_config(), f"N.surplus-{pair}")
    admin.delete_topics([f"N.{pair}"])[f"N.{pair}"].result(30)
    result = compare(pair, "-o", "yaml")
    assert result.exit_code == 1
    assert f"N.{pair} is missing" in result.stdout
    extra = compare(pair, "--differences").stdout
    assert f"(not copied) -> N.surplus-{pair}: extra" in extra
    assert f"N.surplus-{pair}" not in compare(pair, pair).stdout


def test_what_is_asked_for_must_be_there(pair: str, compare: Compare) -> None:
    """A topic that the flow does not copy, and a flow that the configuration lacks."""
    missing = compare(pair, "other")
    assert missing.exit_code == 2
    assert "does not copy other" in missing.stderr


def test_missing_rights_are_said_in_their_cells(guarded: DevListener, tmp_path: Path) -> None:
    """Sizes, configs, and a remote topic that may not even be described: the rest is compared."""
    delete_leftover(guarded.confluent_config(), state_topic("A"))
    for name in ("open", "A.open", "half", "A.half", "hidden", "A.hidden"):
        create_topic(guarded.confluent_config(), name, 1)
        produce(guarded.confluent_config(), name, sample_messages(3))
    for name in ("open", "A.open", "half", "hidden"):
        grant(guarded, name, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    grant(guarded, "A.half", AclOperation.DESCRIBE)
    config = tmp_path / "mm2.properties"
    sasl = f'username="alice" password="{guarded.security.users["alice"]}"'
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    config.write_text(
        "clusters = A, B\nA->B.enabled = true\nA->B.topics = open, half, hidden\nsecurity.protocol = SASL_PLAINTEXT\n"
        "heartbeats.replication.enabled = false\n"
        f"sasl.mechanism = PLAIN\nsasl.jaas.config = {module} required {sasl};\n"
        + "".join(f"{alias}.bootstrap.servers = {guarded.bootstrap}\n" for alias in "AB")
    )
    options = ["compare", "A->B", "--config", str(config), "--name", "nobody"]
    result = CliRunner().invoke(app, [*options, "-o", "json"])
    assert result.exit_code == 0, result.output
    found = {topic["topic"]: topic for topic in json.loads(result.stdout)["topics"] if topic["topic"]}
    assert {name: topic["state"] for name, topic in found.items()} == {
        "open": "equal",
        "half": "unknown",
        "hidden": "unknown",
    }
    assert found["open"]["source"]["problems"] == {"size": "needs DESCRIBE on CLUSTER"}
    assert found["open"]["source"]["offsets"] == 3
    assert found["half"]["remote"]["problems"]["configs"] == "needs DESCRIBE_CONFIGS"
    assert found["hidden"]["remote"]["problems"] == {"topic": "needs DESCRIBE"}
    table = CliRunner().invoke(app, options).stdout
    assert "ACLs are not compared: " in table
    for cell in ("needs DESCRIBE on CLUSTER", "needs DESCRIBE_CONFIGS", "can't be compared"):
        assert cell in table
