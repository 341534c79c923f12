"""What an administrative client says of a cluster that does not serve it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka import admin_connection
from mirror_ray.kafka.admin_connection import AdminConnection
from mirror_ray.kafka.librdkafka import list_in_service
from mirror_ray.model.errors import ClusterUnreachableError


def test_fenced_brokers_are_named_also_where_the_last_try_was_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have answered that none of them is in service; what is left of the time is not enough for an answer.

    Clients that other tests left behind, in threads of their own, get the true answer.
    """

    def answers() -> Iterator[None]:
        yield None
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    asked = answers()
    connection = AdminConnection(ClusterSettings(alias="A", bootstrap_servers=("127.0.0.1:1",)), "test")

    def listed(client: AdminClient, topic: str | None, timeout_s: float) -> object:
        return next(asked) if client is connection._client else list_in_service(client, topic, timeout_s)

    monkeypatch.setattr(admin_connection, "list_in_service", listed)
    with pytest.raises(ClusterUnreachableError, match=r"cluster A .* has no broker in service"):
        connection.ping(0.5)
