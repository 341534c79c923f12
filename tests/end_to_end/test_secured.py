"""Flows between protected clusters by ``mm2.properties`` files as MM2 users have them; secrets stay secret."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from mirror_ray import own_ray
from mirror_ray.lab.devcluster import QUICK_START, DevCluster, DevSecurity
from mirror_ray.lab.devcluster.certificates import STORE_PASSWORD, StoreType
from mirror_ray.lab.devcluster.clusters import start_all
from tests.support.clusters import Clusters
from tests.support.command import answer, mirror_ray, wait_for
from tests.support.kafka import create_topic, produce, sample_messages
from tests.support.reading import assert_equal_copies

#: On a machine that is busy otherwise.
pytestmark = pytest.mark.timeout(600)

#: Words that occur nowhere else.
PASSWORDS = {"broker": "broker-secret", "admin": "admin-4Xq7Tz", "alice": "alice-9Kw2Rv", "robin": "robin-2Gt6Yp"}
#: What robin's becomes.
NEW_PASSWORD = "robin-8Md5Jc"
#: Sessions end after so long (KIP-368).
SESSION_MS = 3000


@pytest.fixture(scope="module")
def protected() -> Iterator[Clusters]:
    """Clusters A and B with SASL_SSL and SCRAM-SHA-512, where alice may do what ACLs let her."""
    security = DevSecurity(
        protocol="SASL_SSL", mechanism="SCRAM-SHA-512", users=PASSWORDS, authorizer=True, super_users=("admin", "robin")
    )
    sessions = {"connections.max.reauth.ms": str(SESSION_MS)}
    options: dict[str, Any] = {"security": security, "server_properties": sessions, "jvm_options": QUICK_START}
    pair = Clusters(*(DevCluster(name, **options) for name in "AB"))
    try:
        start_all(pair)
        yield pair
    finally:
        for cluster in pair:
            cluster.close()


@pytest.fixture
def mark() -> str:
    """What topic names begin with, and the system's name."""
    return f"secured{uuid.uuid4().hex[:8]}"


def write_passwords(directory: Path, user: str, password: str) -> None:
    """What the configuration refers to."""
    (directory / "passwords.properties").write_text(f"{user}={password}\nstore={STORE_PASSWORD}\n")


def mm2_file(directory: Path, clusters: Clusters, user: str, topics: str) -> str:
    """A flow A->B as ``user``: A's password from a file and its store JKS, B's from the environment and PKCS12."""
    write_passwords(directory, user, PASSWORDS[user])
    stores: tuple[StoreType, ...] = ("JKS", "PKCS12")
    references = (f"${{file:{directory}/passwords.properties:{user}}}", "${env:KAFKA_PASSWORD}")
    lines = ["clusters = A, B", "config.providers = file, env"]
    for kind, provider in (("File", "file"), ("EnvVar", "env")):
        lines.append(
            f"config.providers.{provider}.class = org.apache.kafka.common.config.provider.{kind}ConfigProvider"
        )
    for cluster, store, reference in zip(clusters, stores, references, strict=True):
        properties = {"bootstrap.servers": cluster.bootstrap, **cluster.client_properties(user, store)}
        properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace(PASSWORDS[user], reference)
        properties["ssl.truststore.password"] = f"${{file:{directory}/passwords.properties:store}}"
        lines += [f"{cluster.name}.{key} = {value}" for key, value in properties.items()]
    path = directory / "mm2.properties"
    path.write_text("\n".join([*lines, "A->B.enabled = true", f"A->B.topics = {topics}", ""]))
    return str(path)


def fill(cluster: DevCluster, topic: str) -> str:
    """A topic of three partitions with 300 records; returns its name."""
    config = cluster.confluent_config()
    create_topic(config, topic, 3)
    produce(config, topic, sample_messages(300, partitions=3), codec="zstd")
    return topic


def test_scram_over_tls_on_both_sides(protected: Clusters, mark: str, tmp_path: Path) -> None:
    """Everything is copied, and neither output, nor status, events or any of Ray's logs have a password in them.

    A password that is replaced meanwhile is used as sessions end: nothing is started again, lost or doubled.
    """
    topic = fill(protected.a, f"{mark}-orders")
    config = mm2_file(tmp_path, protected, "robin", f"{mark}-.*")
    env = {"KAFKA_PASSWORD": PASSWORDS["robin"]}
    told = [mirror_ray("validate", config, env=env), mirror_ray("plan", config, env=env)]
    told.append(mirror_ray("up", config, "--detach", "--name", mark, env=env))
    own = own_ray.find(mark)
    assert own is not None
    try:
        told.append(mirror_ray("up", config, "--until-caught-up", "--name", mark, env=env))
        before = _processes(mark)
        _set_password(protected.a, "robin", NEW_PASSWORD)
        write_passwords(tmp_path, "robin", NEW_PASSWORD)
        until_s = time.monotonic() + 2 * SESSION_MS / 1000
        while time.monotonic() < until_s:
            produce(protected.a.confluent_config(), topic, sample_messages(300, partitions=3))
            time.sleep(0.2)
        told.append(mirror_ray("up", config, "--until-caught-up", "--name", mark, env=env))
        assert _processes(mark) == before
        told += [mirror_ray(ask, "-o", "json", "--name", mark) for ask in ("status", "events")]
    finally:
        told.append(mirror_ray("down", "--name", mark))
    assert_equal_copies(protected.a.confluent_config(), protected.b.confluent_config(), topic, f"A.{topic}")
    secrets = [PASSWORDS["robin"], NEW_PASSWORD, STORE_PASSWORD]
    for done in told:
        assert not [secret for secret in secrets if secret in done.stdout + done.stderr], done.args
    logs = [path for path in Path(own.session_dir).rglob("*") if path.is_file()]
    assert any("Replicator" in path.read_text(errors="replace") for path in logs)
    for path in logs:
        content = path.read_bytes()
        assert not [secret for secret in secrets if secret.encode() in content], path


def test_a_wrong_password_names_cluster_and_mechanism(protected: Clusters, mark: str, tmp_path: Path) -> None:
    """Exit 3, before anything is started; the password itself is not shown."""
    config = mm2_file(tmp_path, protected, "admin", f"{mark}-.*")
    wrong = "wrong-6Hb1Lm"
    failed = mirror_ray("up", config, "--name", mark, env={"KAFKA_PASSWORD": wrong}, exit_code=3)
    assert "cluster B" in failed.stderr
    assert "cluster A" not in failed.stderr
    assert "SCRAM-SHA-512" in failed.stderr
    assert wrong not in failed.stderr
    assert own_ray.find(mark) is None


def test_a_missing_right_stops_one_topic(protected: Clusters, mark: str, tmp_path: Path) -> None:
    """Alice may not write one of the remote topics: that one says so, the other is copied; granted, it is too."""
    open_topic, closed = fill(protected.a, f"{mark}-open"), fill(protected.a, f"{mark}-closed")
    target = protected.b.confluent_config()
    for topic in (open_topic, closed):
        create_topic(target, f"A.{topic}", 3)
    _grant(protected.a, ResourceType.TOPIC, mark, "READ", "DESCRIBE_CONFIGS")
    operations = ("READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER", "ALTER_CONFIGS")
    for prefix in (f"A.{open_topic}", "mm2-ray", "heartbeats"):
        _grant(protected.b, ResourceType.TOPIC, prefix, *operations)
    _grant(protected.b, ResourceType.TOPIC, f"A.{closed}", "READ", "DESCRIBE", "DESCRIBE_CONFIGS")
    _grant(protected.b, ResourceType.TRANSACTIONAL_ID, "mirror-ray", "WRITE", "DESCRIBE")
    _grant(protected.b, ResourceType.BROKER, "kafka-cluster", "CREATE", "IDEMPOTENT_WRITE")
    config = mm2_file(tmp_path, protected, "alice", f"{mark}-.*")
    with Path(config).open("a") as file:
        file.write("gateway.enabled = false\n")
    env = {"KAFKA_PASSWORD": PASSWORDS["alice"]}
    mirror_ray("up", config, "--detach", "--name", mark, env=env)
    try:
        wait_for(mark, lambda: _copied(mark, open_topic), f"{open_topic} copied")
        row = wait_for(mark, lambda: _stopped(mark, closed), "the topic without rights stopped")
        assert "TOPIC_AUTHORIZATION_FAILED" in row["reason"]
        status = answer("status", "--name", mark, exit_code=1)
        assert status["flows"][0]["state"] == "degraded"
        assert any(closed in problem for problem in status["flows"][0]["problems"])
        _grant(protected.b, ResourceType.TOPIC, f"A.{closed}", "WRITE")
        wait_for(mark, lambda: _copied(mark, closed), f"{closed} copied")
    finally:
        mirror_ray("down", "--name", mark)
    for topic in (open_topic, closed):
        assert_equal_copies(protected.a.confluent_config(), target, topic, f"A.{topic}")


def _processes(name: str) -> list[int]:
    coordinator = answer("status", "--name", name)["coordinator_pid"]
    return [coordinator, *(each["pid"] for each in answer("replicators", "--name", name))]


def _set_password(cluster: DevCluster, user: str, password: str) -> None:
    admin = AdminClient(cluster.confluent_config())
    made = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(user, made, password.encode())
    for future in admin.alter_user_scram_credentials([change]).values():
        future.result(15)


def _copied(name: str, topic: str) -> bool:
    rows = answer("lag", "--name", name, "--topic", topic)
    return bool(rows) and all(row["lag_records"] == 0 and row["position"] == 100 for row in rows)


def _stopped(name: str, topic: str) -> dict[str, str]:
    rows = json.loads(mirror_ray("topics", "--name", name, "-o", "json").stdout)
    return next((row for row in rows if row["topic"] == topic and row["state"] == "stopped"), {})


def _grant(cluster: DevCluster, kind: ResourceType, prefix: str, *operations: str) -> None:
    """Let alice do these things to what begins with ``prefix``; to the cluster itself by its literal name."""
    pattern = ResourcePatternType.LITERAL if kind is ResourceType.BROKER else ResourcePatternType.PREFIXED
    bindings = [
        AclBinding(kind, prefix, pattern, "User:alice", "*", AclOperation[operation], AclPermissionType.ALLOW)
        for operation in operations
    ]
    admin = AdminClient(cluster.confluent_config())
    for future in admin.create_acls(bindings).values():
        future.result(30)
