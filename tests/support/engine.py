"""A CopyEngine without Ray and without a coordinator: this hands out what a coordinator would."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Any, Self

from kio.index import load_entity_module
from kio.static.constants import EntityType

from mirror_ray.config.settings import (
    ClusterSettings,
    FetchSettings,
    FlowSettings,
    MirrorSettings,
    ProduceSettings,
    SaslSettings,
    SecuritySettings,
    StatisticsSettings,
    TransformSettings,
)
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.leader_requests import LATEST
from mirror_ray.lab.devcluster import Broker
from mirror_ray.model.assignment import Assignment, PartitionReport
from mirror_ray.model.fault import FaultKind, PartitionFault
from mirror_ray.model.lease_terms import DEFAULT_LEASE_MS
from mirror_ray.model.names import FlowName, FlowPartition, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.records.batch import RecordBatch, iter_batches
from mirror_ray.replication.engine import ReplicationEngine
from mirror_ray.state.records import GrantRecord
from mirror_ray.state.schema import GRANT, state_topic
from tests.support.clusters import KafkaCluster
from tests.support.kafka import Message, append, create_topic, exists

FLOW = FlowName("A", "B")
MAX_MESSAGE_BYTES = 1_048_588
_POLL_S = 0.02

SourceEnds = Callable[[Collection[TopicPartition]], Awaitable[dict[TopicPartition, int]]]
Advertised = Callable[[str, int], tuple[str, int]]


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
        await asyncio.to_thread(ensure_compacted, self.source, "mm2-offset-syncs.B.internal")
        await asyncio.to_thread(ensure_compacted, self.target, "mm2-ray-segments.A.internal")
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
        given = await self._assignments(topics, anchors, max_message_bytes, **more)
        offset = await asyncio.to_thread(self._write_grants, given)
        return [replace(assignment, state_offset=offset) for assignment in given]

    async def _assignments(
        self,
        topics: Collection[str],
        anchors: Mapping[TopicPartition, OffsetPair] | None,
        max_message_bytes: int,
        **more: Any,
    ) -> list[Assignment]:
        source = (await self._clusters["A"].refresh(topics)).topics
        target = (await self._clusters["B"].refresh([self.prefix + topic for topic in topics])).topics
        producer_id, producer_epoch = self._producer
        return [
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

    def _write_grants(self, assignments: Sequence[Assignment]) -> int:
        """As a coordinator does before it hands out; returns the offset of the first one."""
        grants = [
            (
                GRANT.key(assignment.partition.source),
                GRANT.write(GrantRecord(epoch=assignment.epoch, lease_ms=DEFAULT_LEASE_MS)),
            )
            for assignment in assignments
        ]
        return append(
            self.target.confluent_config(),
            self._state,
            [Message(json.dumps(document).encode(), key.encode()) for key, document in grants],
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
    ) -> MirrorSettings:
        """Settings of the flow alone."""
        flow = FlowSettings(
            name=FLOW,
            enabled=True,
            fetch=fetch or FetchSettings(),
            produce=produce or ProduceSettings(),
            statistics=statistics or StatisticsSettings(),
            transforms=transforms or TransformSettings(),
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
        """The last stable offsets."""
        cluster = self._clusters["A"]
        answers = await cluster.list_offsets(dict.fromkeys(partitions, LATEST), "read_committed")
        assert not any(answer.error_code for answer in answers.values()), answers
        return {partition: answer.offset for partition, answer in answers.items()}

    async def copy(self, topics: Collection[str], timeout_s: float = 30.0) -> dict[TopicPartition, PartitionReport]:
        """Copy ``topics`` to their end and stop; returns the last reports."""
        engine = await self.engine()
        engine.assign(await self.assignments(topics))
        reports = await engine.caught_up(timeout_s)
        await engine.stop()
        return reports


class Engine:
    """A running CopyEngine, and what a coordinator would know from its reports."""

    def __init__(self, settings: MirrorSettings, source_ends: SourceEnds, advertised: Advertised | None = None) -> None:
        self.core = ReplicationEngine(settings, "replicator-0", "node")
        self.events: list[str] = []
        self.given_up: list[tuple[FlowPartition, int]] = []
        self.reports: dict[TopicPartition, PartitionReport] = {}
        self.most_buffered_bytes = 0
        self.records = 0
        self._source_ends = source_ends
        self._advertised = advertised
        self._assigned: set[TopicPartition] = set()

    def assign(self, assignments: Sequence[Assignment]) -> None:
        """Hand out."""
        self._assigned |= {assignment.partition.source for assignment in assignments}
        self.core.assign(assignments)
        if self._advertised is not None:
            for flow in self.core._flows.values():
                _readdress(flow._source, self._advertised)
                _readdress(flow._target, self._advertised)

    def look(self) -> dict[TopicPartition, PartitionReport]:
        """Read a report, as a coordinator does every so often."""
        report = self.core.report()
        self.reports |= {partition.partition.source: partition for partition in report.partitions}
        self.events += [text for *_, text in report.events]
        self.given_up += report.given_up
        self.most_buffered_bytes = max(self.most_buffered_bytes, report.buffered_bytes)
        self.records = report.records
        return self.reports

    @property
    def stops(self) -> list[str]:
        """Events that tell of a partition that stopped."""
        return [event for event in self.events if " stopped, tried again later: " in event]

    async def until(self, condition: Callable[[], object], timeout_s: float, what: str) -> None:
        """Read reports until ``condition`` holds."""
        try:
            async with asyncio.timeout(timeout_s):
                self.look()
                while not condition():
                    await asyncio.sleep(_POLL_S)
                    self.look()
        except TimeoutError:
            states = [f"{r.partition}: {r.state} {r.position}/{r.source_end} {r.reason}" for r in self.reports.values()]
            raise AssertionError(f"not within {timeout_s:g} s: {what}; {states[:8]}; {self.events[-8:]}") from None

    async def caught_up(
        self, timeout_s: float = 30.0, but: Collection[TopicPartition] = ()
    ) -> dict[TopicPartition, PartitionReport]:
        """Wait until every partition, except ``but``, is where its source ends now, and says so."""
        ends = await self._source_ends(self._assigned - set(but))
        await self.until(
            lambda: all(_is_caught_up(self.reports.get(p), end) for p, end in ends.items()), timeout_s, "caught up"
        )
        return self.reports

    async def reached(self, ends: Mapping[TopicPartition, int], timeout_s: float = 30.0) -> None:
        """Wait until the positions are at ``ends`` or beyond."""
        await self.until(
            lambda: all(p in self.reports and self.reports[p].position >= end for p, end in ends.items()),
            timeout_s,
            f"positions {ends}",
        )

    async def stopped(self, partition: TopicPartition, timeout_s: float = 20.0) -> str:
        """Wait until ``partition`` has stopped, and return its reason."""
        await self.until(
            lambda: partition in self.reports and self.reports[partition].state == "stopped",
            timeout_s,
            f"{partition} stopped",
        )
        return self.reports[partition].reason or ""

    async def troubled(self, partition: TopicPartition, kind: FaultKind, timeout_s: float = 20.0) -> PartitionFault:
        """Wait until ``partition`` is in that trouble; it is stopped then, and its reason says what the trouble is."""

        def found() -> bool:
            report = self.reports.get(partition)
            return report is not None and report.trouble is not None and report.trouble.kind == kind

        await self.until(found, timeout_s, kind)
        report = self.reports[partition]
        assert report.state == "stopped"
        assert report.trouble is not None
        assert report.reason == report.trouble.text
        assert partition.topic in report.trouble.text
        return report.trouble

    async def stop(self) -> None:
        """Drain and stop."""
        await self.core.stop(10.0)
        self.look()

    async def crash(self) -> None:
        """End it as SIGKILL would: nothing is drained, connections are reset."""
        for flow in self.core._flows.values():
            tasks = [
                flow._task,
                *flow._target_queries._tasks,
                *flow._source_queries._tasks,
                flow._lease._task,
                flow._offset_map._writer._task,
                *((flow._transforms._task,) if flow._transforms._task is not None else ()),
                *((flow._statistics._task, flow._statistics._writer._task) if flow._statistics is not None else ()),
                *(f._task for f in flow._loops._fetchers.values()),
                *(s._task for s in flow._loops._senders.values()),
            ]
            for task in tasks:
                task.cancel()
            for cluster in (flow._source, flow._target):
                for opening in cluster._connections.values():
                    if opening.done() and not opening.cancelled() and opening.exception() is None:
                        opening.result().abort("crashed")
                await cluster.close()
            await asyncio.gather(*tasks, return_exceptions=True)
        self.core._flows.clear()


def ensure_compacted(cluster: KafkaCluster, topic: str) -> None:
    """Create a compacted topic where it is missing, as a coordinator does."""
    ensure_topic(cluster, topic, "compact")


def ensure_topic(cluster: KafkaCluster, topic: str, cleanup_policy: str) -> None:
    """Create an internal topic where it is missing."""
    if not exists(cluster.confluent_config(), topic):
        create_topic(
            cluster.confluent_config(),
            topic,
            replication_factor=min(3, len(cluster.brokers)),
            topic_config={"cleanup.policy": cleanup_policy},
        )


def cluster_settings(
    alias: str, cluster: KafkaCluster, user: str | None = None, security: SecuritySettings | None = None
) -> ClusterSettings:
    """How to get into a cluster; with SASL PLAIN where it asks for that, as ``user`` or as its administrator."""
    if security is None and cluster.security.mechanism == "PLAIN":
        name = user or "admin"
        sasl = SaslSettings.model_validate(
            {"mechanism": "PLAIN", "username": name, "password": cluster.security.users[name]}
        )
        security = SecuritySettings(protocol="SASL_PLAINTEXT", sasl=sasl)
    servers = tuple(cluster.bootstrap.split(","))
    return ClusterSettings(alias=alias, bootstrap_servers=servers, security=security or SecuritySettings())


async def set_quota(cluster: KafkaCluster, kind: str, value: float | None) -> None:
    """Set, or remove, a quota for every client without a user (KIP-546)."""
    connected = ClusterConnections(cluster_settings("quota", cluster), "quota")
    module: Any = load_entity_module("alter_client_quotas", 1, EntityType.request)
    operation = module.OpData(key=kind, value=value or 0.0, remove=value is None)
    who = module.EntityData(entity_type="client-id", entity_name=None)
    try:
        metadata = await connected.refresh([])
        broker = await connected.connect(next(iter(metadata.brokers)), "quota")
        entry = module.EntryData(entity=(who,), ops=(operation,))
        response = await broker.request(module.AlterClientQuotasRequest(entries=(entry,), validate_only=False))
        assert all(int(answer.error_code) == 0 for answer in response.entries), response
    finally:
        await connected.close()


def logged_batches(broker: Broker, topic: str, partition: int = 0) -> list[RecordBatch]:
    """The batches of a partition as they lie on the broker's disk."""
    folder = broker.directory / "data" / f"{topic}-{partition}"
    while True:
        # A cleaner that is at work renames and removes segments: what was listed together is read together, or anew.
        with suppress(FileNotFoundError):
            segments = [file.read_bytes() for file in sorted(folder.glob("*.log"))]
            return [batch for segment in segments if segment for batch in iter_batches(memoryview(segment))]


def _is_caught_up(report: PartitionReport | None, end: int) -> bool:
    return report is not None and report.state == "copying" and end <= report.source_end <= report.position


def _readdress(cluster: ClusterConnections, advertised: Advertised) -> None:
    """Reach each broker by another address than the one it advertises."""
    opened = cluster._open

    async def open_elsewhere(host: str, port: int, *buffers: int, **options: Any) -> Connection:
        connection = await opened(*advertised(host, port), *buffers, **options)
        connection.host, connection.port = host, port
        return connection

    vars(cluster)["_open"] = open_elsewhere
