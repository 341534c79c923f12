"""A flow between two clusters for engines without Ray: this hands out what a coordinator would."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Self

from mirror_ray.config.settings import (
    FetchSettings,
    FlowSettings,
    MirrorSettings,
    OffsetSettings,
    ProduceSettings,
    SchemaSettings,
    SecuritySettings,
    StatisticsSettings,
    TransformSettings,
)
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import PASSING, error_info
from mirror_ray.kafka.leader_requests import LATEST, OffsetAnswer
from mirror_ray.model.assignment import Assignment, PartitionReport
from mirror_ray.model.lease_terms import DEFAULT_LEASE_MS
from mirror_ray.model.names import FlowName, FlowPartition, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.state.records import GrantRecord
from mirror_ray.state.schema import GRANT, state_topic
from tests.support.clusters import KafkaCluster, cluster_settings, ensure_topic
from tests.support.engine import Advertised, Engine
from tests.support.kafka import Message, append, create_topic
from tests.support.waiting import wait_until_async

FLOW = FlowName("A", "B")
MAX_MESSAGE_BYTES = 1_048_588


class Replicated:
    """A flow ``A->B`` between two clusters, with one producer id for all engines that it makes.

    An async context manager: at the end its engines are crashed and its connections closed. ``prefix`` is of the
    remote topics' names.
    """

    def __init__(
        self,
        source: KafkaCluster,
        target: KafkaCluster,
        *,
        prefix: str = "A.",
        source_user: str | None = None,
        target_user: str | None = None,
        security: SecuritySettings | None = None,
    ) -> None:
        self.source, self.target = source, target
        self.prefix = prefix
        self._settings = {
            "A": cluster_settings("A", source, source_user, security),
            "B": cluster_settings("B", target, target_user, security),
        }
        self._security = security
        self._stack = AsyncExitStack()
        self._epochs = itertools.count(1)
        self._state = state_topic(FLOW.source)

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(ensure_topic, self.source, "mm2-offset-syncs.B.internal")
        await asyncio.to_thread(ensure_topic, self.target, "mm2-ray-segments.A.internal")
        await asyncio.to_thread(ensure_topic, self.target, "mm2-ray-stats.A.internal", "delete")
        self._clusters = {
            alias: ClusterConnections(cluster_settings(alias, cluster, security=self._security), "test")
            for alias, cluster in (("A", self.source), ("B", self.target))
        }
        for cluster in self._clusters.values():
            self._stack.push_async_callback(cluster.close)
        self._producer = await self._clusters["B"].init_producer_id()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def new_producer(self) -> tuple[int, int]:
        """A producer id and epoch of the target, for a partition of a shared topic."""
        return await self._clusters["B"].init_producer_id()

    def remote(self, topic: str, partitions: int = 1, replication_factor: int = 1, **config: str) -> str:
        """Create the remote topic, ``A.topic``, on the target; ``config`` has ``_`` for ``.``."""
        return create_topic(
            self.target.confluent_config(),
            self.prefix + topic,
            partitions,
            replication_factor=replication_factor,
            topic_config={key.replace("_", "."): value for key, value in config.items()},
        )

    async def assignments(
        self,
        topics: Collection[str],
        anchors: Mapping[TopicPartition, OffsetPair] | None = None,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        **more: Any,
    ) -> list[Assignment]:
        """Every partition of ``topics``, from the beginning or from ``anchors`` (by source partition)."""
        source = (await self._clusters["A"].refresh(topics)).topics
        target = (await self._clusters["B"].refresh([self.prefix + topic for topic in topics])).topics
        producer_id, producer_epoch = self._producer
        given = [
            Assignment(
                partition=FlowPartition(FLOW, topic, partition),
                source_topic_id=source[topic].topic_id,
                target=TopicPartition(self.prefix + topic, partition),
                target_topic_id=target[self.prefix + topic].topic_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                anchor=(anchors or {}).get(TopicPartition(topic, partition), OffsetPair(0, 0)),
                epoch=next(self._epochs),
                max_message_bytes=max_message_bytes,
                **more,
            )
            for topic in topics
            for partition in source[topic].partitions
        ]
        offset = await asyncio.to_thread(self._write_grants, given)
        return [replace(assignment, state_offset=offset) for assignment in given]

    def _write_grants(self, assignments: Sequence[Assignment]) -> int:
        """As a coordinator does before it hands out; returns the offset of the first one."""
        grants = {
            GRANT.key(given.partition.source): GRANT.write(GrantRecord(epoch=given.epoch, lease_ms=DEFAULT_LEASE_MS))
            for given in assignments
        }
        return append(
            self.target.confluent_config(),
            self._state,
            [Message(json.dumps(document).encode(), key.encode()) for key, document in grants.items()],
            replication_factor=min(3, len(self.target.brokers)),
        )

    def settings(
        self,
        *,
        buffer_bytes: int = 64 << 20,
        fetch: FetchSettings | None = None,
        produce: ProduceSettings | None = None,
        statistics: StatisticsSettings | None = None,
        transforms: TransformSettings | None = None,
        request_timeout_ms: int = 30_000,
        merge: bool = True,
        offsets: OffsetSettings | None = None,
        schemas: SchemaSettings | None = None,
    ) -> MirrorSettings:
        """Settings of the flow alone."""
        flow = FlowSettings(
            name=FLOW,
            enabled=True,
            merge=merge,
            fetch=fetch or FetchSettings(),
            produce=produce or ProduceSettings(),
            statistics=statistics or StatisticsSettings(),
            transforms=transforms or TransformSettings(),
            offsets=offsets or OffsetSettings(),
            schemas=schemas or SchemaSettings(),
        )
        clusters = {
            alias: settings.model_copy(update={"request_timeout_ms": request_timeout_ms})
            for alias, settings in self._settings.items()
        }
        return MirrorSettings(clusters=clusters, flows=(flow,), replicator_buffer_bytes=buffer_bytes)

    async def engine(self, *, advertised: Advertised | None = None, **settings: Any) -> Engine:
        """A replicator's core. ``advertised`` says where a broker is to be reached, by its host and port."""
        engine = Engine(self.settings(**settings), self._source_ends, advertised)
        self._stack.push_async_callback(engine.crash)
        return engine

    async def _source_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The last stable offsets. A broker lists a new topic before it leads all of it: then it is asked again."""
        cluster = self._clusters["A"]

        async def answered() -> Mapping[TopicPartition, OffsetAnswer]:
            answers = await cluster.list_offsets(dict.fromkeys(partitions, LATEST), "read_committed")
            names = {error_info(answer.error_code).name for answer in answers.values() if answer.error_code}
            return {} if names & PASSING else answers

        answers = await wait_until_async(answered, 20, "every partition has its leader") if partitions else {}
        assert not any(answer.error_code for answer in answers.values()), answers
        return {partition: answer.offset for partition, answer in answers.items()}

    async def copy(
        self, topics: Collection[str], timeout_s: float = 30.0, **settings: Any
    ) -> dict[TopicPartition, PartitionReport]:
        """Copy ``topics`` to their end and stop; returns the last reports."""
        engine = await self.engine(**settings)
        engine.assign(await self.assignments(topics))
        reports = await engine.caught_up(timeout_s)
        await engine.stop()
        return reports
