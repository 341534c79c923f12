"""Over a long link that is cut now and then the copy is the same."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import Producer

from mirror_ray.config.settings import FetchSettings
from mirror_ray.lab.devcluster.proxy import Proxy
from tests.support.clusters import TopicMaker
from tests.support.kafka import Message, produce
from tests.support.reading import assert_equal_copies
from tests.support.replicated import Replicated

DELAY_S = 0.015
#: Many answers of little data.
SMALL_ANSWERS = FetchSettings(max_bytes=512 << 10, max_partition_bytes=128 << 10)


@pytest.mark.parametrize("partitions", [1, 3])
async def test_uneven_batches_and_aborted_transactions(
    flow: Replicated, make_topic: TopicMaker, partitions: int
) -> None:
    """Small batches and large ones in many answers: nothing is lost, doubled or out of order."""
    topic = make_topic(flow.source, partitions)
    remote = flow.remote(topic, partitions)
    config = flow.source.confluent_config()
    random_ = random.Random(partitions)
    producer = Producer({**config, "transactional.id": topic, "linger.ms": 0, "batch.num.messages": 7})
    producer.init_transactions(30)
    for number in range(60 * partitions):
        producer.begin_transaction()
        for _ in range(random_.randrange(1, 60)):
            producer.produce(topic, random_.randbytes(random_.choice((10, 100, 3000))), partition=number % partitions)
        # A broker that knows nothing of a transaction yet refuses to abort it.
        producer.flush(10)
        (producer.abort_transaction if random_.random() < 0.3 else producer.commit_transaction)(10)
    even = [Message(random_.randbytes(1000), partition=n % partitions) for n in range(4000 * partitions)]
    produce(config, topic, even, batch_num_messages=4)
    async with Proxy(flow.source.brokers[0].port) as proxy:
        proxy.delay_s = DELAY_S
        ports = {flow.source.brokers[0].port: proxy.port}
        engine = await flow.engine(advertised=lambda host, port: (host, ports.get(port, port)), fetch=SMALL_ANSWERS)
        engine.assign(await flow.assignments([topic]))
        await engine.until(lambda: engine.records > 1000, 30, "a thousand records")
        (copying,) = engine.core._flows.values()
        assert len(copying._loops._fetchers) == partitions, "a connection for each partition"
        proxy.cut()
        await engine.until(lambda: engine.records > 2000, 30, "a thousand more")
        proxy.cut()
        await engine.caught_up()
        await engine.stop()
    assert engine.stops == []
    assert_equal_copies(config, flow.target.confluent_config(), topic, remote)
