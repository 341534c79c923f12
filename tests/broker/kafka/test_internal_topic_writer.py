"""Appending what must not be twice, over connections that fail."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import protocol_error
from mirror_ray.kafka.internal_topic_writer import IdempotentTopicWriter, KeyedRecord
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.errors import KafkaProtocolError
from tests.support.clusters import TopicMaker, cluster_settings
from tests.support.reading import read_all

_TOPIC_AUTHORIZATION_FAILED = 29
_CLUSTER_AUTHORIZATION_FAILED = 31
_OUT_OF_ORDER_SEQUENCE_NUMBER = 45
_DUPLICATE_SEQUENCE_NUMBER = 46


class Shaky(IdempotentTopicWriter):
    """Meets these errors, one at a time, after (or before) the broker has done its work."""

    errors: list[Exception]
    before = False

    async def _produce(self, batch: memoryview) -> None:
        error = self.errors.pop(0) if self.errors else None
        if error is not None and self.before:
            raise error
        await super()._produce(batch)
        if error is not None:
            raise error


@pytest.fixture
async def writer(target: DevCluster, make_topic: TopicMaker) -> AsyncIterator[Shaky]:
    """To a topic of its own."""
    cluster = ClusterConnections(cluster_settings("B", target), "test")
    shaky = Shaky(cluster, make_topic(target))
    shaky.errors = []
    yield shaky
    await cluster.close()


def _records(*values: int) -> list[KeyedRecord]:
    return [KeyedRecord(b"key", b"%d" % value) for value in values]


def _values(target: DevCluster, writer: Shaky) -> list[int]:
    return [int(record.value or b"") for record in read_all(target.confluent_config(), writer.topic)[0]]


async def test_a_lost_answer_doubles_nothing(target: DevCluster, writer: Shaky) -> None:
    """The same records are given again, over another connection, as often as it takes."""
    await writer.append_once(_records(1, 2))
    writer.errors = [ConnectionError("lost"), TimeoutError(), ConnectionError("lost")]
    for error in list(writer.errors):
        with pytest.raises(type(error)):
            await writer.append_once(_records(3, 4, 5))
    await writer.append_once(_records(3, 4, 5))
    await writer.append_once(_records(6))
    assert _values(target, writer) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("code", [_TOPIC_AUTHORIZATION_FAILED, _OUT_OF_ORDER_SEQUENCE_NUMBER])
async def test_what_was_refused_is_given_again(target: DevCluster, writer: Shaky, code: int) -> None:
    """By the same producer, or by another one where the broker does not know it any more."""
    await writer.append_once(_records(1, 2))
    writer.errors, writer.before = [protocol_error(code, "write")], True
    with pytest.raises(KafkaProtocolError):
        await writer.append_once(_records(3))
    await writer.append_once(_records(3))
    await writer.append_once(_records(4))
    assert _values(target, writer) == [1, 2, 3, 4]


async def test_what_is_there_already_is_done(target: DevCluster, writer: Shaky) -> None:
    """A broker that remembers more than five batches says so by an error."""
    writer.errors = [protocol_error(_DUPLICATE_SEQUENCE_NUMBER, "write")]
    await writer.append_once(_records(1))
    await writer.append_once(_records(2))
    assert _values(target, writer) == [1, 2]


async def test_without_the_right_to_a_producer(
    target: DevCluster, writer: Shaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A target that refuses idempotent writes takes plain ones; other refusals are errors."""
    refusals = [protocol_error(_TOPIC_AUTHORIZATION_FAILED, "x"), protocol_error(_CLUSTER_AUTHORIZATION_FAILED, "x")]

    async def refused() -> tuple[int, int]:
        raise refusals.pop(0)

    monkeypatch.setattr(writer._cluster, "init_producer_id", refused)
    with pytest.raises(KafkaProtocolError):
        await writer.append_once(_records(1))
    await writer.append_once(_records(1))
    await writer.append_once(_records(2, 3))
    assert _values(target, writer) == [1, 2, 3]
