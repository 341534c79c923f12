"""A remote topic with fewer replicas in sync than it demands: refused, not acknowledged, and taken up again by itself."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from mirror_ray.devcluster import DevCluster
from mirror_ray.model.assignment import PartitionReport
from tests.support.clusters import TopicMaker
from tests.support.engine import Replicated
from tests.support.kafka import assert_equal_copies, end_offsets, produce, sample_messages


async def test_too_few_replicas_from_the_beginning(flow: Replicated, make_topic: TopicMaker) -> None:
    """Nothing is written, the reason says so, and copying begins when there are enough."""
    topic = make_topic(flow.source)
    remote = flow.remote(topic, min_insync_replicas="2")
    produce(flow.source.confluent_config(), topic, sample_messages(2_000), batch_num_messages=20)
    engine = await flow.engine()
    engine.assign(await flow.assignments([topic]))
    await engine.until(lambda: _says_why(engine.look().values()), 30, "the reason")
    assert end_offsets(flow.target.confluent_config(), remote) == {0: 0}
    set_min_insync(flow.target, remote, 1)
    await engine.caught_up()
    await engine.stop()
    assert engine.events == []
    assert_equal_copies(flow.source.confluent_config(), flow.target.confluent_config(), topic, remote)


async def test_too_few_replicas_while_copying(flow: Replicated, make_topic: TopicMaker) -> None:
    """A position is what was committed, whatever the leader took of the batches before the one that it refuses."""
    topic = make_topic(flow.source)
    remote = flow.remote(topic)
    source, target = flow.source.confluent_config(), flow.target.confluent_config()
    produce(source, topic, sample_messages(2_000), batch_num_messages=20)
    engine = await flow.engine()
    engine.assign(await flow.assignments([topic]))
    await engine.caught_up()
    set_min_insync(flow.target, remote, 2)
    produce(source, topic, sample_messages(20_000, first=2_000), batch_num_messages=20)
    await engine.until(lambda: _says_why(engine.look().values()), 30, "the reason")
    (report,) = engine.reports.values()
    assert report.anchor.target_offset <= end_offsets(target, remote)[0]
    assert report.position < 22_000
    set_min_insync(flow.target, remote, 1)
    await engine.caught_up()
    await engine.stop()
    assert engine.events == []
    assert_equal_copies(source, target, topic, remote)


def set_min_insync(cluster: DevCluster, topic: str, replicas: int) -> None:
    """Change ``min.insync.replicas``."""
    entry = ConfigEntry("min.insync.replicas", str(replicas), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    AdminClient(cluster.confluent_config()).incremental_alter_configs([resource])[resource].result(30)


def _says_why(reports: Iterable[PartitionReport]) -> bool:
    reasons = [report.reason or "" for report in reports]
    return all("NOT_ENOUGH_REPLICAS" in reason or "min.insync.replicas" in reason for reason in reasons) and bool(
        reasons
    )
