"""Addresses, names and numbers that can't work are refused when a file is read, with the reason."""

from __future__ import annotations

import pytest

from tests.unit.config.conftest import Load, Problems

_NATIVE = "version: 1\nclusters:\n  A: {bootstrap_servers: '%s'}\n  B: {bootstrap_servers: 'b:1'}\nflows:\n  A->B: {}\n"
_MM2 = "clusters = A, B\nA.bootstrap.servers = %s\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"


@pytest.mark.parametrize(
    ("server", "says"),
    [
        ("localhost", "'localhost' is not HOST:PORT"),
        ("localhost:0", "'localhost:0' is not HOST:PORT with a port from 1 to 65535"),
        ("localhost:99999", "'localhost:99999' is not HOST:PORT with a port from 1 to 65535"),
        ("localhost:-3", "is not HOST:PORT"),
        ("localhost:9_2", "is not HOST:PORT"),
        ("localhost:\\u0663", "is not HOST:PORT"),
        ("[::1:9092", "is not HOST:PORT"),
        ("::1:9092", "is not HOST:PORT"),
        ("[::z]:9092", "'::z' is not an IPv6 address"),
        (f"{'x' * 70}.com:9092", "is neither an IP address nor a host's name"),
        ("10.0.0.256:9092", "'10.0.0.256' is neither an IP address nor a host's name"),
        ("no such host:9092", "'no such host' is neither an IP address nor a host's name"),
        (":9092", "'' is neither an IP address nor a host's name"),
    ],
)
def test_address_that_can_not_be(problems: Problems, server: str, says: str) -> None:
    """In both forms, with the key."""
    (found,) = problems("", _MM2 % server)
    assert found.startswith("A.bootstrap.servers: ")
    assert says in found
    if "\\" not in server:
        (found,) = problems("", _NATIVE % server, ".yaml")
        assert found.startswith("clusters.A.bootstrap_servers[0]: ")
        assert says in found


@pytest.mark.parametrize(
    "server", ["a:1", "10.0.0.1:65535", "[2001:db8::1]:9092", "PLAINTEXT://kafka_1.local:9092", "a.b.:9092", "1a:1"]
)
def test_address_as_kafka_takes_it(load: Load, server: str) -> None:
    """With a protocol in front, too."""
    assert load("", _MM2 % server).settings.clusters["A"].bootstrap_servers == (server,)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("replication.factor = -7", "-7 is too small: at least 1, or -1"),
        ("replication.factor = 0", "0 is too small: at least 1, or -1"),
        ("replication.factor = 40000", "40000 is too large: at most 32,767, the largest number that Kafka's requests"),
        ("replication.factor = 99999999999999999999", "'99999999999999999999' is not a whole number"),
        ("replication.factor = 1_0", "'1_0' is not a whole number"),
        ("replication.factor = 1.5", "'1.5' is not a whole number"),
        ("replication.factor = \\u0663", "'\u0663' is not a whole number"),
        ("offset-syncs.topic.replication.factor = -2", "-2 is too small"),
        ("refresh.topics.interval.seconds = nan", "'nan' is not a whole number"),
        (
            "refresh.topics.interval.seconds = 99999999",
            "at most 31,536,000, a year: what is to happen later never does",
        ),
        ("A.consumer.request.timeout.ms = 0", "0 is too small: at least 1"),
        ("A.consumer.fetch.max.bytes = 3000000000", "at most 2,147,483,647"),
        ("alerts.lag.seconds = 9999999999", "at most 31,536,000"),
        ("elastic.max.replicators = 1000000000", "at most 1,000, all of which one coordinator looks after"),
        ("elastic.target.cpu = \\u0661", "'\u0661' is not a number"),
        ("cost.price.per.gb = nan", "'nan' is not a number"),
        ("replication.policy.separator = /<>", "'/<>' can't stand in a topic's name"),
        (f"replication.policy.separator = {'-' * 200}", "a topic's name at most 249"),
        ("limits.topics = a=\\u0663", "is not written PATTERN=NUMBER"),
        (f"limits.topics = a={'9' * 5000}", "is not written PATTERN=NUMBER"),
    ],
)
def test_value_that_can_not_work(problems: Problems, line: str, says: str) -> None:
    """The key, what is wrong, what is right."""
    found = problems(line)
    assert all(problem.startswith(line.partition(" ")[0]) for problem in found), found
    assert says in found[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("replicators: 1000000000", "replicators: 1000000000 is too large: at most 1,000"),
        ("replicators: .inf", "replicators (line 7): not a finite number"),
        ("replicators: 1.5", "replicators: should be a valid integer"),
        ("alerts: {lag_s: '1e999'}", "alerts.lag_s: should be a finite number"),
        ("alerts: {lag_s: 0}", "alerts.lag_s: 0.0 is too small: at least 0.001"),
        ("defaults: {topics: {replication_factor: -7}}", "defaults.topics.replication_factor: -7 is too small"),
        ("lease_ms: 9999999999", "lease_ms: 9999999999 is too large: at most 3,600,000, an hour"),
    ],
)
def test_value_of_the_native_form_that_can_not_work(problems: Problems, text: str, says: str) -> None:
    """The same bounds."""
    (found,) = problems(text, _NATIVE % "a:1", ".yaml")
    assert found.startswith(says)


def test_brokers_default_replication_factor(load: Load) -> None:
    """-1 in Kafka."""
    assert load("replication.factor = -1").settings.flows[0].topics.replication_factor == -1


def test_what_is_off_is_noted(load: Load) -> None:
    """A file without an enabled flow, and a negative interval, as in MM2."""
    idle = load("", _MM2.replace("true", "false") % "a:1").notes
    assert [str(note) for note in idle if note.kind == "off"] == [
        "flows (off): none is enabled, so nothing is copied; enable one, for example A->B"
    ]
    assert load("", "version: 1\nflows: {}\nclusters: {}\n", ".yaml").notes[0].kind == "off"
    off = load("emit.checkpoints.interval.seconds = -5").notes
    assert [note.key for note in off if note.kind == "off"] == ["emit.checkpoints.interval.seconds"]
