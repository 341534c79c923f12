"""Strimzi's resource, in both of its layouts, is the configuration that its properties would be."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from mirror_ray.config.loaded import LoadedConfig
from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import ClusterSettings
from mirror_ray.config.strimzi_security import SECRETS_DIRECTORY
from mirror_ray.lab.devcluster.certificates import CertificateAuthority
from tests.unit.config.conftest import Load, Problems

OF_CONNECT = {"replicas": 3, "version": "4.3.0", "jvmOptions": {}, "metricsConfig": {}, "template": {}, "rack": {}}
SOURCE_CONNECTOR = {"tasksMax": 4, "config": {"refresh.topics.interval.seconds": 60, "replication.factor": -1}}
CHECKPOINTS = {"config": {"sync.group.offsets.enabled": "false", "emit.checkpoints.interval.seconds": 7}}
PATTERNS = {"topicsPattern": "orders.*,payments", "topicsExcludePattern": "orders-test", "groupsPattern": "shop-.*"}
PROPERTIES = """
clusters = east, west
east.bootstrap.servers = e1:9092,e2:9092
west.bootstrap.servers = w:9092
west.producer.compression.type = zstd
emit.heartbeats.enabled = false
east->west.enabled = true
east->west.topics = orders.*,payments
east->west.topics.exclude = orders-test
east->west.groups = shop-.*
east->west.refresh.topics.interval.seconds = 60
east->west.replication.factor = -1
east->west.sync.group.offsets.enabled = false
east->west.emit.checkpoints.interval.seconds = 7
"""

Resource = Callable[..., str]


def v1(source: dict[str, Any] | None = None, **mirror: Any) -> dict[str, Any]:
    """As of ``kafka.strimzi.io/v1``; what is None is left out."""
    east = {"alias": "east", "bootstrapServers": "e1:9092,e2:9092", **(source or {})}
    target: dict[str, Any] = {"alias": "west", "bootstrapServers": "w:9092", "groupId": "g", "configStorageTopic": "c"}
    target["config"] = {"config.storage.replication.factor": -1, "producer.compression.type": "zstd"}
    fields: dict[str, Any] = {
        "source": east,
        "sourceConnector": SOURCE_CONNECTOR,
        "checkpointConnector": CHECKPOINTS,
        **PATTERNS,
    }
    fields |= mirror
    mirrors = [{name: value for name, value in fields.items() if value is not None}]
    return document({**OF_CONNECT, "target": target, "mirrors": mirrors}, "v1")


def v1beta2() -> dict[str, Any]:
    """As it was before."""
    listed = [
        {"alias": "east", "bootstrapServers": "e1:9092,e2:9092"},
        {"alias": "west", "bootstrapServers": "w:9092", "config": {"producer.compression.type": "zstd"}},
    ]
    ends = {"sourceCluster": "east", "targetCluster": "west"}
    connectors = {"sourceConnector": SOURCE_CONNECTOR, "checkpointConnector": CHECKPOINTS}
    spec = {"connectCluster": "west", "clusters": listed, "mirrors": [{**ends, **connectors, **PATTERNS}]}
    return document({**OF_CONNECT, **spec}, "v1beta2")


def document(spec: dict[str, Any], version: str) -> dict[str, Any]:
    """A resource."""
    return {"apiVersion": f"kafka.strimzi.io/{version}", "kind": "KafkaMirrorMaker2", "metadata": {}, "spec": spec}


def loaded(load: Load, resource: dict[str, Any], **environ: str) -> LoadedConfig:
    """From a file without a suffix that says what it is."""
    return load(yaml.safe_dump(resource), "", "", **environ)


@pytest.mark.parametrize("resource", [v1(), v1beta2()], ids=["v1", "v1beta2"])
def test_both_layouts_are_what_their_properties_are(load: Load, resource: dict[str, Any]) -> None:
    """What is about Kafka Connect's pods is noted by its place in the resource."""
    found = loaded(load, resource)
    assert found.settings == load(PROPERTIES, "").settings
    ignored = {note.key: note.text for note in found.notes if note.kind == "ignored"}
    assert {f"spec.{name}" for name in OF_CONNECT} < ignored.keys()
    assert "scale N" in ignored["spec.replicas"]
    assert "scale N" in ignored["spec.mirrors[0].sourceConnector.tasksMax"]
    assert "consumer.client.rack" in ignored["spec.rack"]


def test_a_connector_that_does_not_run_is_off(load: Load) -> None:
    """Of one that is not there, too; nothing beats without a heartbeat connector."""
    settings = loaded(load, v1(checkpointConnector=None)).settings
    assert [(str(flow.name), flow.enabled) for flow in settings.flows] == [("east->west", True)]
    (flow,) = settings.flows
    assert (flow.groups.sync_offsets_enabled, flow.groups.emit_checkpoints_enabled) == (False, False)
    assert not flow.heartbeats.emit_enabled
    beating = loaded(load, v1(heartbeatConnector={"config": {"emit.heartbeats.interval.seconds": 5}})).settings.flows[0]
    assert (beating.heartbeats.emit_enabled, beating.heartbeats.emit_interval_s) == (True, 5)
    for state in ({"state": "paused"}, {"state": "stopped"}, {"pause": True}):
        found = loaded(load, v1(sourceConnector=state, heartbeatConnector={}))
        assert [flow.enabled for flow in found.settings.flows] == [False]
        assert any(note.kind == "off" and note.key.endswith("sourceConnector") for note in found.notes)


def test_what_the_other_layout_has_says_nothing(load: Load) -> None:
    """As in resources that were converted."""
    resource = v1(sourceCluster="north", targetCluster="south")
    resource["spec"] |= {"clusters": [], "connectCluster": "south"}
    found = loaded(load, resource)
    assert found.settings == loaded(load, v1()).settings
    others = {"spec.clusters", "spec.connectCluster", "spec.mirrors[0].sourceCluster", "spec.mirrors[0].targetCluster"}
    assert others < {note.key for note in found.notes if note.kind == "ignored"}


def test_annotations_stand_for_keys_at_the_top(load: Load) -> None:
    """Of the system, which the resource has no place for."""
    resource = v1()
    resource["metadata"] = {"annotations": {"mirror-ray/gateway.port": "8484", "strimzi.io/restart": "true"}}
    assert loaded(load, resource).settings.gateway.port == 8484


@pytest.fixture
def secrets(tmp_path: Path) -> dict[str, str]:
    """The environment of a pod with Secrets in their directories."""
    authority = CertificateAuthority(tmp_path / "authority")
    ca, (chain, key) = authority.certificate_path.read_text(), authority_pair(authority)
    files = {
        "east-ca/ca.crt": ca,
        "east-ca/ca.password": "no certificate",
        "old-ca/ca.crt": ca,
        "user/password": "tiger",
        "user/user.crt": chain,
        "user/user.key": key,
    }
    for name, text in files.items():
        path = tmp_path / "secrets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {SECRETS_DIRECTORY: str(tmp_path / "secrets")}


def authority_pair(authority: CertificateAuthority) -> tuple[str, str]:
    """A client's certificate and its private key."""
    text = authority.keystore("alice", "PEM").read_text()
    begin = text.index("-----BEGIN CERTIFICATE")
    key = text.index("-----BEGIN PRIVATE") if "-----BEGIN PRIVATE" in text else text.index("-----BEGIN EC")
    return (text[begin:key], text[key:]) if begin < key else (text[begin:], text[key:begin])


def revealed(secret: Secret | None) -> str | None:
    """What a secret is, in a process that has no variables but these."""
    return secret.reveal({"WHO": "me"}) if secret is not None else None


TRUSTED = {"trustedCertificates": [{"secretName": "east-ca", "pattern": "*.crt"}]}
USER = {"username": 'o"brien', "passwordSecret": {"secretName": "user", "password": "password"}}
OAUTH = {
    "type": "oauth",
    "clientId": "mirror",
    "clientSecret": {"secretName": "user", "key": "password"},
    "tokenEndpointUri": "https://id/token",
    "scope": "kafka",
    "maxTokenExpirySeconds": 300,
}
CUSTOM = {
    "type": "custom",
    "sasl": True,
    "config": {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": 'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" '
        'password="${strimzisecrets:kafka/user:password}";',
        "security.providers": "left out by the operator",
    },
}


def east(load: Load, secrets: dict[str, str], **source: Any) -> ClusterSettings:
    """The source's settings."""
    return loaded(load, v1(source), **secrets).settings.clusters["east"]


@pytest.mark.parametrize(
    ("authentication", "tls", "expected"),
    [
        (None, {}, ("SSL", None)),
        (None, TRUSTED, ("SSL", None)),
        ({"type": "plain", **USER}, None, ("SASL_PLAINTEXT", ("PLAIN", 'o"brien', "tiger"))),
        ({"type": "scram-sha-256", **USER}, None, ("SASL_PLAINTEXT", ("SCRAM-SHA-256", 'o"brien', "tiger"))),
        ({"type": "scram-sha-512", **USER}, TRUSTED, ("SASL_SSL", ("SCRAM-SHA-512", 'o"brien', "tiger"))),
        (CUSTOM, TRUSTED, ("SASL_SSL", ("SCRAM-SHA-512", "me", "tiger"))),
    ],
)
def test_logins(load: Load, secrets: dict[str, str], authentication: Any, tls: Any, expected: Any) -> None:
    """With the passwords of the Secrets that are mounted."""
    security = east(load, secrets, authentication=authentication, tls=tls).security
    sasl = security.sasl
    login = (sasl.mechanism, sasl.username, revealed(sasl.password)) if sasl is not None else None
    assert (security.protocol, login) == expected


def test_a_client_certificate_and_several_authorities(load: Load, secrets: dict[str, str]) -> None:
    """As PEM, from several Secrets; by a key's name, or a pattern."""
    pair = {"secretName": "user", "certificate": "user.crt", "key": "user.key"}
    trusted = [*TRUSTED["trustedCertificates"], {"secretName": "old-ca", "certificate": "ca.crt"}]
    cluster = east(
        load, secrets, tls={"trustedCertificates": trusted}, authentication={"type": "tls", "certificateAndKey": pair}
    )
    ssl = cluster.security.ssl
    assert cluster.security.protocol == "SSL"
    assert (ssl.truststore_certificates or "").count("BEGIN CERTIFICATE") == 2
    assert "BEGIN CERTIFICATE" in (ssl.keystore_certificate_chain or "")
    assert ssl.keystore_key is not None


def test_client_credentials(load: Load, secrets: dict[str, str]) -> None:
    """What Kafka's own login has no use for is noted."""
    found = loaded(load, v1({"authentication": OAUTH}), **secrets)
    sasl = found.settings.clusters["east"].security.sasl
    assert sasl is not None
    assert (sasl.mechanism, sasl.client_id, sasl.token_endpoint_url, sasl.scope) == (
        "OAUTHBEARER",
        "mirror",
        "https://id/token",
        "kafka",
    )
    assert "spec.mirrors[0].source.authentication.maxTokenExpirySeconds" in {note.key for note in found.notes}


def test_config_providers_of_a_cluster_are_the_systems(load: Load, secrets: dict[str, str]) -> None:
    """Those that ask Kubernetes read what is mounted."""
    resource = v1()
    kubernetes = "io.strimzi.kafka.KubernetesSecretConfigProvider"
    resource["spec"]["target"]["config"] |= {
        "config.providers": "secrets,env",
        "config.providers.secrets.class": kubernetes,
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    }
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="${env:WHO}" password='
    config = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{jaas}"${{secrets:kafka/user:password}}";'}
    authentication = {"type": "custom", "sasl": True, "config": config}
    resource["spec"]["mirrors"][0]["source"]["authentication"] = authentication
    before = v1beta2()
    # The cluster with the providers comes last.
    before["spec"]["clusters"][0]["authentication"] = authentication
    before["spec"]["clusters"][1]["config"] = resource["spec"]["target"]["config"]
    for each in (resource, before):
        sasl = loaded(load, each, WHO="me", **secrets).settings.clusters["east"].security.sasl
        assert sasl is not None
        assert (sasl.username, revealed(sasl.password)) == ("me", "tiger")


def in_mirror(name: str, value: Any) -> dict[str, Any]:
    """A resource with a field of its mirror."""
    return v1(**{name: value})


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (
            in_mirror("sourceConnector", {"config": {"refresh.topic.interval.seconds": 5}}),
            "spec.mirrors[0].sourceConnector.config.refresh.topic.interval.seconds: unknown key; did you mean",
        ),
        (in_mirror("topicPattern", "a"), "spec.mirrors[0].topicPattern: unknown field; did you mean topicsPattern?"),
        (in_mirror("topicsPattern", "a("), "spec.mirrors[0].topicsPattern: "),
        (in_mirror("sourceConnector", {"state": "idle"}), "sourceConnector.state: write running, paused or stopped"),
        (in_mirror("sourceConnector", []), "spec.mirrors[0].sourceConnector: not a mapping"),
        (
            in_mirror("checkpointConnector", {"config": {"refresh.topics.interval.seconds": 61}}),
            "sourceConnector.config.refresh.topics.interval.seconds has another value for it; write the same in both",
        ),
        (in_mirror("sourceConnector", {"config": {"topics": ["a"]}}), "config.topics: not a text"),
        (v1({"bootstrapServers": None}), "spec.mirrors[0].source.bootstrapServers: missing"),
        (v1({"bootstrapServers": "e"}), "spec.mirrors[0].source.bootstrapServers: "),
        (v1({"alias": None}), "spec.mirrors[0].source.alias: missing"),
        (v1({"authentication": {"type": "kerberos"}}), "authentication.type: write one of tls, plain"),
        (v1({"authentication": {"type": "plain"}}), "spec.mirrors[0].source.authentication.username: missing"),
        (
            v1({"authentication": {"type": "plain", "username": "me", "passwordSecret": {"secretName": "user"}}}),
            "authentication.passwordSecret: secretName and password name a Secret and its key",
        ),
        (
            v1({"authentication": {"type": "plain", "username": "me"}}),
            "spec.mirrors[0].source.authentication.passwordSecret: missing",
        ),
        (
            v1({"authentication": OAUTH | {"accessToken": {}}}),
            "spec.mirrors[0].source.authentication.accessToken: not offered; tokens come by",
        ),
        (
            v1({"tls": {"trustedCertificates": [{"secretName": "gone", "pattern": "*.crt"}]}}),
            "trustedCertificates[0]: no file in ",
        ),
        (
            v1({"tls": {"trustedCertificates": [{"secretName": "gone", "certificate": "ca.crt"}]}}),
            "spec.mirrors[0].source.tls.trustedCertificates: ",
        ),
        (document({"target": {}, "mirrors": []}, "v1"), "spec.mirrors: missing; each of its items is a flow"),
        (document({"clusters": [], "mirrors": [{}]}, "v1beta2"), "spec.mirrors[0]: sourceCluster and targetCluster"),
        (
            v1(
                {
                    "authentication": {
                        "type": "tls",
                        "certificateAndKey": {"secretName": "user", "certificate": "user.crt"},
                    }
                }
            ),
            "spec.mirrors[0].source.authentication.type: a client's certificate is shown over TLS",
        ),
        (
            document({"clusters": [], "mirrors": [{"source": {"alias": "east"}}]}, "v1beta2"),
            "spec.mirrors[0].source: unknown field",
        ),
        (document({"mirrors": [{}]}, "v1"), "spec.target: missing; write KEY: VALUE below it"),
        ({"kind": "KafkaMirrorMaker2", "apiVersion": "v1"}, "apiVersion: write kafka.strimzi.io/v1"),
    ],
)
def test_mistakes_name_their_place(
    problems: Problems, secrets: dict[str, str], resource: dict[str, Any], expected: str
) -> None:
    """In the resource, not in the properties that it stands for."""
    found = problems(yaml.safe_dump(resource), "", ".yaml", **secrets)
    assert any(expected in problem for problem in found), found


def test_the_example_of_the_docs(load: Load, secrets: dict[str, str]) -> None:
    """It has no mistakes."""
    docs = (Path(__file__).parents[3] / "docs/configuration.md").read_text(encoding="utf-8")
    example = re.search(r"<!-- example of a resource: loaded by a test -->\n```yaml\n(.*?)```", docs, re.DOTALL)
    assert example is not None
    password = Path(secrets[SECRETS_DIRECTORY], "east-user", "password")
    password.parent.mkdir()
    password.write_text("tiger", encoding="utf-8")
    (flow,) = load(example[1], "", ".yaml", **secrets).settings.flows
    assert (str(flow.name), flow.topics.include, flow.groups.sync_offsets_enabled) == (
        "east->west",
        ("orders.*|payments",),
        True,
    )
