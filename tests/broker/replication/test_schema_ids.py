"""Schema ids in records are translated by what the flow's topic on the target says, through kills and waits."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from typing import Any, Final

import pytest

from mirror_ray.config.settings import SchemaSettings, TransformSettings
from mirror_ray.model.internal_topics import schemas_topic
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.schema_need import SchemaNeed
from mirror_ray.records.schema_id_records import FieldDecision, IdTranslation, SchemaIdEntry, encode
from mirror_ray.transforms.schema_ids import IDENTITY
from tests.support.clusters import TopicMaker
from tests.support.engine import Engine
from tests.support.kafka import Message, append, produce
from tests.support.reading import read_all
from tests.support.replicated import FLOW, Replicated

SCHEMAS: Final = SchemaSettings(sync_enabled=True, ids="translated", wait_ms=1000)
#: Each test has ids of its own: all of them share the topic.
_ids = random.Random(28)


def new_ids(count: int) -> list[int]:
    """Ids that no other test has."""
    return [_ids.randrange(1000, 1 << 30) for _ in range(count)]


def framed(number: int, text: str) -> bytes:
    """As a serializer writes it."""
    return b"\x00" + number.to_bytes(4, "big") + text.encode()


async def write(flow: Replicated, *entries: SchemaIdEntry) -> None:
    """As the flow's schema sync does."""
    messages = [Message(value, key) for key, value in map(encode, entries)]
    await asyncio.to_thread(append, flow.target.confluent_config(), schemas_topic("A"), messages)


async def fill(flow: Replicated, topic: str, values: Sequence[bytes], **options: Any) -> None:
    """One record of each, in order."""
    messages = [Message(value, b"k") for value in values]
    await asyncio.to_thread(produce, flow.source.confluent_config(), topic, messages, **options)


async def copied(flow: Replicated, topic: str) -> list[bytes | None]:
    """The values of the remote topic."""
    found = await asyncio.to_thread(read_all, flow.target.confluent_config(), f"A.{topic}")
    return [record.value for record in found[0]]


async def started(flow: Replicated, topic: str, errors: str = "stop") -> Engine:
    """A replicator's core that translates."""
    transforms = TransformSettings.model_validate({"errors": errors})
    engine = await flow.engine(schemas=SCHEMAS, transforms=transforms)
    engine.assign(await flow.assignments([topic], transforms=IDENTITY))
    return engine


def decided(topic: str) -> tuple[SchemaIdEntry, ...]:
    """Values alone are framed."""
    return FieldDecision(topic, "key", False), FieldDecision(topic, "value", True)


@pytest.mark.parametrize("batch_records", [1, 7])
async def test_each_record_once_and_translated_through_kills(
    flow: Replicated, make_topic: TopicMaker, batch_records: int
) -> None:
    """Ids become known one after the other, while the replicator is killed again and again."""
    topic = make_topic(flow.source)
    flow.remote(topic)
    sources, targets = new_ids(6), new_ids(6)
    values = [framed(sources[min(n // 50, 5)], str(n)) if n % 10 else b"plain %d" % n for n in range(360)]
    wanted = [framed(targets[min(n // 50, 5)], str(n)) if n % 10 else b"plain %d" % n for n in range(360)]
    await fill(flow, topic, values, batch_num_messages=batch_records)
    await write(flow, *decided(topic))
    partition = TopicPartition(topic, 0)
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        engine = await started(flow, topic)
        # Where the ids so far end; their first record is no framed one.
        await engine.reached({partition: 50 * number + 1})
        report = engine.reports[partition]
        assert (report.position, report.state) == (50 * number + 1, "copying")
        await write(flow, IdTranslation(source, target))
        await engine.reached({partition: min(50 * number + 20, 360)})
        await engine.crash()
    engine = await started(flow, topic)
    await engine.caught_up()
    await engine.stop()
    assert await copied(flow, topic) == wanted


async def test_a_missing_id_is_told_and_waited_for(flow: Replicated, make_topic: TopicMaker) -> None:
    """It is a need in the report, after a while the partition is shown as stopped; it goes on within a second."""
    topic = make_topic(flow.source)
    flow.remote(topic)
    known, late, target, late_target = new_ids(4)
    await write(flow, *decided(topic), IdTranslation(known, target))
    await fill(flow, topic, [framed(known, "a"), framed(known, "b"), framed(late, "c"), framed(known, "d")])
    engine = await started(flow, topic)
    partition = TopicPartition(topic, 0)
    text = await engine.stopped(partition)
    assert f"offset 2 of source partition {partition} has schema id {late}" in text
    assert engine.reports[partition].position == 2
    assert engine.core.report().schema_needs == (SchemaNeed(FLOW, topic, "value", late),)
    assert await copied(flow, topic) == [framed(target, "a"), framed(target, "b")]
    await write(flow, IdTranslation(late, late_target))
    written_s = time.monotonic()
    await engine.caught_up(10)
    assert time.monotonic() - written_s < 1
    assert engine.reports[partition].state == "copying"
    assert not engine.core.report().schema_needs
    await engine.stop()
    assert (await copied(flow, topic))[2:] == [framed(late_target, "c"), framed(target, "d")]


async def test_an_absent_id_follows_the_policy(flow: Replicated, make_topic: TopicMaker) -> None:
    """The record is left out, and the event log says so; or the partition stops."""
    known, absent, target = new_ids(3)
    await write(flow, IdTranslation(known, target), IdTranslation(absent, None))
    for errors in ("skip", "stop"):
        topic = make_topic(flow.source)
        flow.remote(topic)
        await write(flow, *decided(topic))
        await fill(flow, topic, [framed(known, "a"), framed(absent, "b"), framed(known, "c")], batch_num_messages=1)
        engine = await started(flow, topic, errors)
        partition = TopicPartition(topic, 0)
        if errors == "stop":
            fault = await engine.troubled(partition, "transform_failed")
            assert f"schema id {absent}, which the source registry does not have" in fault.text
        else:
            await engine.caught_up()
            assert await copied(flow, topic) == [framed(target, "a"), framed(target, "c")]
            assert any("records left out: 1;" in event for event in engine.events)
        await engine.stop()
