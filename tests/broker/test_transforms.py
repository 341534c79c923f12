"""Transforms under a running system, on real clusters: errors of records, and other transforms than before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mirror_ray.config.settings import MirrorSettings, TopicSettings
from mirror_ray.model.names import FlowName
from mirror_ray.verification.planner import VerifyRequest
from mirror_ray.verification.run import verify_flow
from tests.support.clusters import Clusters, TopicMaker, logged_batches
from tests.support.kafka import Message, produce
from tests.support.kernels import needs_kernel
from tests.support.local import LocalSystem, aside
from tests.support.reading import Record, read_all
from tests.support.systems import settings_of
from tests.support.transforms import suffix, transforms

pytestmark = pytest.mark.timeout(300)

LETTERS = "mm2-ray-dead-letters.A.internal"


def settings(
    clusters: Clusters, topic: str, *steps: tuple[str, dict[str, Any]], errors: str = "stop"
) -> MirrorSettings:
    """A flow of one topic with these transforms."""
    topics = TopicSettings(include=(topic,), refresh_interval_s=0.5)
    pair = {"A": clusters.a, "B": clusters.b}
    return settings_of(pair, "A->B", topics=topics, transforms=transforms(*steps, errors=errors))


async def fill(clusters: Clusters, topic: str, *values: bytes) -> None:
    """Write one record of each value, all in one batch."""
    messages = [Message(value, b"k", (("h", b"1"),), timestamp_ms=1_700_000_000_000) for value in values]
    await aside(lambda: produce(clusters.a.confluent_config(), topic, messages, linger_ms=200))


async def values(clusters: Clusters, topic: str) -> list[bytes | None]:
    """What the remote topic holds."""
    return [record.value for record in await held(clusters, f"A.{topic}")]


async def held(clusters: Clusters, topic: str) -> list[Record]:
    """Every record of partition 0 on the target."""
    return (await aside(lambda: read_all(clusters.b.confluent_config(), topic)))[0]


async def test_a_failure_stops_the_partition_until_its_record_is_left_out(
    clusters: Clusters, make_topic: TopicMaker
) -> None:
    """The trouble names the record and the exception; what is before its batch is there, and the gap is recorded."""
    topic = make_topic(clusters.a)
    await fill(clusters, topic, b"a", b"gone", b"b")
    async with LocalSystem(settings(clusters, topic, suffix())) as system:
        await system.caught_up(topic, 3)
        await fill(clusters, topic, b"c", b"bad", b"d")
        line = await system.troubled(topic, "transform_failed")
        assert "offset 4" in (line.reason or "")
        assert "ValueError: can't make anything of b'bad'" in (line.reason or "")
        assert await values(clusters, topic) == [b"a!", b"b!"]
        await system.coordinator.resolve("A->B", topic, 0, "skip")
        await system.caught_up(topic, 6)
        (gap,) = await system.gaps(topic, 1)
        assert (gap.kind, gap.source_from, gap.source_to) == ("transform_failed", 4, 5)
    assert await values(clusters, topic) == [b"a!", b"b!", b"c!", b"d!"]


async def test_failures_go_to_the_dead_letter_topic(clusters: Clusters, make_topic: TopicMaker) -> None:
    """With where they are from and why, in Connect's headers; the others are copied."""
    topic = make_topic(clusters.a)
    await fill(clusters, topic, b"a", b"bad 1", b"b")
    async with LocalSystem(settings(clusters, topic, suffix(), errors="dead_letter")) as system:
        await system.caught_up(topic, 3)
        await fill(clusters, topic, b"bad 2", b"bad 3")
        await system.caught_up(topic, 5)
        await fill(clusters, topic, b"c")
        await system.caught_up(topic, 6)
        told = [event.text for event in await system.coordinator.events()]
        assert any("can't make anything of b'bad 1'" in text and LETTERS in text for text in told)
    assert await values(clusters, topic) == [b"a!", b"b!", b"c!"]
    letters = [letter for letter in await held(clusters, LETTERS) if _header(letter, "topic") == topic]
    assert [letter.value for letter in letters] == [b"bad 1", b"bad 2", b"bad 3"]
    assert [_header(letter, "offset") for letter in letters] == ["1", "3", "4"]
    first = letters[0]
    assert (first.key, first.headers[0]) == (b"k", ("h", b"1"))
    assert _header(first, "exception.class.name") == "ValueError"
    assert _header(first, "timestamp") == "1700000000000"
    assert "_changed" in _header(first, "exception.stacktrace")


def _header(record: Record, name: str) -> str:
    return next((value or b"" for key, value in record.headers if key == f"__connect.errors.{name}"), b"").decode()


async def test_failures_are_skipped_and_counted(clusters: Clusters, make_topic: TopicMaker) -> None:
    """An event says so; verify compares with what the transforms make of the source."""
    topic = make_topic(clusters.a)
    await fill(clusters, topic, b"bad", b"a", b"bad")
    async with LocalSystem(settings(clusters, topic, suffix(), errors="skip")) as system:
        await system.caught_up(topic, 3)
        told = [event.text for event in await system.coordinator.events()]
        assert any("records left out: 2;" in text for text in told)
    assert await values(clusters, topic) == [b"a!"]
    for step, outcome in ((suffix(), "equal"), (suffix("?"), "not_checked")):
        flow = settings(clusters, topic, step, errors="skip")
        report = await verify_flow(flow, FlowName("A", "B"), VerifyRequest(topics=(topic,)))
        assert [partition.outcome for partition in report.partitions] == [outcome]


@needs_kernel
@pytest.mark.parametrize("merge", [True, False])
async def test_small_batches_become_few_of_what_is_left(
    clusters: Clusters, make_topic: TopicMaker, merge: bool
) -> None:
    """Those that waited when the flow began, without what is left out; what failed is in the dead letter topic."""
    topic = make_topic(clusters.a)
    written = [b"%s %d" % ((b"gone", b"a", b"b", b"c")[n % 4] if n % 50 else b"bad", n) for n in range(400)]
    messages = [Message(value, b"k", timestamp_ms=1_700_000_000_000 + n) for n, value in enumerate(written)]
    await aside(lambda: produce(clusters.a.confluent_config(), topic, messages, batch_num_messages=2, linger_ms=50))
    flow = settings(clusters, topic, suffix(), errors="dead_letter")
    flow = flow.model_copy(update={"flows": tuple(each.model_copy(update={"merge": merge}) for each in flow.flows)})
    async with LocalSystem(flow) as system:
        await system.caught_up(topic, 400)
    assert await values(clusters, topic) == [
        value + b"!" for value in written if not value.startswith((b"bad", b"gone"))
    ]
    letters = [letter for letter in await held(clusters, LETTERS) if _header(letter, "topic") == topic]
    assert [letter.value for letter in letters] == [value for value in written if value.startswith(b"bad")]
    batches = len(logged_batches(clusters.b.brokers[0], f"A.{topic}"))
    assert (batches < 20) is merge, batches
    report = await verify_flow(flow, FlowName("A", "B"), VerifyRequest(topics=(topic,)))
    assert [partition.outcome for partition in report.partitions] == ["equal"]


async def test_transforms_are_added_changed_and_removed(clusters: Clusters, make_topic: TopicMaker) -> None:
    """In a running system and from one start to the next; each record is made by those that held when it was copied."""
    topic = make_topic(clusters.a)
    expected: list[bytes] = []
    sequence: Sequence[tuple[tuple[str, dict[str, Any]], ...]] = (
        (),
        (suffix("1"),),
        (suffix("2"), suffix("3")),
        (suffix("4", "Impure"),),
        (),
    )
    for start in (0, 3):
        async with LocalSystem(settings(clusters, topic, *sequence[start])) as system:
            for steps in sequence[start : start + 3]:
                await system.coordinator.apply(settings(clusters, topic, *steps))
                await fill(clusters, topic, b"a", b"b")
                expected += [value + b"".join(o["suffix"].encode() for _, o in steps) for value in (b"a", b"b")]
                await system.caught_up(topic, len(expected))
                assert await values(clusters, topic) == expected
            assert not [gap for gap in await system.coordinator.gaps() if gap.topic == topic]
