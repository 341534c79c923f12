"""Brokers over a quota: they answer without a partition for a while, which is waited for."""

from __future__ import annotations

from tests.support.clusters import TopicMaker, set_quota
from tests.support.kafka import Message, produce
from tests.support.replicated import Replicated
from tests.support.verifying import verified

#: What a client may read within the ten seconds that a broker looks at is less than the topic holds.
RECORDS, RECORD_BYTES, QUOTA_BYTES_PER_S = 300, 10_000, 250_000


async def test_a_source_over_its_quota_is_read_to_the_end(flow: Replicated, make_topic: TopicMaker) -> None:
    """Nothing is taken for the end of the log, nor for an error."""
    topic = make_topic(flow.source)
    flow.remote(topic, retention_ms="-1")
    produce(flow.source.confluent_config(), topic, [Message(b"x" * RECORD_BYTES)] * RECORDS)
    await flow.copy([topic])
    await set_quota(flow.source, "consumer_byte_rate", QUOTA_BYTES_PER_S)
    try:
        (partition,) = (await verified(flow.settings(), [topic])).partitions
    finally:
        await set_quota(flow.source, "consumer_byte_rate", None)
    assert (partition.outcome, partition.checked.records) == ("equal", RECORDS)
