"""A partition that is assigned to the replicator that has it already starts over, with the new epoch."""

from __future__ import annotations

from mirror_ray.config.settings import FetchSettings
from mirror_ray.model.names import TopicPartition
from tests.support.clusters import TopicMaker
from tests.support.kafka import produce, sample_messages
from tests.support.reading import assert_equal_copies
from tests.support.replicated import Replicated


async def test_assigned_again_at_once_and_in_full_flight(flow: Replicated, make_topic: TopicMaker) -> None:
    """The newest assignment alone copies and reports; nothing is lost, doubled, or kept in memory of the older ones."""
    topic = make_topic(flow.source, 2)
    remote = flow.remote(topic, 2)
    config = flow.source.confluent_config()
    produce(config, topic, sample_messages(20_000, partitions=2), batch_num_messages=50)
    engine = await flow.engine(fetch=FetchSettings(max_bytes=50_000, max_partition_bytes=20_000))
    partitions = [TopicPartition(topic, number) for number in range(2)]
    for _ in range(2):
        engine.assign(await flow.assignments([topic]))
    for end in (1_000, 3_000):
        await engine.reached(dict.fromkeys(partitions, end))
        last = await flow.assignments([topic])
        engine.assign(last)
    newest = [assignment.epoch for assignment in last]
    await engine.until(
        lambda: [engine.reports[partition].epoch for partition in partitions] == newest, 10, "newest epochs"
    )
    told = [event for event in engine.events if f"{topic}-0 given up: it was handed out with epoch" in event]
    assert len(told) == 3, "one for each assignment that another one followed"
    await engine.caught_up()
    produce(config, topic, sample_messages(200, partitions=2, first=20_000))
    await engine.reached(dict.fromkeys(partitions, 10_100))
    (copier,) = engine.core._flows.values()
    assert len(copier._life.retries) == len(copier._loops._fetching) == len(copier._loops._sending) == 2
    await engine.stop()
    assert copier.budget.used_bytes == 0
    assert_equal_copies(config, flow.target.confluent_config(), topic, remote)
