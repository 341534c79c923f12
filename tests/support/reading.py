"""Records out of topics, by a client that shares no code with what is tested.

``config``: as in ``tests.support.kafka``.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.support.kafka import ConfluentConfig
from tests.support.waiting import wait_until

_TIMEOUT_S = 60.0

# What is said of a partition whose broker has just started, before it leads again and the client knows it.
_NO_LEADER_YET = frozenset(
    {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError._UNKNOWN_PARTITION}
)


class Record(NamedTuple):
    """A record as it was read, without its offset: two copies of a record are equal."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    #: ``confluent_kafka.TIMESTAMP_CREATE_TIME`` or ``TIMESTAMP_LOG_APPEND_TIME``.
    timestamp_type: int
    timestamp_ms: int


def end_offsets(config: ConfluentConfig, topic: str, *, isolation_level: str = "read_uncommitted") -> dict[int, int]:
    """Each partition's high watermark; under read_committed its last stable offset."""
    consumer = _consumer(config, isolation_level)
    try:
        return {
            partition: _high_watermark(consumer, TopicPartition(topic, partition))
            for partition in _partitions(consumer, topic)
        }
    finally:
        consumer.close()


def _high_watermark(consumer: Consumer, partition: TopicPartition) -> int:
    """Asked again while a broker that has just started does not lead yet what it is to lead."""
    found: list[int] = []

    def asked() -> bool:
        try:
            found.append(consumer.get_watermark_offsets(partition, timeout=_TIMEOUT_S)[1])
        except KafkaException as error:
            if error.args[0].code() not in _NO_LEADER_YET:
                raise
        return bool(found)

    wait_until(asked, _TIMEOUT_S, f"a leader of {partition}")
    return found[0]


def read_all(
    config: ConfluentConfig, topic: str, *, isolation_level: str = "read_committed"
) -> dict[int, list[Record]]:
    """Every record of ``topic`` from its start to its end (the last stable offset), by partition, in order."""
    placed = read_placed(config, topic, isolation_level=isolation_level)
    return {partition: [record for _, record in records] for partition, records in placed.items()}


def read_placed(
    config: ConfluentConfig, topic: str, *, isolation_level: str = "read_committed"
) -> dict[int, list[tuple[int, Record]]]:
    """As ``read_all``, each record with its offset."""
    consumer = _consumer(config, isolation_level)
    try:
        records: dict[int, list[tuple[int, Record]]] = {partition: [] for partition in _partitions(consumer, topic)}
        consumer.assign([TopicPartition(topic, partition, 0) for partition in records])
        unfinished = set(records)
        while unfinished:
            got = consumer.consume(5000, timeout=0.1)
            for message in got:
                error = message.error()
                if error is None:
                    records[message.partition() or 0].append((message.offset() or 0, _record(message)))
                elif error.code() == KafkaError._PARTITION_EOF:
                    unfinished.discard(message.partition())
                else:
                    raise KafkaException(error)
        return records
    finally:
        consumer.close()


def assert_equal_copies(
    source: ConfluentConfig, target: ConfluentConfig, topic: str, remote_topic: str | None = None
) -> None:
    """Every committed record of ``topic`` is in ``remote_topic``, in the same partition and order, and nothing else is.

    Raises:
        AssertionError: Names the first difference.
    """
    remote_topic = remote_topic or topic
    wanted, found = read_all(source, topic), read_all(target, remote_topic)
    assert sorted(found) == sorted(wanted), f"partitions: {topic} {len(wanted)}, {remote_topic} {len(found)}"
    for partition in sorted(wanted):
        pairs = zip_longest(wanted[partition], found[partition])
        for number, (expected, actual) in enumerate(pairs):
            if expected != actual:
                raise AssertionError(
                    f"{remote_topic}-{partition}, record {number} of {len(found[partition])} "
                    f"(source has {len(wanted[partition])}): expected {_short(expected)}, found {_short(actual)}"
                )


def _consumer(config: ConfluentConfig, isolation_level: str) -> Consumer:
    return Consumer(
        {
            **config,
            "group.id": "independent-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation_level,
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
            "fetch.message.max.bytes": 8 << 20,
        }
    )


def _partitions(consumer: Consumer, topic: str) -> list[int]:
    metadata = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic]
    if metadata.error is not None:
        raise KafkaException(metadata.error)
    return sorted(metadata.partitions)


def _record(message: Any) -> Record:
    timestamp_type, timestamp_ms = message.timestamp()
    headers = tuple((name, value) for name, value in message.headers() or ())
    return Record(message.key(), message.value(), headers, timestamp_type, timestamp_ms)


def _short(record: Record | None) -> str:
    if record is None:
        return "nothing"
    value = record.value
    if value is not None and len(value) > 60:
        return f"{record._replace(value=value[:60])!r} ({len(value)} bytes)"
    return repr(record)
