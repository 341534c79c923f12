"""A whole system in this process and on this event loop: the real coordinator and engine, real Kafka, and no Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Self, TypeVar

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.dependencies import Dependencies
from mirror_ray.coordinator.flow_clusters import KafkaFlowClusters
from mirror_ray.coordinator.ports import ReplicatorPort
from mirror_ray.coordinator.service import CoordinatorService
from mirror_ray.coordinator.timing import CoordinatorTiming
from mirror_ray.groups.service import GroupSyncService
from mirror_ray.kafka.audit_logs import AuditLogs
from mirror_ray.model.names import FlowName
from mirror_ray.model.schema_need import SchemaNeed
from mirror_ray.observe.events import GapStatus
from mirror_ray.observe.groups import CheckpointReport
from mirror_ray.observe.schemas import SchemaReport
from mirror_ray.observe.status import PartitionStatus
from mirror_ray.registry.service import SchemaSyncService
from mirror_ray.replication.engine import ReplicationEngine
from mirror_ray.replication.service import ReplicatorService
from mirror_ray.state.actor_names import replicator_name
from mirror_ray.topics.port import KafkaTopicPort
from tests.support.factories import audit_logs
from tests.support.waiting import wait_until_async
from tests.unit.coordinator.fake_ray import FakeHelpers, FakeMemory, FakeNodes

#: On a machine that is busy otherwise.
TIMEOUT_S = 60.0

T = TypeVar("T")


class LocalReplicator(ReplicatorService):
    """A replicator in this process; killing it leaves nothing behind but its connections' ends."""

    async def kill(self) -> None:
        if self._engine is not None:
            await self._engine.stop(0.0)

    async def seen_dead(self) -> bool:
        return True


class LocalSpawner:
    """Makes replicators in this process."""

    async def spawn(self, number: int, settings: MirrorSettings, fingerprint: str) -> ReplicatorPort:
        name = replicator_name("local", number)
        return LocalReplicator(settings, fingerprint, name, engine=ReplicationEngine, node="here", node_id="here")

    async def living(self) -> Mapping[int, ReplicatorPort]:
        return {}


class LocalCheckpoint(GroupSyncService):
    """The checkpoint actor in this process."""

    def __init__(self, audit_logs: AuditLogs, settings: MirrorSettings) -> None:
        super().__init__(audit_logs)
        self._wanted = settings

    async def report(self) -> CheckpointReport:
        await self.configure(self._wanted)
        return await super().report()


class LocalSchemas(SchemaSyncService):
    """The schema sync in this process."""

    def wanting(self, settings: MirrorSettings) -> Self:
        """From its next report on it works by these settings."""
        self._wanted = settings
        return self

    async def report(self, needs: Collection[SchemaNeed], running: Collection[FlowName]) -> SchemaReport:
        await self.configure(self._wanted)
        return await super().report(needs, running)


class LocalSystem:
    """An async context manager: starts the flows of ``settings``, and takes the system down at the end.

    ``groups``: consumer groups are carried over. ``prefix_kept_s``: how long a log that was brought to where its source
    begins is left alone; brokers that die earlier may forget it.
    """

    def __init__(self, settings: MirrorSettings, *, groups: bool = False, prefix_kept_s: float = 0.0) -> None:
        self.settings = settings
        logs = self.audit_logs = audit_logs()
        schemas = LocalSchemas(logs)
        self.coordinator = CoordinatorService(
            "local",
            Dependencies(
                spawner=LocalSpawner(),
                flow_port=partial(KafkaFlowClusters, audit_logs=logs),
                topic_port=lambda settings, flow: KafkaTopicPort(settings, flow, logs.of(settings, flow.name)),
                heartbeat=lambda _settings: FakeHelpers(),
                checkpoint=partial(LocalCheckpoint, logs) if groups else lambda _settings: FakeHelpers(),
                schemas=schemas.wanting,
                gateway=lambda _settings: FakeHelpers(),
                settings_store=FakeMemory(),
                audit_logs=logs,
                node="here",
                nodes=FakeNodes(),
                timing=CoordinatorTiming(
                    step_s=0.1, poll_s=0.05, flush_s=0.2, retry_first_s=0.1, prefix_kept_s=prefix_kept_s
                ),
            ),
        )

    async def __aenter__(self) -> Self:
        await self.coordinator.apply(self.settings)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.coordinator.down(20.0)

    async def partition(self, topic: str, flow: str = "A->B") -> PartitionStatus | None:
        """Partition 0 of the topic, once it is known."""
        lines = await self.coordinator.partitions(flow)
        return next((line for line in lines if line.topic == topic), None)

    async def caught_up(self, topic: str, position: int, flow: str = "A->B") -> None:
        """Wait until partition 0 of the topic copies and has come to ``position``."""

        async def done() -> bool:
            line = await self.partition(topic, flow)
            return line is not None and line.state == "copying" and line.position >= position and line.lag_records == 0

        await self.wait(done, f"{topic} copied up to {position}")

    async def troubled(self, topic: str, kind: str) -> PartitionStatus:
        """Wait until partition 0 of the topic is in trouble of that kind, and shows it; returns its line."""
        found: list[PartitionStatus] = []

        async def shown() -> bool:
            line = await self.partition(topic)
            found[:] = [line] if line is not None and line.trouble == kind else []
            return bool(found)

        await self.wait(shown, f"{topic} in trouble: {kind}")
        return found[0]

    async def gaps(self, topic: str, count: int) -> list[GapStatus]:
        """The gaps of the topic, once there are ``count``."""
        found: list[GapStatus] = []

        async def done() -> bool:
            found[:] = [gap for gap in await self.coordinator.gaps() if gap.topic == topic]
            return len(found) >= count

        await self.wait(done, f"{count} gaps of {topic}")
        return found

    async def answers(self, topic: str, count: int = 1) -> list[tuple[str, str]]:
        """Kind and policy of each gap of the topic, once there are ``count``."""
        return [(gap.kind, gap.policy) for gap in await self.gaps(topic, count)]

    async def wait(self, condition: Callable[[], Awaitable[bool]], message: str, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until ``condition`` is true; an error says what the system said."""
        try:
            await wait_until_async(condition, timeout_s, message)
        except AssertionError as error:
            found = (
                *await self.coordinator.partitions(),
                *await self.coordinator.groups(),
                *await self.coordinator.events(30),
            )
            told = [str(item) for item in found]
            raise AssertionError("\n".join([str(error), *told])) from None


async def aside(call: Callable[[], T]) -> T:
    """A blocking call that must not hold up the system."""
    return await asyncio.to_thread(call)
