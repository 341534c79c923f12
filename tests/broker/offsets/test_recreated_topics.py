"""Offsets of a topic that was created anew are not those of the old one."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient

from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.offset_pair import OffsetPair
from tests.broker.offsets.syncing import copied_from, numbered, synced, targets
from tests.support.clusters import Clusters, TopicMaker
from tests.support.kafka import create_topic, delete_records, produce
from tests.support.replicated import Replicated
from tests.support.waiting import wait_until_async


async def test_a_recreated_source_topic(
    clusters: Clusters, flow: Replicated, make_topic: TopicMaker, prefix: str
) -> None:
    """Offsets of the new topic are not looked up in the old one's map; once it is copied, they are behind that."""
    topic = make_topic(clusters.a)
    config = clusters.a.confluent_config()
    produce(config, topic, numbered(0, 20))
    flow.remote(topic)
    await flow.copy([topic])
    assert targets(await synced(clusters, prefix, topic, {"g": 15})) == {"g": 15}
    await _delete(clusters.a, topic)
    create_topic(config, topic)
    produce(config, topic, numbered(20, 30))
    (found,) = (await synced(clusters, prefix, topic, {"g": 3})).values()
    assert (found.target_offset, found.state) == (None, "behind")
    assert found.reason == f"topic {topic} on cluster A was created anew, and nothing of that was copied yet"
    await copied_from(flow, topic, OffsetPair(0, 20))
    assert targets(await synced(clusters, prefix, topic, {"g": 3, "other": 0})) == {"g": 23, "other": 20}


async def test_a_recreated_remote_topic(
    clusters: Clusters, flow: Replicated, make_topic: TopicMaker, prefix: str
) -> None:
    """It is empty: nothing is committed before it was copied again, and then by the new map."""
    topic = make_topic(clusters.a)
    config = clusters.a.confluent_config()
    produce(config, topic, numbered(0, 20))
    flow.remote(topic)
    await flow.copy([topic])
    await _delete(clusters.b, f"A.{topic}")
    (found,) = (await synced(clusters, prefix, topic, {"missing": 5})).values()
    assert found.reason == f"topic A.{topic} on cluster B is missing"
    flow.remote(topic)
    (found,) = (await synced(clusters, prefix, topic, {"empty": 5})).values()
    assert found.target_offset is None
    delete_records(config, topic, 10)
    await copied_from(flow, topic, OffsetPair(10, 0))
    assert targets(await synced(clusters, prefix, topic, {"g": 15, "low": 5})) == {"g": 5, "low": 0}


async def _delete(cluster: DevCluster, topic: str) -> None:
    admin = AdminClient(dict(cluster.confluent_config()))
    admin.delete_topics([topic])[topic].result(30)

    async def gone() -> bool:
        return topic not in admin.list_topics(timeout=30).topics

    await wait_until_async(gone, 30, f"{topic} is gone")
