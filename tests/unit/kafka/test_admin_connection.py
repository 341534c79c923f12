"""What an administrative client says of a cluster that does not serve it."""

from __future__ import annotations

import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka import admin_connection
from mirror_ray.kafka.admin_connection import AdminConnection
from mirror_ray.kafka.librdkafka import list_in_service
from mirror_ray.model.errors import ClusterUnreachableError

#: A cluster that does not answer.
_NOBODY = ClusterSettings(alias="A", bootstrap_servers=("127.0.0.1:1",))


def test_fenced_brokers_are_named_also_where_the_last_try_was_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have answered that none of them is in service; what is left of the time is not enough for an answer.

    Clients that other tests left behind, in threads of their own, get the true answer.
    """

    def answers() -> Iterator[None]:
        yield None
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    asked = answers()
    connection = AdminConnection(_NOBODY, "test")

    def listed(client: AdminClient, topic: str | None, timeout_s: float) -> object:
        return next(asked) if client is connection._client else list_in_service(client, topic, timeout_s)

    monkeypatch.setattr(admin_connection, "list_in_service", listed)
    with pytest.raises(ClusterUnreachableError, match=r"cluster A .* has no broker in service"):
        connection.ping(0.5)


@pytest.mark.parametrize("failure", [None, KafkaError._TRANSPORT])
def test_a_client_that_saw_no_broker_is_not_asked_again(monkeypatch: pytest.MonkeyPatch, failure: int | None) -> None:
    """Librdkafka may have given up every broker it knew when all were fenced, and never connect again."""
    connection = AdminConnection(_NOBODY, "test")
    broken = weakref.ref(connection._client)

    def listed(client: AdminClient, _topic: str | None, _timeout_s: float) -> object:
        if client is not broken():
            return "metadata"
        if failure is not None:
            raise KafkaException(KafkaError(failure))
        return None

    monkeypatch.setattr(admin_connection, "list_in_service", listed)
    if failure is not None:
        with pytest.raises(ClusterUnreachableError):
            connection.ping(0.1)
    connection.ping(5.0)
    assert connection._client is not broken()


#: A client is garbage, by way of a failure's traceback, when its own thread brings the answer to its request and runs
#: the garbage collection.
_DROPPED_IN_FLIGHT = """
import gc, threading
from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.admin_connection import AdminConnection

collected = threading.Event()

def collect(future):
    gc.collect()
    collected.set()

def fail(client):
    client.describe_cluster(request_timeout=1.0).add_done_callback(collect)
    raise OSError

gc.disable()
try:
    fail(AdminConnection(ClusterSettings(alias="A", bootstrap_servers=("127.0.0.1:1",)), "test")._client)
except OSError as error:
    cycle = [error]
    cycle.append(cycle)
del cycle
assert collected.wait(10)
"""


def test_a_client_may_be_garbage_while_a_request_is_in_flight() -> None:
    """Its own thread may collect it then, which librdkafka answers by ending the process."""
    command = [sys.executable, "-c", _DROPPED_IN_FLIGHT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_request_in_flight_fails_where_its_client_is_given_up() -> None:
    """It does not wait for ever for an answer that nobody will bring."""
    connection = AdminConnection(_NOBODY, "test")
    future = next(iter(connection._call(connection._client.describe_topics, TopicCollection(["orders"])).values()))
    connection.close()
    with pytest.raises(ClusterUnreachableError):
        connection._settle({"orders": future}, "describe topic {}")
