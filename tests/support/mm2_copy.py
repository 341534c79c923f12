"""What MM2 leaves behind, made without it: remote topics, notes in Connect's topic, offset-syncs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import Producer

from mirror_ray.model.names import TopicPartition
from mirror_ray.records.mm2_records import OffsetSyncRecord
from mirror_ray.records.source_offset import SOURCE_CONNECTOR, SourceOffset
from tests.support.kafka import ConfluentConfig, Message, create_topic, exists, produce
from tests.support.reading import read_placed


class Mm2Copy:
    """MM2 of one flow, as far as its topics show it."""

    def __init__(self, source: ConfluentConfig, target: ConfluentConfig, alias: str) -> None:
        self._source, self._target, self._alias = source, target, alias
        self.offsets_topic = f"mm2-offsets.{alias}.internal"
        self.syncs_topic = "mm2-offset-syncs.B.internal"

    def remote(self, topic: str) -> str:
        """The remote topic's name."""
        return f"{self._alias}.{topic}"

    def copy(self, topic: str, counts: Mapping[int, int], *, first: int = 0) -> None:
        """Copy the records from number ``first`` up to these numbers, by partition."""
        placed = read_placed(self._source, topic)
        if not exists(self._target, self.remote(topic)):
            create_topic(self._target, self.remote(topic), len(placed))
        messages = [
            Message(record.value, record.key, record.headers, partition, record.timestamp_ms)
            for partition, count in counts.items()
            for _, record in placed[partition][first:count]
        ]
        produce(self._target, self.remote(topic), messages)

    def note(self, topic: str, offsets: Mapping[int, int | None]) -> None:
        """Note the offsets of the last records copied."""
        if not exists(self._target, self.offsets_topic):
            create_topic(self._target, self.offsets_topic, 5, topic_config={"cleanup.policy": "compact"})
        notes = [
            SourceOffset(
                connector=SOURCE_CONNECTOR, cluster=self._alias, partition=TopicPartition(topic, number), offset=offset
            )
            for number, offset in offsets.items()
        ]
        _write(self._target, self.offsets_topic, [note.encode() for note in notes], None)

    def pairs(self, partition: TopicPartition, pairs: Sequence[tuple[int, int]]) -> None:
        """Emit offset-syncs."""
        if not exists(self._source, self.syncs_topic):
            create_topic(self._source, self.syncs_topic, topic_config={"cleanup.policy": "compact"})
        syncs = [
            OffsetSyncRecord(partition=partition, upstream_offset=here, downstream_offset=there)
            for here, there in pairs
        ]
        _write(self._source, self.syncs_topic, [sync.encode() for sync in syncs], 0)


def _write(
    config: ConfluentConfig, topic: str, records: Sequence[tuple[bytes, bytes | None]], partition: int | None
) -> None:
    producer = Producer({**config, "enable.idempotence": True})
    for key, value in records:
        placed = {} if partition is None else {"partition": partition}
        producer.produce(topic, value=value, key=key, **placed)  # type: ignore[arg-type]
    assert not producer.flush(30), "not all was acknowledged"
