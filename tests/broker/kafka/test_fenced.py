"""A cluster whose brokers are all fenced, or that stands still: commands say so and end; the process outlives it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka import admin_connection
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.state_topic import read_state
from mirror_ray.lab.devcluster import QUICK_START, DevCluster
from mirror_ray.model.errors import ClusterUnreachableError
from tests.support.clusters import Clusters, TopicMaker
from tests.support.command import mirror_ray
from tests.support.kafka import create_topic
from tests.support.waiting import wait_until

#: A command says within this that a cluster can't be worked with; starting a process on a busy machine is in it.
_SOON_S = 25.0
_TOPIC = "orders"
#: A broker's next heartbeat comes long after its session has run out: it lives and answers, and is fenced.
_FENCES_ITSELF = {"broker.session.timeout.ms": "5000", "broker.heartbeat.interval.ms": "600000"}
#: In service for two seconds and fenced for five, in turns.
_FENCES_ITSELF_IN_TURNS = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "7000"}
#: Without a new client after a fencing, some of so many are lost in that time, mostly.
_CLIENTS = 12
_ASKED_S = 20.0


class Fenced(NamedTuple):
    """A cluster without a broker in service, and a client that has seen it before."""

    cluster: DevCluster
    earlier: ClusterAdmin


@pytest.fixture(scope="module")
def fenced() -> Iterator[Fenced]:
    """One broker that answers, with topics, and is fenced."""
    with DevCluster("fenced", jvm_options=QUICK_START, server_properties=_FENCES_ITSELF) as cluster:
        create_topic(cluster.confluent_config(), _TOPIC)
        create_topic(cluster.confluent_config(), "state")
        earlier = ClusterAdmin(_settings(cluster), "test")
        earlier.authorized_operations([])
        earlier.ping()
        client = AdminClient(cluster.confluent_config())
        wait_until(lambda: not client.list_topics(timeout=5).brokers, 30, "the broker is fenced")
        yield Fenced(cluster, earlier)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the cluster still serves is asked after a second, and not after five."""
    monkeypatch.setattr(admin_connection, "_STALL_S", 1.0)


def _settings(cluster: DevCluster) -> ClusterSettings:
    return ClusterSettings(alias="A", bootstrap_servers=(cluster.bootstrap,), connection_setup_timeout_ms=2_000)


def test_plan_names_the_cluster_whose_brokers_are_fenced(fenced: Fenced, clusters: Clusters, tmp_path: Path) -> None:
    """Exit 3, soon, with what to check; as source and as target."""

    def check(alias: str, **servers: str) -> None:
        config = tmp_path / f"{alias}.properties"
        lines = [f"{name}.bootstrap.servers = {at}" for name, at in servers.items()]
        lines += [f"{name}.socket.connection.setup.timeout.ms = 2000" for name in servers]
        config.write_text("\n".join(["clusters = A, B", "A->B.enabled = true", "A->B.topics = none-such", *lines]))
        began_s = time.monotonic()
        said = mirror_ray("plan", str(config), exit_code=3).stderr
        assert time.monotonic() - began_s < _SOON_S
        assert f"cluster {alias} ({fenced.cluster.bootstrap}) has no broker in service" in said
        assert "Check the controllers" in said

    with ThreadPoolExecutor() as threads:
        sides = [
            threads.submit(check, "A", A=fenced.cluster.bootstrap, B=clusters.b.bootstrap),
            threads.submit(check, "B", A=clusters.a.bootstrap, B=fenced.cluster.bootstrap),
        ]
    for side in sides:
        side.result()


def test_rights_are_asked_of_a_fenced_broker_without_harm(fenced: Fenced) -> None:
    """By a client that has known a controller: librdkafka's DescribeCluster, sent to it, ends the process here."""
    granted = fenced.earlier.authorized_operations([_TOPIC, "none-such"])
    assert "READ" in (granted.topics[_TOPIC] or ())
    assert "CREATE" in (granted.cluster or ())


@pytest.mark.usefixtures("soon")
def test_a_request_does_not_stand_while_all_brokers_are_fenced(fenced: Fenced) -> None:
    """Configs are asked of a controller, and state of a leader; there is neither."""
    for ask in (
        lambda: ClusterAdmin(_settings(fenced.cluster), "test").try_describe_topic_configs([_TOPIC]),
        lambda: read_state(_settings(fenced.cluster), "state", 1.0),
    ):
        began_s = time.monotonic()
        with pytest.raises(ClusterUnreachableError, match=r"cluster A .* has no broker in service"):
            ask()
        assert time.monotonic() - began_s < _SOON_S


@pytest.mark.usefixtures("soon")
def test_a_request_does_not_stand_while_the_only_broker_stands_still(
    fragile: DevCluster, make_topic: TopicMaker
) -> None:
    """Its connections are open, and nothing comes."""
    topic, admin = make_topic(fragile), ClusterAdmin(_settings(fragile), "test")
    admin.ping()
    fragile.brokers[0].suspend()
    try:
        began_s = time.monotonic()
        with pytest.raises(ClusterUnreachableError, match=r"cluster A: no broker answers .*hangs.*A\.boot"):
            admin.try_describe_topic_configs([topic])
        assert time.monotonic() - began_s < _SOON_S
    finally:
        fragile.brokers[0].resume()


def test_clients_find_a_cluster_whose_brokers_were_fenced_for_a_while() -> None:
    """Those of librdkafka may never connect again: brokers that an answer without any does not name are given up."""
    with DevCluster("turns", jvm_options=QUICK_START, server_properties=_FENCES_ITSELF_IN_TURNS) as cluster:
        create_topic(cluster.confluent_config(), _TOPIC)
        clients = [ClusterAdmin(_settings(cluster), f"test-{number}") for number in range(_CLIENTS)]

        asked_until_s = time.monotonic() + _ASKED_S
        while time.monotonic() < asked_until_s:
            for client in clients:
                _is_reached(client)
        for number, client in enumerate(clients):
            wait_until(partial(_is_reached, client), 30, f"client {number} reaches the cluster")


def _is_reached(client: ClusterAdmin) -> bool:
    try:
        client.ping(0.2)
    except ClusterUnreachableError:
        return False
    return True
