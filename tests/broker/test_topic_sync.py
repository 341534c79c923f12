"""Configs and partitions of remote topics follow their sources, on real brokers; also by upstream's tests."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, ResourceType  # type: ignore[attr-defined]
from typer.testing import CliRunner

from mirror_ray.cli.app import app
from mirror_ray.config.settings import MirrorSettings, TopicSettings
from mirror_ray.model.internal_topics import audit_log_topic
from tests.support.clusters import Clusters, KafkaCluster, KafkaClusters, TopicMaker, cluster_settings
from tests.support.kafka import alter_topic, create_topic, exists, produce, sample_messages
from tests.support.local import LocalSystem, aside
from tests.support.reading import read_all
from tests.support.systems import settings_of

_INTERVAL_S = 0.3


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the requests that change configs or ACLs."""
    counted: Counter[str] = Counter()

    def counting(name: str, do: Callable[..., Any]) -> Callable[..., Any]:
        def count(*args: Any, **kwargs: Any) -> Any:
            counted[name] += 1
            return do(*args, **kwargs)

        return count

    for name in ("incremental_alter_configs", "alter_configs", "create_acls", "delete_acls"):
        monkeypatch.setattr(AdminClient, name, counting(name, getattr(AdminClient, name)))
    return counted


def sync_settings(clusters: Clusters | KafkaClusters, topic: str, **topics: Any) -> MirrorSettings:
    """A flow of one topic whose configs and ACLs are compared every 0.3 s."""
    chosen = TopicSettings(
        include=(topic,),
        refresh_interval_s=0.5,
        sync_configs_interval_s=_INTERVAL_S,
        sync_acls_interval_s=_INTERVAL_S,
        **topics,
    )
    settings = settings_of({"A": clusters.a, "B": clusters.b}, "A->B", topics=chosen)
    both = {"A": cluster_settings("A", clusters.a), "B": cluster_settings("B", clusters.b)}
    return settings.model_copy(update={"clusters": both})


def _configs(cluster: KafkaCluster, topic: str) -> dict[str, str]:
    """What is set on the topic itself."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient(dict(cluster.confluent_config()))
    found = admin.describe_configs([resource])[resource].result(20)
    return {key: entry.value for key, entry in found.items() if entry.source == 1}


async def _becomes(system: LocalSystem, cluster: KafkaCluster, topic: str, configs: dict[str, str]) -> None:
    found: dict[str, str] = {}

    async def done() -> bool:
        found.clear()
        found.update(await aside(lambda: _configs(cluster, topic)))
        return found == configs

    try:
        await system.wait(done, f"configs of {topic} are {configs}")
    except AssertionError as error:
        raise AssertionError(f"{error}; they are {found}") from None


def _audited(cluster: KafkaCluster, subject: str) -> list[tuple[str | None, str | None]]:
    """From what to what its configs were altered."""
    config = cluster.confluent_config()
    log = audit_log_topic("A")
    records = read_all(config, log)[0] if exists(config, log) else []
    found = [json.loads(record.value or b"") for record in records]
    altered = [entry for entry in found if entry["subject"] == subject and entry["kind"] == "alter_config"]
    return [(entry["before"], entry["after"]) for entry in altered]


async def some_rounds(counted: Counter[str]) -> Counter[str]:
    """What changes were asked for in the time of some rounds in which nothing differs."""
    before = counted.copy()
    await asyncio.sleep(5 * _INTERVAL_S)
    return counted - before


async def test_sync_topic_configs(clusters: Clusters, make_topic: TopicMaker, changes: Counter[str]) -> None:
    """What the target overrides is put back, what is excluded stays; a second round sends no request.

    Upstream: testSyncTopicConfigs, testReplicateTargetDefault.
    """
    own = {"delete.retention.ms": "1000", "retention.bytes": "1000"}
    topic = make_topic(clusters.a, topic_config=own)
    remote, a, b = f"A.{topic}", clusters.a.confluent_config(), clusters.b.confluent_config()
    excluded = (r"delete\.retention\.ms", r"min\.insync\.replicas")
    async with LocalSystem(sync_settings(clusters, topic, config_properties_exclude=excluded)) as system:
        await system.caught_up(topic, 0)
        await _becomes(system, clusters.b, remote, {"retention.bytes": "1000"})
        await aside(lambda: alter_topic(b, remote, {"delete.retention.ms": "2000", "retention.bytes": "2000"}))
        await _becomes(system, clusters.b, remote, {"delete.retention.ms": "2000", "retention.bytes": "1000"})
        assert changes["incremental_alter_configs"] == 2
        assert not await some_rounds(changes)
        await aside(lambda: alter_topic(a, topic, {"retention.bytes": None, "segment.bytes": "2000000"}))
        await _becomes(system, clusters.b, remote, {"delete.retention.ms": "2000", "segment.bytes": "2000000"})

        async def audited() -> bool:
            return await aside(lambda: _audited(clusters.b, f"topic {remote}")) == [
                ("retention.bytes=2000", "retention.bytes=1000"),
                (
                    "retention.bytes=1000, segment.bytes=(the broker's default)",
                    "retention.bytes=(the broker's default), segment.bytes=2000000",
                ),
            ]

        await system.wait(audited, "the changes are in the audit log")


async def test_source_defaults_and_policies(clusters: Clusters, make_topic: TopicMaker) -> None:
    """``use.defaults.from = source`` sets them; a longer retention on the target may stay.

    Upstream: testReplicateSourceDefault.
    """
    topic = make_topic(clusters.a)
    remote = create_topic(
        clusters.b.confluent_config(), f"A.{topic}", 1, topic_config={"retention.bytes": "1", "retention.ms": "-1"}
    )
    settings = sync_settings(
        clusters,
        topic,
        config_properties_exclude=("(?!retention).*",),
        use_defaults_from="source",
        sync_configs_policy={"retention.ms": "floor"},
    )
    async with LocalSystem(settings) as system:
        await _becomes(system, clusters.b, remote, {"retention.bytes": "-1", "retention.ms": "-1"})


async def test_partitions_grow(clusters: Clusters, make_topic: TopicMaker) -> None:
    """From 10 to 11, with what is in the new one. Upstream: testCreatePartitionsUseProvidedForwardingAdmin."""
    topic = make_topic(clusters.a, partitions=10)
    admin = AdminClient(dict(clusters.a.confluent_config()))
    async with LocalSystem(sync_settings(clusters, topic)) as system:
        await system.caught_up(topic, 0)
        await aside(lambda: admin.create_partitions([NewPartitions(topic, 11)])[topic].result(20))
        await aside(lambda: produce(clusters.a.confluent_config(), topic, sample_messages(11, partitions=11)))

        async def copied() -> bool:
            held = await aside(lambda: read_all(clusters.b.confluent_config(), f"A.{topic}"))
            return len(held) == 11 and all(len(records) == 1 for records in held.values())

        await system.wait(copied, "a record in each of 11 partitions")


def test_drift_is_found_and_reconciled(clusters: Clusters, make_topic: TopicMaker, tmp_path: Path) -> None:
    """The command names each thing, changes nothing by itself, and brings back what it can."""
    topic = make_topic(clusters.a, partitions=3, topic_config={"retention.ms": "5000000"})
    late = make_topic(clusters.a, topic_config={"cleanup.policy": "compact"})
    b = clusters.b.confluent_config()
    create_topic(b, f"A.{topic}", 2, topic_config={"retention.ms": "7000000"})
    extra = create_topic(b, f"A.{topic}-old", 1)
    path = tmp_path / "mm2.properties"
    path.write_text(
        f"clusters = A, B\nA.bootstrap.servers = {clusters.a.bootstrap}\nB.bootstrap.servers = {clusters.b.bootstrap}\n"
        f"A->B.enabled = true\nA->B.topics = {topic}, {late}\nheartbeats.replication.enabled = false\n"
    )

    def drift(*options: str) -> tuple[int, set[tuple[str, str, str]]]:
        asked = ["drift", "A->B", topic, late, "--config", str(path), "--name", "nobody", "-o", "json", *options]
        result = CliRunner().invoke(app, asked)
        found = json.loads(result.stdout)["findings"]
        return result.exit_code, {(entry["kind"], entry["remote_topic"], entry["what"]) for entry in found}

    everything = {
        ("partitions", f"A.{topic}", "partitions"),
        ("config", f"A.{topic}", "retention.ms"),
        ("missing", f"A.{late}", "topic"),
    }
    assert drift("--reconcile", "--dry-run") == (1, everything)
    assert drift("--ignore", "config") == (1, {finding for finding in everything if finding[0] != "config"})
    assert drift("--reconcile", "--yes") == (0, set())
    assert _configs(clusters.b, f"A.{topic}") == {"retention.ms": "5000000"}
    assert _configs(clusters.b, f"A.{late}") == {"cleanup.policy": "compact"}
    whole = CliRunner().invoke(app, ["drift", "A->B", "--config", str(path), "--name", "nobody"])
    assert whole.exit_code == 1
    assert ["extra", extra] in [line.split()[:2] for line in whole.stdout.splitlines()]
