"""Batches that brokers hold as they were passed on are compared as they are; others are opened."""

from __future__ import annotations

import uuid

import pytest

from mirror_ray.records import kernel
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import DecodedRecord, records_of
from mirror_ray.verification import batch_comparison
from tests.support.clusters import TopicMaker
from tests.support.kafka import produce, produce_transactions, sample_messages
from tests.support.replicated import Replicated
from tests.support.verifying import verified


async def test_what_is_opened(flow: Replicated, make_topic: TopicMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of what was passed on, wherever ranges begin, and whatever brokers write into headers."""
    stamped = {"message.timestamp.type": "LogAppendTime"}
    plain, stamped_there, recompressed = (make_topic(flow.source) for _ in range(3))
    repacked = make_topic(flow.source, topic_config=stamped)
    topics = (plain, stamped_there, recompressed, repacked)
    for topic in topics:
        flow.remote(
            topic,
            message_timestamp_type="LogAppendTime" if topic == stamped_there else "CreateTime",
            compression_type="gzip" if topic == recompressed else "producer",
        )
        config = flow.source.confluent_config()
        produce(config, topic, sample_messages(150), batch_num_messages=37)
        transactions = [(sample_messages(40, first=40 * number), number != 1) for number in range(3)]
        produce_transactions(config, topic, transactions, transactional_id=uuid.uuid4().hex)
    await flow.copy(topics)
    opened: list[RecordBatch] = []

    def counted(batch: RecordBatch) -> list[DecodedRecord]:
        opened.append(batch)
        return records_of(batch)

    monkeypatch.setattr(batch_comparison, "records_of", counted)
    for topic in topics:
        report = await verified(flow.settings(), [topic], range_offsets=50)
        assert report.equal, report.plain()
        (partition,) = report.partitions
        assert (partition.checked.records, partition.checked.ranges > 4) == (230, True)
        # The kernel compares those, too.
        assert bool(opened) == (topic == repacked and not kernel.is_available())
        opened.clear()
