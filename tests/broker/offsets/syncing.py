"""Commits offsets on the source, syncs them once, and crashes what copies them."""

from __future__ import annotations

from collections.abc import Mapping

from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.observe.groups import GroupPartitionStatus
from tests.support.clusters import Clusters
from tests.support.engine import Engine
from tests.support.group_sync import commit_many, group_sync, partition_statuses
from tests.support.kafka import Message, produce, produce_transactions
from tests.support.reading import read_placed
from tests.support.replicated import Replicated


def numbered(first: int, last: int) -> list[Message]:
    """Records whose values are numbers; every fourth one has a key of its own."""
    return [Message(b"%d" % n, b"%d" % (n if n % 4 == 0 else n % 3)) for n in range(first, last)]


async def synced(
    clusters: Clusters, prefix: str, topic: str, offsets: Mapping[str, int]
) -> dict[str, GroupPartitionStatus]:
    """Commit these offsets of the topic's first partition, by group, sync them, and return their status."""
    partition = TopicPartition(topic, 0)
    await commit_many(clusters.a, {f"{prefix}-{name}": {partition: offset} for name, offset in offsets.items()})
    async with group_sync(clusters, f"{prefix}-.*") as sync:
        await sync.round()
        found = partition_statuses(sync)
    return {name: found[f"{prefix}-{name}", partition] for name in offsets}


def targets(found: Mapping[str, GroupPartitionStatus]) -> dict[str, int | None]:
    """What all of them are on the target; all exact."""
    assert all(status.exact for status in found.values()), found
    return {name: status.target_offset for name, status in found.items()}


async def copied_from(flow: Replicated, topic: str, start: OffsetPair) -> None:
    """Copy the topic from there to its end, and stop."""
    engine = await flow.engine()
    engine.assign(await flow.assignments([topic], {TopicPartition(topic, 0): start}))
    await engine.caught_up()
    await engine.stop()


async def crashed(flow: Replicated, engine: Engine, topic: str) -> Engine:
    """Kill it, and let another one go on from where it was last reported to be."""
    engine.look()
    anchors = {partition: report.anchor for partition, report in engine.reports.items()}
    await engine.crash()
    second = await flow.engine()
    second.assign(await flow.assignments([topic], anchors))
    return second


async def crash_unpublished(
    flow: Replicated,
    topic: str,
    before: list[Message],
    transactions: list[tuple[list[Message], bool]],
    *,
    after: list[Message],
) -> None:
    """Copy all three; the segments of the transactions were not published when what copied them crashed."""
    config = flow.source.confluent_config()
    flow.remote(topic)
    engine = await flow.engine()
    produce(config, topic, before)
    engine.assign(await flow.assignments([topic]))
    await engine.caught_up()
    await engine.until(lambda: not unpublished(engine), 20, "published")
    publish_nothing(engine)
    produce_transactions(config, topic, transactions, transactional_id=topic)
    await engine.caught_up()
    engine = await crashed(flow, engine, topic)
    produce(config, topic, after)
    await engine.caught_up()
    await engine.stop()


def target_offsets(clusters: Clusters, topic: str) -> dict[int, int]:
    """Target offset by source offset."""
    pairs = zip(
        read_placed(clusters.a.confluent_config(), topic)[0],
        read_placed(clusters.b.confluent_config(), f"A.{topic}")[0],
        strict=True,
    )
    return {source: target for (source, _), (target, _) in pairs}


def publish_nothing(engine: Engine) -> None:
    """From now on, as if it died before each second was over."""
    for flow in engine.core._flows.values():
        flow._offset_map._writer._task.cancel()


def unpublished(engine: Engine) -> bool:
    """Whether something was acknowledged, and is not in the segments topic yet."""
    copies = [copy for flow in engine.core._flows.values() for copy in flow._offset_map._changed]
    return bool(copies) or any(flow._offset_map._writer._lock.locked() for flow in engine.core._flows.values())
