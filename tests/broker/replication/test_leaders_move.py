"""Partitions move while records are copied: the brokers that led them name the new leaders (KIP-951)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from kio.index import load_entity_module
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.leader_hints import LeaderHint
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model import names
from tests.support.clusters import cluster_settings
from tests.support.kafka import Message, create_topic, produce
from tests.support.reading import assert_equal_copies
from tests.support.replicated import Replicated
from tests.support.waiting import wait_until_async

_WITHIN = i32Timedelta.parse(dt.timedelta(seconds=30))


async def test_the_leader_that_is_named_is_asked(trio: DevCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Source and remote partition move to other brokers, and no connection ends. A follower would still be read."""
    named: dict[names.TopicPartition, LeaderHint] = {}
    take = ClusterConnections.take_leaders

    def taken(self: ClusterConnections, hints: Mapping[names.TopicPartition, LeaderHint], nodes: Any) -> None:
        take(self, hints, nodes)
        named.update({p: hint for p, hint in hints.items() if self.metadata.leader(p) == hint.leader})

    monkeypatch.setattr(ClusterConnections, "take_leaders", taken)
    config = trio.confluent_config()
    topic = create_topic(config, f"moved-{uuid.uuid4().hex[:6]}", 1, replication_factor=2)
    both = [names.TopicPartition(topic, 0), names.TopicPartition(f"A.{topic}", 0)]
    async with Replicated(trio, trio) as flow:
        flow.remote(topic, replication_factor=2)
        engine = await flow.engine()
        engine.assign(await flow.assignments([topic]))
        for turn in range(2):
            produce(config, topic, [Message(b"%d" % n) for n in range(100 * turn, 100 * turn + 100)])
            await engine.caught_up()
            moved = [await _move(trio, partition) for partition in both]
            produce(config, topic, [Message(b"moved %d" % n) for n in range(100)])
            await engine.caught_up()
            assert [named[partition].leader for partition in both] == moved
        await engine.stop()
    assert_equal_copies(config, config, topic, f"A.{topic}")


async def _move(cluster: DevCluster, partition: names.TopicPartition) -> int:
    """Have the partition leave the broker that leads it; returns the next leader."""
    connected = ClusterConnections(cluster_settings("X", cluster), "moves")
    request: Any = load_entity_module("alter_partition_reassignments", 0, EntityType.request)
    try:
        metadata = await connected.refresh([partition.topic])
        known = metadata.partition(partition)
        assert known is not None
        stays = next(replica for replica in known.replicas if replica != known.leader)
        joins = next(broker for broker in metadata.brokers if broker not in known.replicas)
        reassigned = request.ReassignablePartition(partition_index=partition.partition, replicas=(stays, joins))
        topic = request.ReassignableTopic(name=partition.topic, partitions=(reassigned,))
        ordered = request.AlterPartitionReassignmentsRequest(timeout=_WITHIN, topics=(topic,))
        answer = await connected.request(await connected.any_connection(), ordered)
        assert not answer.error_code, answer

        async def moved() -> int:
            now = (await connected.refresh([partition.topic])).partition(partition)
            return now.leader if now and now.leader > 0 and set(now.replicas) == {stays, joins} else 0

        return await wait_until_async(moved, 30, "it has moved")
    finally:
        await connected.close()
