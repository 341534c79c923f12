"""With a coordinator: what it knows bounds what is compared, and its gaps account for what differs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.observe.status import PartitionStatus
from mirror_ray.verification.cluster_queries import PartitionQuery, no_system
from mirror_ray.verification.planner import VerifyRequest
from mirror_ray.verification.report import PartitionVerdict
from mirror_ray.verification.run import verify_flow
from tests.broker.test_troubles import fill, settings
from tests.support.clusters import Clusters, TopicMaker
from tests.support.kafka import Message, create_topic, produce
from tests.support.local import LocalSystem, aside
from tests.support.replicated import FLOW

pytestmark = pytest.mark.timeout(300)


async def verdict(settings: MirrorSettings, topic: str, system: LocalSystem | None = None) -> PartitionVerdict:
    """Of the topic's one partition."""
    running = asked(system) if system is not None else no_system
    report = await verify_flow(settings, FLOW, VerifyRequest(topics=(topic,), range_offsets=40), running=running)
    (found,) = report.partitions
    assert report.equal == (found.outcome == "equal")
    return found


def asked(system: LocalSystem) -> PartitionQuery:
    """Asks this system."""

    async def ask() -> Sequence[PartitionStatus]:
        return await system.coordinator.partitions(str(FLOW))

    return ask


async def test_records_of_somebody_else_that_were_accepted(clusters: Clusters, make_topic: TopicMaker) -> None:
    """They differ, by the gap that was recorded; before they were accepted nothing of that was copied."""
    topic = make_topic(clusters.a)
    await fill(clusters.a, topic, 0, 100)
    chosen = settings(clusters, topic, "skip")
    async with LocalSystem(chosen) as system:
        await system.caught_up(topic, 100)
        assert (await verdict(chosen, topic, system)).outcome == "equal"
        await fill(clusters.b, f"A.{topic}", 900, 10)
        await fill(clusters.a, topic, 100, 100)
        await system.caught_up(topic, 200)
        running = await verdict(chosen, topic, system)
    for found in (running, await verdict(chosen, topic)):
        assert found.outcome == "explained", found.plain()
        assert [(difference.kind, difference.target_offset) for difference in found.checked.differences] == [
            ("extra", at) for at in range(100, 110)
        ]
        assert "(known: target_foreign, answered by skip" in found.text
        assert (found.checked.records, found.checked.target_records) == (200, 210)


async def test_a_record_that_was_left_out(clusters: Clusters, make_topic: TopicMaker) -> None:
    """It is missing, by the gap that was recorded."""
    topic = make_topic(clusters.a)
    config = {"max.message.bytes": "20000"}
    await aside(lambda: create_topic(clusters.b.confluent_config(), f"A.{topic}", topic_config=config))
    chosen = settings(clusters, topic, "skip")
    async with LocalSystem(chosen) as system:
        await fill(clusters.a, topic, 0, 30)
        await aside(lambda: produce(clusters.a.confluent_config(), topic, [Message(b"x" * 50_000, b"key")]))
        await fill(clusters.a, topic, 31, 30)
        await system.caught_up(topic, 61)
        found = await verdict(chosen, topic, system)
    assert found.outcome == "explained", found.plain()
    (finding,) = found.checked.differences
    assert (finding.kind, finding.source_offset, finding.target_offset) == ("missing", 30, 30)
    assert "record_refused" in (finding.gap or "")


async def test_since_a_point_in_time(clusters: Clusters, make_topic: TopicMaker) -> None:
    """What is older is not read; nothing is left where all is older."""
    topic = make_topic(clusters.a, topic_config={"retention.ms": "-1"})
    messages = [Message(b"%d" % n, b"key", timestamp_ms=1_700_000_000_000 + n) for n in range(100)]
    await aside(lambda: produce(clusters.a.confluent_config(), topic, messages))
    chosen = settings(clusters, topic, "stop")
    async with LocalSystem(chosen) as system:
        await system.caught_up(topic, 100)
    for since_ms, records in ((1_700_000_000_070, 30), (1_800_000_000_000, 0), (0, 100)):
        report = await verify_flow(chosen, FLOW, VerifyRequest(topics=(topic,), since_ms=since_ms))
        (found,) = report.partitions
        assert (found.outcome, found.checked.records) == ("equal", records)
        assert found.source_from == 100 - records
