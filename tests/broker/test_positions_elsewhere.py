"""An application that keeps its positions in a database of its own moves to the target, with them as they are."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.support.clusters import Clusters, KafkaCluster, TopicMaker
from tests.support.local import LocalSystem, aside
from tests.support.moving import COMMITTED, PARTITIONS, OffsetMode, begin, copied, fill, settings, written

pytestmark = pytest.mark.timeout(300)


class Application:
    """Keeps what it has read, and how far that is, in one SQLite database: each record in one transaction with both."""

    def __init__(self, path: Path, topic: str) -> None:
        self._path, self._topic = path, topic
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE processed (number INTEGER, partition INTEGER)")
            database.execute("CREATE TABLE positions (partition INTEGER PRIMARY KEY, next_offset INTEGER)")

    def run(self, cluster: KafkaCluster, records: int | None = None) -> None:
        """Read on up to the end, or so many records; then it dies over the next one.

        Raises:
            KafkaException: Its position is not in the cluster's log.
        """
        with closing(sqlite3.connect(self._path)) as database:
            for count, message in enumerate(self._messages(cluster, database)):
                with suppress(InterruptedError), database:
                    self._process(database, message)
                    if count == records:
                        raise InterruptedError
                if count == records:
                    return

    def processed(self) -> dict[int, list[int]]:
        """The numbers that it has processed, by partition, in order."""
        with closing(sqlite3.connect(self._path)) as database:
            rows = database.execute("SELECT partition, number FROM processed ORDER BY rowid").fetchall()
        return {partition: [number for at, number in rows if at == partition] for partition in range(PARTITIONS)}

    @staticmethod
    def _process(database: sqlite3.Connection, message: Message) -> None:
        partition, offset = message.partition() or 0, message.offset() or 0
        database.execute("INSERT INTO processed VALUES (?, ?)", (int(message.value() or b"-1"), partition))
        database.execute("REPLACE INTO positions VALUES (?, ?)", (partition, offset + 1))

    def _messages(self, cluster: KafkaCluster, database: sqlite3.Connection) -> Iterator[Message]:
        positions = dict(database.execute("SELECT partition, next_offset FROM positions"))
        consumer = Consumer(
            {
                **cluster.confluent_config(),
                "group.id": "none",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
            }
        )
        unfinished = set(range(PARTITIONS))
        try:
            consumer.assign(
                [TopicPartition(self._topic, number, positions.get(number, OFFSET_BEGINNING)) for number in unfinished]
            )
            while unfinished:
                for message in consumer.consume(10, timeout=0.1):
                    error = message.error()
                    if error is None:
                        yield message
                    elif error.code() == KafkaError._PARTITION_EOF:
                        unfinished.discard(message.partition() or 0)
                    else:
                        raise KafkaException(error)
        finally:
            consumer.close()


@pytest.mark.parametrize(("mode", "right"), [("preserve", True), ("translate", False)])
async def test_a_consumer_with_its_positions_in_a_database(
    clusters: Clusters, make_topic: TopicMaker, tmp_path: Path, mode: OffsetMode, right: bool
) -> None:
    """It dies half-way on A, in the middle of a record, and goes on on B, where records come in meanwhile.

    Every record is processed once, in order; at offsets of their own some are lost.
    """
    topic = make_topic(clusters.a, PARTITIONS)
    source = clusters.a.confluent_config()
    await aside(lambda: begin(source, topic))
    application = Application(tmp_path / "positions.sqlite", topic)
    async with LocalSystem(settings(clusters, topic, mode)) as system:
        await aside(lambda: application.run(clusters.a, COMMITTED // 3))
        await aside(lambda: fill(source, topic, 1_000))
        await copied(clusters, system, topic)
        await aside(lambda: application.run(clusters.b))
        await aside(lambda: fill(source, topic, 2_000))
        await copied(clusters, system, topic)
        await aside(lambda: application.run(clusters.b))
    expected = await aside(lambda: written(source, topic))
    # But for what retention had taken before it began.
    assert 2 * COMMITTED < sum(map(len, expected.values())) < 3 * COMMITTED
    processed = application.processed()
    assert (processed == expected) is right
    lost = any(set(expected[number]) - set(processed[number]) for number in expected)
    assert lost is not right
