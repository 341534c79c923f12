"""ACLs of remote topics follow their sources, on real brokers; also by upstream's tests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from typer.testing import CliRunner

from mirror_ray.cli.app import app
from mirror_ray.lab.devcluster import QUICK_START, DevCluster, DevListener
from mirror_ray.lab.devcluster.security import DevSecurity
from tests.broker.test_topic_sync import changes, some_rounds, sync_settings
from tests.support.clusters import Clusters, KafkaCluster, KafkaClusters, TopicMaker
from tests.support.kafka import produce, sample_messages
from tests.support.local import LocalSystem, aside
from tests.support.reading import read_all
from tests.support.rights import acl, create_acls, grant, revoke

__all__ = ["changes"]


@pytest.fixture(scope="module")
def guarded_target() -> Iterator[DevCluster]:
    """As ``guarded``, for the other side."""
    with DevCluster("B", security=DevSecurity.plain(authorizer=True), jvm_options=QUICK_START) as cluster:
        # Whoever reads has a group, though it commits nothing.
        create_acls(cluster, acl("*", AclOperation.READ, resource=ResourceType.GROUP))
        yield cluster


def _reads(cluster: KafkaCluster, topic: str) -> bool:
    """Whether alice may. Refused for another reason than her rights is an error."""
    try:
        read_all(cluster.confluent_config("alice"), topic)
    except KafkaException as refused:
        if refused.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise
        return False
    return True


async def _let_in(system: LocalSystem, cluster: KafkaCluster, topic: str, *, yes: bool) -> None:
    async def so() -> bool:
        return await aside(lambda: _reads(cluster, topic)) is yes

    await system.wait(so, f"alice {'reads' if yes else 'is kept out of'} {topic}")


def _asked(
    clusters: Clusters | KafkaClusters, path: Path, command: str, topic: str, *options: str
) -> tuple[int, dict[str, Any]]:
    """What a command says of a topic between two clusters with authorizers; ``options``: lines of its configuration."""
    lines = ["clusters = A, B", "A->B.enabled = true", f"A->B.topics = {topic}", *options]
    for alias, cluster in zip("AB", clusters, strict=True):
        own = {"bootstrap.servers": cluster.bootstrap} | cluster.client_properties("admin")
        lines += [f"{alias}.{key} = {value}" for key, value in own.items()]
    file = path / "mm2.properties"
    file.write_text("\n".join(lines))
    asked = [command, "A->B", topic, "--config", str(file), "--name", "nobody", "-o", "json"]
    result = CliRunner().invoke(app, asked)
    return result.exit_code, json.loads(result.stdout)


def _compared(clusters: Clusters | KafkaClusters, path: Path, topic: str, *options: str) -> tuple[int, dict[str, str]]:
    """Verdicts of ``compare`` on the topic's ACLs, by operation; ``drift`` must find as many."""
    exit_code, found = _asked(clusters, path, "compare", topic, *options)
    (shown,) = found["topics"]
    acls = {
        next(acl[key]["operation"] for key in ("expected", "remote", "source") if acl[key]): acl["verdict"]
        for acl in shown["acls"]
    }
    drifted, findings = _asked(clusters, path, "drift", topic, *options)
    counted = [finding for finding in findings["findings"] if finding["kind"] == "acl"]
    assert (exit_code, len(counted)) == (drifted, len([acl for acl in acls.values() if acl in ("missing", "stale")]))
    return exit_code, acls


async def test_acls_follow(
    guarded: DevListener, guarded_target: DevCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """Who may read the source may read the remote topic, and not write it; by a prefix and back again on request.

    What differs meanwhile ``compare`` shows, and counts as ``drift`` does.

    Upstream: testAclFiltering, testAclTransformation, testSyncTopicACLsUseProvidedForwardingAdmin.
    """
    clusters = KafkaClusters(guarded, guarded_target)
    topic = make_topic(guarded)
    remote = f"A.{topic}"
    await aside(lambda: produce(guarded.confluent_config(), topic, sample_messages(5)))
    grant(guarded, topic, AclOperation.ALL, AclOperation.DESCRIBE_CONFIGS)
    async with LocalSystem(sync_settings(clusters, topic)) as system:
        await system.caught_up(topic, 5)
        await _let_in(system, guarded_target, remote, yes=True)
        with pytest.raises(AssertionError, match="TOPIC_AUTHORIZATION_FAILED"):
            await aside(lambda: produce(guarded_target.confluent_config("alice"), remote, sample_messages(1)))
        same = {"READ": "same", "DESCRIBE_CONFIGS": "same"}
        assert await aside(lambda: _compared(clusters, tmp_path, topic)) == (0, same)
        revoke(guarded, acl(topic, AclOperation.ALL, AclBindingFilter))
        await some_rounds(Counter())
        await _let_in(system, guarded_target, remote, yes=True)
    revoke(guarded_target, acl(remote, AclOperation.DESCRIBE_CONFIGS, AclBindingFilter))
    drifted = {"READ": "kept", "DESCRIBE_CONFIGS": "missing"}
    assert await aside(lambda: _compared(clusters, tmp_path, topic)) == (1, drifted)
    revoking = "sync.topic.acls.revocations.enabled = true"
    assert await aside(lambda: _compared(clusters, tmp_path, topic, revoking)) == (1, drifted | {"READ": "stale"})
    create_acls(guarded, acl(topic[:-3], AclOperation.READ, pattern=ResourcePatternType.PREFIXED))
    wide = sync_settings(clusters, topic, sync_acls_patterns=True, sync_acls_revocations=True)
    async with LocalSystem(wide) as system:
        await system.wait(lambda: _gone(guarded_target, remote, "READ"), "the literal right is taken back")
        await _let_in(system, guarded_target, remote, yes=True)
        revoke(guarded, acl(topic[:-3], AclOperation.READ, AclBindingFilter, ResourcePatternType.PREFIXED))
        await _let_in(system, guarded_target, remote, yes=False)


async def test_denials_and_requests_are_counted(
    guarded: DevListener, guarded_target: DevCluster, make_topic: TopicMaker, changes: Counter[str]
) -> None:
    """A denial on the source keeps out on the target; once that stands, nothing more is asked for."""
    clusters = KafkaClusters(guarded, guarded_target)
    topic = make_topic(guarded)
    remote = f"A.{topic}"
    await aside(lambda: produce(guarded.confluent_config(), topic, sample_messages(5)))
    for name in (topic, "*"):
        grant(guarded, name, AclOperation.READ)
    grant(guarded_target, remote, AclOperation.READ)
    async with LocalSystem(sync_settings(clusters, topic)) as system:
        await system.caught_up(topic, 5)
        await _let_in(system, guarded_target, remote, yes=True)
        create_acls(guarded, acl(topic, AclOperation.READ, permission=AclPermissionType.DENY))
        await _let_in(system, guarded_target, remote, yes=False)
        assert not await some_rounds(changes)
    assert "*" not in {name for name, _ in _listed(guarded_target)}
    revoke(guarded, acl("*", AclOperation.READ, AclBindingFilter))


def _listed(cluster: KafkaCluster) -> set[tuple[str, str]]:
    """Names and operations of all ACLs of topics."""
    every: Any = None
    wanted = AclBindingFilter(
        ResourceType.TOPIC, every, ResourcePatternType.ANY, every, every, AclOperation.ANY, AclPermissionType.ANY
    )
    admin = AdminClient(dict(cluster.confluent_config()))
    found = admin.describe_acls(wanted).result(20)
    return {(entry.name, entry.operation.name) for entry in found}


async def _gone(cluster: KafkaCluster, topic: str, operation: str) -> bool:
    return (topic, operation) not in await aside(lambda: _listed(cluster))
