"""Topics of every kind that a source may have, by a mark that all of their names begin with."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from tests.support.clusters import KafkaCluster, WithFiles, logged_batches
from tests.support.kafka import (
    CODECS,
    Message,
    alter_broker,
    alter_topic,
    create_topic,
    produce,
    produce_transactions,
    sample_messages,
)
from tests.support.waiting import wait_until

LAST_YEAR_MS = 1_750_000_000_000

#: With ``log.cleaner.backoff.ms`` the cleaner comes within the second; a segment is rolled when something comes after.
CLEANED_AT_ONCE = {
    "cleanup.policy": "compact",
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "200",
}

#: Records of last year would be deleted within a minute.
_KEPT = {"retention.ms": "-1"}

#: Topics, partitions and configs.
KINDS: Mapping[str, tuple[int, Mapping[str, str]]] = {
    **{codec: (3, {}) for codec in CODECS},
    "transactional": (2, {}),
    "compacted": (
        1,
        {
            "cleanup.policy": "compact",
            "segment.ms": "300",
            "min.cleanable.dirty.ratio": "0.01",
            "max.compaction.lag.ms": "300",
        },
    ),
    "headers": (1, _KEPT),
    "tombstones": (2, {}),
    "nothing": (2, {}),
    "mostly-empty": (8, _KEPT),
    "wide": (64, {}),
    "large": (2, {}),
    "append-time": (1, {"message.timestamp.type": "LogAppendTime"}),
}


def create_every_kind(cluster: KafkaCluster, mark: str) -> list[str]:
    """Create the topics, empty; returns their names."""
    config = cluster.confluent_config()
    return [
        create_topic(config, f"{mark}-{kind}", partitions, topic_config=topic_config)
        for kind, (partitions, topic_config) in KINDS.items()
    ]


def fill_every_kind(cluster: KafkaCluster, mark: str, first: int = 0) -> None:
    """Write a few hundred records to each of them but ``nothing``, numbered from ``first`` on."""
    config = cluster.confluent_config()
    for codec in CODECS:
        messages = sample_messages(600, partitions=3, first=first)
        produce(config, f"{mark}-{codec}", messages, codec=codec, batch_num_messages=50)
    # Aborts beside each other, at the beginning, and as the last thing in the log.
    transactions = [
        (sample_messages(20, partitions=2, first=first + 20 * number), number % 3 == 1) for number in range(10)
    ]
    produce_transactions(config, f"{mark}-transactional", transactions, transactional_id=mark)
    many = tuple((f"name-{n % 5}", None if n % 7 == 0 else os.urandom(n)) for n in range(40))
    headers = [Message(b"", b"\x00\xff" * n, many[: n % 41], 0, LAST_YEAR_MS + n) for n in range(first, first + 100)]
    produce(config, f"{mark}-headers", headers, codec="gzip")
    tombstones = [Message(None, b"key-%d" % n, (), n % 2) for n in range(first, first + 100)]
    produce(config, f"{mark}-tombstones", tombstones)
    few = [Message(b"%d" % n, None, (), 5, LAST_YEAR_MS) for n in range(first, first + 30)]
    produce(config, f"{mark}-mostly-empty", few, codec="snappy")
    produce(config, f"{mark}-wide", sample_messages(1280, partitions=64, first=first), codec="lz4")
    for codec in ("none", "zstd"):
        large = [Message(os.urandom(900_000), b"%d" % n, (), n % 2) for n in range(4)]
        produce(config, f"{mark}-large", large, codec=codec)
    old = [message._replace(timestamp_ms=LAST_YEAR_MS) for message in sample_messages(100, first=first)]
    produce(config, f"{mark}-append-time", old, codec="lz4", batch_num_messages=30)


def compact(cluster: WithFiles, mark: str) -> None:
    """Fill ``compacted``, let the broker's cleaner make holes inside its batches, and then rest for good."""
    config, topic = cluster.confluent_config(), f"{mark}-compacted"
    alter_broker(cluster.confluent_config(), 1, {"log.cleaner.backoff.ms": "1000"})
    for number in range(3):
        messages = [Message(f"{number} {n}".encode() * 5, f"key {n % 7 if n % 3 else n}".encode()) for n in range(60)]
        produce(config, topic, messages, codec="zstd" if number % 2 else "none", batch_num_messages=25)
        time.sleep(0.4)
    produce(config, topic, [Message(None, b"key 3"), Message(b"last", b"key 4")])

    def holes() -> bool:
        return any(0 < batch.count <= batch.last_offset_delta for batch in logged_batches(cluster.brokers[0], topic))

    wait_until(holes, 30, "the cleaner made holes")
    rest = {"segment.ms": "604800000", "min.cleanable.dirty.ratio": "1.0", "max.compaction.lag.ms": str(2**63 - 1)}
    alter_topic(cluster.confluent_config(), topic, {**rest, "min.compaction.lag.ms": "86400000"})
    # A cleaning that had begun ends.
    time.sleep(0.5)
