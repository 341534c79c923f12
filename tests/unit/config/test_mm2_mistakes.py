"""Mistakes in ``mm2.properties``: each is told by its key, and all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror_ray.config.load import load_settings
from mirror_ray.model.errors import ConfigError
from tests.unit.config.conftest import Load, Problems

_IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("topcs = x", "topcs: unknown key; did you mean topics?"),
        ("A->B.topcs = x", "A->B.topcs: unknown key; did you mean A->B.topics?"),
        ("A.bootstrap.server = x", "A.bootstrap.server: unknown key; did you mean A.bootstrap.servers?"),
        ("A.consumer.isolation.levle = x", "unknown key; did you mean A.consumer.isolation.level?"),
        ("B.producer.compresion.type = x", "unknown key; did you mean B.producer.compression.type?"),
        ("A->B.producer.override.max.request.sise = 1", "did you mean A->B.producer.override.max.request.size?"),
        ("A.topics = x", "A.topics: topics is a key of flows, not of a cluster: write A->TARGET.topics"),
        ("A.isolation.level = x", "write A.consumer.isolation.level"),
        ("isolation.level = x", "write ALIAS.consumer.isolation.level"),
        ("A->C.topics = x", "A->C.topics: 'C' is not one of the clusters (A, B)"),
        ("X->Y.enabled = true", "'X' is not one of the clusters (A, B); 'Y' is not one"),
        ("A->A.enabled = true", "a flow from A to itself"),
        ("C.bootstrap.servers = c:1", "C.bootstrap.servers: 'C' is not one of the clusters (A, B)"),
        ("A->B.topics = (", "A->B.topics: '(' is not a regular expression"),
        ("groups.exclude = *", "groups.exclude: '*' is not a regular expression"),
        ("replication.factor = two", "replication.factor: 'two' is not a whole number"),
        ("A->B.enabled = yes", "A->B.enabled: 'yes' is not true or false"),
        ("refresh.topics.interval.seconds = 0", "refresh.topics.interval.seconds: 0 is no interval"),
        ("sync.topic.configs.policy = retention.ms", "sync.topic.configs.policy: 'retention.ms' is not name:value"),
        ("sync.topic.configs.policy = retention.ms:top", "should be 'source', 'target', 'floor' or 'ceiling'"),
        (
            "sync.topic.configs.policy = cleanup.policy:floor",
            "floor is for numbers, and cleanup.policy is none of those",
        ),
        ("refresh.groups.interval.seconds = -1", "refresh.groups.interval.seconds: -1 is not above 0"),
        ("A.consumer.isolation.level = dirty", "A.consumer.isolation.level: should be 'read_committed' or"),
        ("A.consumer.fetch.min.bytes = 0", "A.consumer.fetch.min.bytes: 0 is too small: at least 1"),
        ("offset-syncs.topic.location = here", "offset-syncs.topic.location: should be 'source' or 'target'"),
        ("A.security.protocol = TLS", "A.security.protocol: should be 'PLAINTEXT', 'SSL'"),
        ("A.metadata.max.age.ms = ${env:X}", "names the config provider 'env'; declared are: none"),
        ("transforms = route", "transforms: missing"),
        ("A->B.transforms.route.type = X", "A->B.transforms.route.type: 'route' is not listed in transforms"),
        (
            "transforms = a\ntransforms.a.type = org.apache.kafka.connect.transforms.MaskField$Value",
            "transforms.a.type: 'org.apache.kafka.connect.transforms.MaskField$Value' is not of the form",
        ),
        (
            "transforms = a\nA->B.transforms.a.type = mirror_ray.transforms:FilterByKey",
            "A->B.transforms.a.type: mirror_ray.transforms:FilterByKey can't be built from its options",
        ),
        ("transform.errors = ignore", "transform.errors: should be 'stop', 'skip' or 'dead_letter'"),
        ("transform.dead.letter.topic = A.lost", "transform.dead.letter.topic: A.lost is what a copy"),
        ("predicates = p", "predicates: predicates are Java classes"),
        ("topic.filter.class = com.example.F", "topic.filter.class: use topics and topics.exclude"),
        ("forwarding.admin.class = com.example.F", "forwarding.admin.class: topics are created through Kafka's own"),
        ("replication.policy.class = com.example.P", "replication.policy.class: com.example.P is a Java class"),
        ("replication.policy.separator =", "replication.policy.separator: "),
        ("value.converter = io.confluent.AvroConverter", "value.converter: records are copied as bytes"),
        ("A.consumer.interceptor.classes = x.Y", "A.consumer.interceptor.classes: interceptors are Java classes"),
        ("A->B.source.cluster.bootstrap.servers = x:1", "connections belong to a cluster"),
        ("A->B.consumer.sasl.mechanism = PLAIN", "connections belong to a cluster"),
        ("A.sasl.kerberos.service.name = kafka", "A.sasl.kerberos.service.name: Kerberos is not offered"),
        ("A.ssl.engine.factory.class = x.Y", "use PEM, JKS or PKCS12 stores"),
        ("A.sasl.login.callback.handler.class = x.Y", "it names a Java class; use PLAIN"),
        ("x = \\u12", "line 6: \\u is not followed by four hexadecimal digits"),
    ],
)
def test_mistake_is_named(problems: Problems, line: str, says: str) -> None:
    """One sentence, with the key and what to write instead."""
    found = problems(line)
    assert any(says in problem for problem in found), found


def test_all_mistakes_are_told_at_once(problems: Problems) -> None:
    """Each once, though a key at the top concerns every flow."""
    found = problems("topics = (\ntopcs = x\nA.security.protocol = TLS\nX->B.enabled = true")
    assert len(found) == 4


def test_missing_clusters_and_servers(problems: Problems) -> None:
    """Without them nothing can be done."""
    assert problems("topics = x", "")[0].startswith("clusters: missing")
    assert problems("", "clusters = A, B\nA.bootstrap.servers = a:1\n") == [
        "B.bootstrap.servers: missing; write host:port, more of them separated by commas"
    ]


@pytest.mark.parametrize("alias", ["../x", "<b>", "a\\u0000", "\\u00e4", "a b", "\U0001f600", "A->B"])
def test_alias_that_no_topic_can_be_named_by(problems: Problems, alias: str) -> None:
    """Internal topics are named by it."""
    (found,) = [
        problem
        for problem in problems("", f"clusters = {alias}, B\nB.bootstrap.servers = b:1\n")
        if "alias:" in problem
    ]
    assert found.startswith("clusters: ")
    assert "can't be an alias: topics are named by it" in found


def test_alias_that_is_too_long(load: Load, problems: Problems) -> None:
    """Together with what stands around it a name has at most 249 characters."""
    text = "clusters = {0}, B\n{0}.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\n"
    assert load("", text.format("x" * 219)).settings.clusters
    assert problems("", text.format("x" * 220))[0].endswith(
        "has 220 characters, an alias at most 219: topics are named by it, and their names have at most 249"
    )


def test_missing_file_is_named(tmp_path: Path) -> None:
    """And so is one that can't be read."""
    with pytest.raises(ConfigError, match=r"no\.properties can't be read: No such file"):
        load_settings(tmp_path / "no.properties")


def test_active_active_under_the_identity_policy_is_refused(load: Load, problems: Problems) -> None:
    """The error names both flows and the ways out; an idle reverse flow is no loop."""
    (problem,) = problems(_IDENTITY + "B->A.enabled = true")
    assert problem.startswith("A->B and B->A: ")
    assert "DefaultReplicationPolicy" in problem
    assert len(load(_IDENTITY).settings.flows) == 2
    assert len(load("B->A.enabled = true").settings.flows) == 2


def test_one_identity_flow_makes_a_loop_as_well(problems: Problems) -> None:
    """Renamed on the way back, the copies grow a longer name each time round."""
    text = f"A->B.{_IDENTITY}B->A.enabled = true"
    assert problems(text)[0].startswith("A->B and B->A: ")


def test_disjoint_plain_names_are_no_loop(load: Load, problems: Problems) -> None:
    """Each topic goes one way only."""
    text = _IDENTITY + "B->A.enabled = true\nA->B.topics = orders, a\\\\.b\nB->A.topics = answers"
    assert all(flow.enabled for flow in load(text).settings.flows)
    assert problems(text + ", orders")
    assert problems(text + ".*")


def test_longer_rings_are_refused(problems: Problems) -> None:
    """Three clusters in a ring copy round and round as two do."""
    text = "clusters = A, B, C\nB->C.enabled = true\nC->A.enabled = true\nC.bootstrap.servers = c:1\n" + _IDENTITY
    assert problems(text)[0].startswith("A->B and B->C and C->A: ")


def test_records_that_say_where_they_are_from_make_rings_possible(load: Load, problems: Problems) -> None:
    """All flows of the ring must have it; where a record would come to a cluster on two ways, hops must be bounded."""
    pair = _IDENTITY + "B->A.enabled = true\n"
    assert load(pair + "provenance.headers.enabled = true").settings.flows[0].provenance.enabled
    assert problems(pair + "A->B.provenance.headers.enabled = true")[0].startswith("A->B and B->A: ")
    mesh = pair + "clusters = A, B, C\nC.bootstrap.servers = c:1\nprovenance.headers.enabled = true\n"
    mesh += "".join(f"{flow}.enabled = true\n" for flow in ("B->C", "C->B", "A->C", "C->A"))
    found = problems(mesh)
    assert "records written on A would come to B by A->B and by A->C C->B, and stand there twice" in found[0]
    assert "C->B.provenance.max.hops = 1" in found[0]
    assert len(found) == 6
    assert load(mesh + "provenance.max.hops = 1").settings.flows[0].provenance.max_hops == 1


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("trouble.policy = ignore", "trouble.policy"),
        ("trouble.policy.copy_lost = ignore", "trouble.policy.copy_lost"),
        ("trouble.policy.copylost = skip", "did you mean trouble.policy.copy_lost"),
        ("delivery.guarantee = exactly_twice", "delivery.guarantee"),
        ("shared.remote.topics = (", "shared.remote.topics"),
    ],
)
def test_mistakes_in_our_own_keys_name_them(problems: Problems, line: str, key: str) -> None:
    """As those in MM2's keys do."""
    assert any(key in problem for problem in problems(line))
