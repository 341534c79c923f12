"""Routes under a running system, on real clusters: errors of records, a merged destination, and other transforms."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_ray.config.settings import MirrorSettings, TopicSettings, TransformSettings
from tests.support.clusters import Clusters, TopicMaker
from tests.support.kafka import Message, create_topic, produce
from tests.support.local import LocalSystem, aside
from tests.support.reading import read_all
from tests.support.systems import settings_of
from tests.support.transforms import by_first, steps, suffix

pytestmark = pytest.mark.timeout(300)

LETTERS = "mm2-ray-dead-letters.A.internal"


def settings(
    clusters: Clusters, topic: str, *found: tuple[str, dict[str, Any]], errors: str = "stop"
) -> MirrorSettings:
    """A flow of two topics, by a pattern, with these transforms."""
    topics = TopicSettings(include=(f"{topic}.*",), refresh_interval_s=0.5)
    transforms = TransformSettings.model_validate(steps(*found, errors=errors, topics=[f"{topic}.*"]))
    return settings_of({"A": clusters.a, "B": clusters.b}, "A->B", topics=topics, transforms=transforms)


async def fill(clusters: Clusters, topic: str, *values: bytes) -> None:
    """Write one record of each value, all in one batch."""
    messages = [Message(value) for value in values]
    await aside(lambda: produce(clusters.a.confluent_config(), topic, messages, linger_ms=200))


async def values(clusters: Clusters, topic: str) -> list[bytes]:
    """What a topic on the target holds."""
    found = await aside(lambda: read_all(clusters.b.confluent_config(), topic))
    return [record.value or b"" for record in found[0]]


async def test_errors_and_changes_of_a_flow_are_those_of_its_routes(clusters: Clusters, make_topic: TopicMaker) -> None:
    """All stop at a bad record and leave it out together; set aside it is once; a change loses and doubles nothing."""
    one = make_topic(clusters.a)
    two = f"{one}-two"
    eu, us = f"{one}-to-eu", f"{one}-to-us"
    await aside(lambda: create_topic(clusters.a.confluent_config(), two))
    await fill(clusters, one, b"e1", b"x1", b"u1")
    await fill(clusters, two, b"e2")
    both = by_first(e=eu, u=us)
    async with LocalSystem(settings(clusters, one, both)) as system:

        async def caught_up(position: int, flows: int = 3) -> None:
            async def done() -> bool:
                lines = [line for line in await system.coordinator.partitions() if line.topic == one]
                there = [line.state == "copying" and line.position == position for line in lines]
                return len(there) == flows and all(there)

            await system.wait(done, f"all have come to {position}")

        async def all_stopped() -> bool:
            lines = [line for line in await system.coordinator.partitions() if line.topic == one]
            return [line.trouble for line in lines] == ["transform_failed"] * 3

        await caught_up(3)
        await fill(clusters, one, b"e3", b"bad", b"x3")
        await system.wait(all_stopped, "all have stopped")
        await system.coordinator.resolve("A->B", one, 0, "skip")
        await caught_up(6)
        await system.coordinator.apply(settings(clusters, one, both, errors="dead_letter"))
        await fill(clusters, one, b"bad too", b"u7")
        await caught_up(8)
        told = await aside(lambda: read_all(clusters.b.confluent_config(), LETTERS))
        assert [record.value for record in told[0] if ("__connect.errors.topic", one.encode()) in record.headers] == [
            b"bad too"
        ]
        # Both topics have filled one partition by now, and one of the routes goes.
        await fill(clusters, two, b"e4", b"x4")
        await fill(clusters, one, b"u8", b"x8")
        await system.coordinator.apply(settings(clusters, one, by_first(e=eu, u=""), suffix("!")))
        await fill(clusters, one, b"e9", b"u9")
        await caught_up(12, flows=2)
    merged = await values(clusters, eu)
    assert sorted(value.rstrip(b"!") for value in merged) == [b"e1", b"e2", b"e3", b"e4", b"e9"]
    assert [value for value in merged if value[1:2] in b"139"] == [b"e1", b"e3", b"e9!"]
    own, away = await values(clusters, f"A.{one}"), await values(clusters, us)
    # By one or the other, whichever held when it was copied.
    assert [value.rstrip(b"!") for value in own if not value.startswith(b"u8")] == [b"x1", b"x3", b"x8", b"u9"]
    assert [value for value in own if value.startswith(b"u8")] + away in ([b"u1", b"u7", b"u8"], [b"u8!", b"u1", b"u7"])
