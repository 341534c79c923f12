"""Every change that a system makes to real clusters is in its audit log, and so is every act of its operators."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]
from typer.testing import CliRunner

from mirror_ray.cli.app import app
from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import AuditSettings, GroupSettings, MirrorSettings, TopicSettings
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.audit_topics import ensure_audit_log, read_audit
from mirror_ray.kafka.topic_editor import ClusterEditor
from mirror_ray.model.audit import AuditEntry, AuditQuery
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.internal_topics import audit_log_topic
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.model.topics import NewRemoteTopic
from tests.support.clusters import Clusters, TopicMaker, cluster_settings
from tests.support.factories import audit_logs
from tests.support.group_sync import commit_many
from tests.support.kafka import alter_topic, produce, sample_messages
from tests.support.local import LocalSystem, aside
from tests.support.systems import settings_of
from tests.support.waiting import wait_until_async

FLOW = FlowName("A", "B")


def _settings(clusters: Clusters, topic: str, group: str) -> MirrorSettings:
    settings = settings_of(
        {"A": clusters.a, "B": clusters.b},
        "A->B",
        topics=TopicSettings(include=(topic,), refresh_interval_s=0.5, sync_configs_interval_s=0.3),
        groups=GroupSettings(include=(group,), emit_checkpoints_interval_s=0.5),
    )
    both = {"A": cluster_settings("A", clusters.a), "B": cluster_settings("B", clusters.b)}
    return settings.model_copy(update={"clusters": both})


async def _kept(settings: MirrorSettings, since_ms: int, about: str) -> list[AuditEntry]:
    found = await read_audit(settings, AuditQuery(since_ms=since_ms, limit=10_000))
    return [entry for entry in found if about in f"{entry.subject} {entry.before} {entry.after}"]


async def test_every_change_and_every_act_is_kept(clusters: Clusters, make_topic: TopicMaker) -> None:
    """A topic created, extended and altered, a group committed for, records deleted; pause, resume and set by name."""
    topic = make_topic(clusters.a, 1)
    remote, group = f"A.{topic}", f"group-{topic}"
    settings, since_ms = _settings(clusters, topic, group), int(time.time() * 1000)
    produce(clusters.a.confluent_config(), topic, sample_messages(10))

    async def kept(kind: str, subject: str, holds: Callable[[AuditEntry], bool]) -> AuditEntry:
        found: list[AuditEntry] = []

        async def there() -> bool:
            found[:] = [
                entry
                for entry in await read_audit(settings, AuditQuery(since_ms=since_ms, limit=10_000))
                if entry.kind == kind and entry.subject == subject and holds(entry)
            ]
            return bool(found)

        await wait_until_async(there, 30.0, f"{kind} of {subject} is in the audit log")
        assert all(entry.outcome == "done" for entry in found)
        return found[-1]

    async with LocalSystem(settings, groups=True) as system:
        await system.caught_up(topic, 10)
        await kept("create_topic", f"topic {remote}", lambda entry: (entry.after or "").startswith("1 partitions"))
        await commit_many(clusters.a, {group: {TopicPartition(topic, 0): 7}})
        admin = AdminClient(dict(clusters.a.confluent_config()))
        await aside(lambda: admin.create_partitions([NewPartitions(topic, 3)])[topic].result(20))
        await aside(lambda: alter_topic(clusters.a.confluent_config(), topic, {"retention.ms": "86400000"}))
        grown = await kept("create_partitions", f"topic {remote}", lambda _: True)
        assert (grown.before, grown.after) == ("1 partitions", "3 partitions")
        altered = await kept("alter_config", f"topic {remote}", lambda _: True)
        assert (altered.before, altered.after) == ("retention.ms=(the broker's default)", "retention.ms=86400000")
        committed = await kept("commit_offsets", f"group {group}", lambda entry: entry.after == f"{remote}-0: 7")
        assert committed.before is None
        assert committed.cluster == "B"
        await commit_many(clusters.a, {group: {TopicPartition(topic, 0): 9}})
        moved = await kept("commit_offsets", f"group {group}", lambda entry: entry.after == f"{remote}-0: 9")
        assert moved.before == f"{remote}-0: 7"

        coordinator = system.coordinator
        await coordinator.act("ann@desk", "pause", ("A->B", topic, None))
        await coordinator.act("page 10.0.0.7", "resume", ("A->B", topic, None))
        await coordinator.act("ann@desk", "set", ("A->B", {"topics.refresh_interval_s": "0.7"}, False))
        await coordinator.act("ann@desk", "set", ("A->B", {"topics.refresh_interval_s": "5"}, True))
        with pytest.raises(MirrorError):
            await coordinator.act("eve@far", "pause", ("C->D", None, None))
        paused = await kept("pause", "flow A->B", lambda entry: topic in (entry.after or ""))
        assert (paused.operator, paused.before, paused.after) == ("ann@desk", "paused: nothing", f"paused: {topic}")
        resumed = await kept("resume", "flow A->B", lambda entry: topic in (entry.before or ""))
        assert resumed.operator == "page 10.0.0.7"
        changed = await kept("set", "flow A->B", lambda entry: "refresh" in (entry.after or ""))
        assert "0.5" in (changed.before or "")
        assert "0.7" in (changed.after or "")
        texts = [f"{event.subject} {event.text}" for event in await coordinator.events()]
        assert any("pause by ann@desk" in text for text in texts)
        assert any("pause by eve@far was refused" in text for text in texts)


async def test_deletions_and_refusals_are_kept_and_what_was_so_already_is_not(
    clusters: Clusters, unique_topic: str, tmp_path: Path
) -> None:
    """A refusal that comes again and again is told once. The command shows the same."""
    settings = _settings(clusters, unique_topic, "none")
    since_ms = int(time.time() * 1000)

    logs = audit_logs()

    def change() -> None:
        editor = ClusterEditor(settings.clusters["B"], "test-audit", logs.of(settings, FLOW))
        new = NewRemoteTopic(name=unique_topic, partitions=1, configs={"cleanup.policy": "delete"})
        assert editor.create_topics([new]) == {unique_topic: None}
        assert editor.create_topics([new]) == {unique_topic: None}
        produce(clusters.b.confluent_config(), unique_topic, sample_messages(5))
        editor.delete_records({TopicPartition(unique_topic, 0): 3})
        for _ in range(3):
            assert editor.create_partitions({f"{unique_topic}-none": 2})[f"{unique_topic}-none"] is not None
        editor.delete_topic(unique_topic)
        editor.delete_topic(unique_topic)
        editor.close()
        assert logs.flush(20.0)

    await aside(change)
    found = await _kept(settings, since_ms, unique_topic)
    assert [(entry.kind, entry.outcome, entry.before, entry.after) for entry in found] == [
        ("create_topic", "done", None, "1 partitions, cleanup.policy=delete"),
        ("delete_records", "done", "from 0", "from 3"),
        ("create_partitions", "refused", None, "2 partitions"),
        ("delete_topic", "done", "1 partitions", None),
    ]
    config = tmp_path / "mm2.properties"
    servers = f"A.bootstrap.servers = {clusters.a.bootstrap}\nB.bootstrap.servers = {clusters.b.bootstrap}\n"
    config.write_text(f"clusters = A, B\n{servers}A->B.enabled = true\n")
    asked = ["audit", "A->B", "--config", str(config), "--since", "1h", "--kind", "delete_topic", "-o", "json"]
    result = await aside(lambda: CliRunner().invoke(app, asked))
    shown = [entry for entry in json.loads(result.stdout) if unique_topic in entry["subject"]]
    assert [(entry["id"], entry["before"]) for entry in shown] == [(found[-1].id, "1 partitions")]


def test_the_log_is_kept_for_its_time_and_never_copied(clusters: Clusters) -> None:
    """It is deleted from by age, not compacted; and neither we nor MM2 would replicate it, whatever is included."""
    settings = _settings(clusters, ".*", "none")
    audit_log = audit_log_topic("A")
    ensure_audit_log(settings.clusters["B"], "A", settings.audit)
    configs = ClusterAdmin(settings.clusters["B"], "test-audit").describe_topic_configs([audit_log])[audit_log]
    assert configs["cleanup.policy"].value == "delete"
    assert configs["retention.ms"].value == str(AuditSettings().retention_ms)
    assert not replication_rules(settings.flows[0]).should_replicate_topic(audit_log)
    assert not replication_rules(settings.flows[0]).should_replicate_topic(audit_log_topic("B"))


def test_nothing_is_changed_that_cannot_be_kept_where_that_is_required(
    clusters: Clusters, unique_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster of the log is down: without ``required`` the change is made, and waits to be written."""
    from mirror_ray.kafka import audit_topics

    monkeypatch.setattr(audit_topics, "_DELIVERY_TIMEOUT_S", 1.0)
    nowhere = cluster_settings("B", clusters.b).model_copy(
        update={"bootstrap_servers": ("localhost:1",), "request_timeout_ms": 1000, "connection_setup_timeout_ms": 1000}
    )
    made = _settings(clusters, unique_topic, "none")
    broken = made.model_copy(update={"clusters": {**made.clusters, "B": nowhere}})
    target, new = cluster_settings("B", clusters.b), NewRemoteTopic(name=unique_topic, partitions=1)
    required = broken.model_copy(update={"audit": AuditSettings(required=True)})
    trails = audit_logs()
    editor = ClusterEditor(target, "test-audit", trails.of(required, FLOW))
    with pytest.raises(MirrorError, match=r"audit\.required"):
        editor.create_topics([new])
    assert unique_topic not in editor.list_topics()
    editor = ClusterEditor(target, "test-audit", trails.of(broken, FLOW))
    assert editor.create_topics([new]) == {unique_topic: None}
    assert not trails.flush(3.0)
    assert "the audit log can't be written" in trails.problems()["A->B"]
    editor.delete_topic(unique_topic)
