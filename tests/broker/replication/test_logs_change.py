"""Source and target change under a copy: each change is named by its kind, and nothing wrong is written."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from tests.support.clusters import TopicMaker
from tests.support.engine import Engine
from tests.support.kafka import Message, delete_records, produce, sample_messages
from tests.support.reading import Record, assert_equal_copies, read_all
from tests.support.replicated import Replicated
from tests.support.waiting import wait_until


@pytest.mark.parametrize(
    ("both", "all_replaced"),
    [(False, False), (True, False), (True, True)],
    ids=["the source alone", "both sides", "both sides, all that was copied"],
)
async def test_cleaned_between_crash_and_takeover(
    flow: Replicated, make_topic: TopicMaker, both: bool, all_replaced: bool
) -> None:
    """The anchor is old, what is behind it was compacted: nothing is copied twice, nothing is left out."""
    eager = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.ms": "200",
        "max.compaction.lag.ms": "200",
    }
    topic = make_topic(flow.source, 1, eager)
    same: dict[str, Any] = {key.replace(".", "_"): value for key, value in eager.items()}
    remote = flow.remote(topic, **(same if both else {}))
    config, target = flow.source.confluent_config(), flow.target.confluent_config()
    engine = await flow.engine()
    engine.assign(await flow.assignments([topic]))
    for first in (0, 150):
        produce(config, topic, keyed(first, 150), batch_num_messages=10)
        await engine.reached({TopicPartition(topic, 0): first + 150})
        await asyncio.sleep(0.5)
    await engine.crash()
    end = 320
    produce(config, topic, keyed(300, 20), batch_num_messages=10)
    if all_replaced:
        await asyncio.sleep(0.5)
        end = 340
        produce(config, topic, keyed(320, 20), batch_num_messages=10)

    def cleaned() -> bool:
        there, left = len(read_all(target, remote)[0]), numbers_in(read_all(config, topic)[0])
        fits = left[0] >= 300 if all_replaced else len(left) < 100
        return fits and (there < 250 if both else there == 300)

    await asyncio.to_thread(wait_until, cleaned, 60, "it was cleaned")
    copied = read_all(target, remote)[0]
    engine = await flow.engine()
    engine.assign(await flow.assignments([topic]))
    await engine.caught_up()
    await engine.stop()
    found = read_all(target, remote)[0]
    if not both:
        assert found[:300] == copied
    numbers = [number for number in numbers_in(found) if number >= 300]
    assert numbers == sorted(set(numbers))
    assert set(range(end - 10, end)) <= set(numbers) <= set(range(300, end))
    # Cleaning may have gone on; nothing that was copied before has come again.
    behind = numbers_in(found)[: -len(numbers)]
    assert behind == sorted(set(behind))
    assert set(behind) <= set(numbers_in(copied))


def numbers_in(records: list[Record]) -> list[int]:
    """Of what ``keyed`` made."""
    return [int((record.value or b"").split()[0]) for record in records]


async def test_shared_remote_topic(flow: Replicated, make_topic: TopicMaker) -> None:
    """Two sources and somebody else write one remote partition, the copier crashes: each is there once, in order."""
    topics = [make_topic(flow.source) for _ in range(2)]
    remote = flow.remote(topics[0])
    flow.remote(topics[1])
    config, target = flow.source.confluent_config(), flow.target.confluent_config()
    ids = (await flow.assignments([topics[0]]))[0]
    producers = {topic: await flow.new_producer() for topic in topics}

    async def assign(engine: Engine, anchors: dict[TopicPartition, OffsetPair]) -> None:
        engine.assign(
            [
                replace(
                    assignment,
                    target=ids.target,
                    target_topic_id=ids.target_topic_id,
                    shared=True,
                    producer_id=producers[assignment.partition.topic][0],
                    producer_epoch=producers[assignment.partition.topic][1],
                )
                for assignment in await flow.assignments(topics, anchors)
            ]
        )

    start = {TopicPartition(topic, 0): OffsetPair(0, 0, 0) for topic in topics}
    for round_number in range(3):
        engine = await flow.engine()
        await assign(engine, start)
        for number, topic in enumerate(topics):
            values = [Message(f"{number} {100 * round_number + n}".encode()) for n in range(100)]
            produce(config, topic, values, batch_num_messages=10)
            produce(target, remote, [Message(b"foreign %d" % round_number)] * 5)
        await engine.caught_up()
        await engine.crash()
    found = [record.value or b"" for record in read_all(target, remote)[0]]
    for number in range(2):
        ours = [int(value.split()[1]) for value in found if value.startswith(b"%d " % number)]
        assert ours == list(range(300))
    assert sum(value.startswith(b"foreign") for value in found) == 30


async def test_at_least_once_needs_no_producer_id(flow: Replicated, make_topic: TopicMaker) -> None:
    """Without a producer id everything is copied in order; a takeover from an old anchor finds its place by content."""
    topic = make_topic(flow.source)
    remote = flow.remote(topic)
    for first in (0, 50):
        produce(flow.source.confluent_config(), topic, sample_messages(50, first=first), batch_num_messages=7)
        engine = await flow.engine()
        engine.assign(
            [replace(assignment, producer_id=-1, producer_epoch=-1) for assignment in await flow.assignments([topic])]
        )
        await engine.caught_up()
        await engine.stop()
    assert_equal_copies(flow.source.confluent_config(), flow.target.confluent_config(), topic, remote)


async def test_at_least_once_passes_over_nothing_for_what_others_wrote(
    flow: Replicated, make_topic: TopicMaker
) -> None:
    """Foreign records that were deleted are not taken for copies: as many of the source would never be copied."""
    topic = make_topic(flow.source)
    remote = flow.remote(topic)
    produce(flow.target.confluent_config(), remote, sample_messages(20, first=900))
    delete_records(flow.target.confluent_config(), remote, 20)
    produce(flow.source.confluent_config(), topic, sample_messages(50), batch_num_messages=7)
    engine = await flow.engine()
    engine.assign(
        [replace(assignment, producer_id=-1, producer_epoch=-1) for assignment in await flow.assignments([topic])]
    )
    await engine.caught_up()
    await engine.stop()
    assert_equal_copies(flow.source.confluent_config(), flow.target.confluent_config(), topic, remote)


def keyed(first: int, count: int) -> list[Message]:
    """Numbered records with seven keys."""
    return [Message(b"%d %s" % (number, b"x" * 100), b"%d" % (number % 7)) for number in range(first, first + count)]
