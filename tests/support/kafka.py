"""Topics, and records into them, by a client that shares no code with what is tested.

``config`` is always what a confluent-kafka client needs: `DevCluster.confluent_config()`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from tests.support.waiting import wait_until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

_TIMEOUT_S = 60.0
_ATTEMPTS = 3

ConfluentConfig = Mapping[str, str | int | float | bool]


class Message(NamedTuple):
    """A record to write. ``timestamp_ms`` 0 is now."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int = 0
    timestamp_ms: int = 0


def create_topic(
    config: ConfluentConfig,
    topic: str,
    partitions: int = 1,
    *,
    replication_factor: int = 1,
    replicas: Sequence[Sequence[int]] | None = None,
    topic_config: Mapping[str, str] | None = None,
) -> str:
    """Create ``topic``, wait until each broker lists it with leaders, and return its name.

    ``replicas``: node ids for each partition, the preferred leader first; else the controller chooses.
    """
    placed: dict[str, Any] = {"replication_factor": replication_factor}
    if replicas is not None:
        placed = {"replica_assignment": [list(nodes) for nodes in replicas]}
    new = NewTopic(topic, partitions, config=dict(topic_config or {}), **placed)
    _ask_to_create(config, new)

    for address in str(config["bootstrap.servers"]).split(","):
        admin = AdminClient({**config, "bootstrap.servers": address})
        wait_until(partial(_has_leaders, admin, topic, partitions), _TIMEOUT_S, f"leaders of {topic} at {address}")
    return topic


def _has_leaders(admin: AdminClient, topic: str, partitions: int) -> bool:
    known = admin.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
    return len(known) == partitions and all(partition.leader >= 0 for partition in known.values())


def _ask_to_create(config: ConfluentConfig, new: NewTopic) -> None:
    """Ask by a client of its own each time: once, on a busy machine, one got no answer within a minute."""
    for attempt in range(_ATTEMPTS):
        admin = AdminClient(dict(config))
        try:
            admin.create_topics([new])[new.topic].result(_TIMEOUT_S / 2)
        except TimeoutError:
            if attempt == _ATTEMPTS - 1:
                raise
        except KafkaException as error:
            if not attempt or error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return
        else:
            return


def delete_topic(config: ConfluentConfig, topic: str) -> None:
    """Delete ``topic`` and wait until the brokers don't list it any more."""
    admin = AdminClient(dict(config))
    admin.delete_topics([topic])[topic].result(_TIMEOUT_S)
    wait_until(lambda: not exists(config, topic), _TIMEOUT_S, f"{topic} is gone")


def delete_leftover(config: ConfluentConfig, topic: str) -> None:
    """Delete a topic of another test's flow, where there is one."""
    if exists(config, topic):
        delete_topic(config, topic)


def alter_topic(config: ConfluentConfig, topic: str, configs: Mapping[str, str | None]) -> None:
    """Change some of a topic's configs; None takes one away."""
    _alter(config, ResourceType.TOPIC, topic, configs)


def alter_broker(config: ConfluentConfig, node_id: int, configs: Mapping[str, str]) -> None:
    """Change some of a broker's configs, of those that can be changed while it runs."""
    _alter(config, ResourceType.BROKER, str(node_id), configs)


def sample_messages(count: int, *, partitions: int = 1, value_bytes: int = 100, first: int = 0) -> list[Message]:
    """Numbered messages from ``first`` on, some of them with headers, a null key, an empty value, or a tombstone."""
    return [_sample(number, partitions, value_bytes) for number in range(first, first + count)]


def produce(
    config: ConfluentConfig,
    topic: str,
    messages: Iterable[Message],
    *,
    codec: str = "none",
    flush_timeout_s: float = _TIMEOUT_S,
    **settings: object,
) -> None:
    """Write ``messages`` in order, until all are acknowledged; ``settings`` are librdkafka's with ``_`` for ``.``."""
    producer = Producer(_producer_config(config, codec, settings))
    errors: list[KafkaError] = []
    _send(producer, topic, messages, errors)
    if producer.flush(flush_timeout_s):
        producer.purge()
        raise AssertionError("not all was acknowledged")
    assert not errors, errors[0]


def exists(config: ConfluentConfig, topic: str) -> bool:
    """Whether there is such a topic."""
    return topic in AdminClient(dict(config)).list_topics(timeout=_TIMEOUT_S).topics


def append(config: ConfluentConfig, topic: str, messages: Sequence[Message], *, replication_factor: int = 1) -> int:
    """Write ``messages`` to a compacted topic of one partition, made if it is missing; the first one's offset."""
    if not exists(config, topic):
        create_topic(config, topic, replication_factor=replication_factor, topic_config={"cleanup.policy": "compact"})
    offsets: list[int] = []
    producer = Producer({**_producer_config(config, "none", {})})
    for message in messages:
        producer.produce(
            topic, message.value, message.key, 0, on_delivery=lambda _, told: offsets.append(told.offset() or 0)
        )
    assert not producer.flush(_TIMEOUT_S), "not all was acknowledged"
    return min(offsets)


def produce_transactions(
    config: ConfluentConfig,
    topic: str,
    transactions: Iterable[tuple[Sequence[Message], bool]],
    *,
    transactional_id: str,
    codec: str = "none",
) -> None:
    """Write each sequence of messages in a transaction; committed where the flag is true, else aborted.

    When this returns, the markers of all of them are in the log.
    """
    settings = {**_producer_config(config, codec, {}), "transactional.id": transactional_id}
    producer = Producer(settings)
    producer.init_transactions(_TIMEOUT_S)
    for messages, commit in transactions:
        errors: list[KafkaError] = []
        producer.begin_transaction()
        _send(producer, topic, messages, errors)
        # An aborted transaction leaves nothing in the log unless its batches got there first.
        producer.flush(_TIMEOUT_S)
        assert not errors, errors[0]
        (producer.commit_transaction if commit else producer.abort_transaction)(_TIMEOUT_S)
    # A commit is confirmed before its markers are in the log; a new producer of the same id has to wait for them.
    Producer(settings).init_transactions(_TIMEOUT_S)


def delete_records(config: ConfluentConfig, topic: str, before: int, partition: int = 0) -> None:
    """DeleteRecords of a partition below an offset."""
    admin = AdminClient(dict(config))
    for future in admin.delete_records([TopicPartition(topic, partition, before)]).values():
        future.result(_TIMEOUT_S)


def _alter(config: ConfluentConfig, kind: ResourceType, name: str, configs: Mapping[str, str | None]) -> None:
    entries = [
        ConfigEntry(
            key, value, incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        )
        for key, value in configs.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin = AdminClient(dict(config))
    admin.incremental_alter_configs([resource])[resource].result(_TIMEOUT_S)


def _sample(number: int, partitions: int, value_bytes: int) -> Message:
    value: bytes | None = (f"{number} ".encode() * value_bytes)[:value_bytes]
    key: bytes | None = f"key-{number % 17}".encode()
    headers: tuple[tuple[str, bytes | None], ...] = ()
    match number % 10:
        case 3:
            headers = (("trace", str(number).encode()), ("empty", b""), ("null", None), ("trace", b"again"))
        case 5:
            value = None
        case 7:
            key = None
        case 9:
            value = b""
    return Message(value, key, headers, number % partitions)


def _producer_config(config: ConfluentConfig, codec: str, settings: Mapping[str, object]) -> dict[str, Any]:
    """In order, and not idempotent: librdkafka would wait for half a second before it asks for a producer id."""
    own = {key.replace("_", "."): value for key, value in settings.items()}
    return {"max.in.flight": 1, "linger.ms": 5, **config, "compression.type": codec, **own}


def _send(producer: Producer, topic: str, messages: Iterable[Message], errors: list[KafkaError]) -> None:
    def acknowledged(error: KafkaError | None, _: object) -> None:
        if error is not None:
            errors.append(error)

    for message in messages:
        while True:
            try:
                producer.produce(
                    topic,
                    message.value,
                    message.key,
                    message.partition,
                    on_delivery=acknowledged,
                    timestamp=message.timestamp_ms,
                    headers=list(message.headers),
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
