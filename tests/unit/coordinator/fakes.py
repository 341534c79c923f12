"""The world around a coordinator, in memory: nothing here waits longer than a turn of the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror_ray.coordinator.dependencies import Dependencies
from mirror_ray.coordinator.service import CoordinatorService
from mirror_ray.coordinator.timing import CoordinatorTiming
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.audit_logs import AuditLogs
from mirror_ray.model.assignment import Assignment
from mirror_ray.model.audit import AuditEntry, AuditPrincipal, entry_of
from mirror_ray.model.cluster_change import ClusterChange
from mirror_ray.model.names import FlowName, FlowPartition, TopicPartition
from mirror_ray.model.notice import Notice
from mirror_ray.state import schema
from mirror_ray.state.partition_record import PartitionRecord
from tests.unit.coordinator.fake_kafka import FakeFlowPort, FakeKafka, FakeTopicPort
from tests.unit.coordinator.fake_ray import FakeHelpers, FakeMemory, FakeNodes, FakeRay, FakeReplicator, FakeSchemas
from tests.unit.coordinator.virtual_clock import now_s

_T = TypeVar("_T")
FLOW = FlowName("A", "B")
ORDERS, REMOTE = FlowPartition(FLOW, "orders", 0), TopicPartition("A.orders", 0)
#: What the time of day is ahead of the loop's clock.
_EPOCH_S = time.time() - time.monotonic()
#: Shorter than settings allow.
LEASE_MS = 200
QUICK = CoordinatorTiming(
    step_s=0.005,
    poll_s=0.002,
    flush_s=0.005,
    exchange_timeout_s=0.05,
    silent_s=0.03,
    scaling_s=0.01,
    unresponsive_s=0.1,
    start_timeout_s=1.0,
    start_grace_s=1.0,
    respawn_s=0.005,
    drain_s=0.2,
    prefix_kept_s=0.01,
    confirm_s=0.05,
    retry_first_s=0.005,
    retry_most_s=0.01,
    moves_at_once=4,
)


@dataclass
class FakeAuditLog:
    """Keeps what is done in a list."""

    kept: list[AuditEntry]
    operator: str

    def begin(self, changes: Sequence[ClusterChange]) -> list[AuditEntry]:
        who = AuditPrincipal(system="mirror", component="coordinator", operator=self.operator)
        return [entry_of(change, who, str(FLOW), time_ms=1, id_="1", outcome="intended") for change in changes]

    def end(self, entries: Iterable[AuditEntry]) -> None:
        self.kept += entries


class FakeAuditLogs(AuditLogs):
    """The same list for every flow."""

    def __init__(self, kept: list[AuditEntry]) -> None:
        super().__init__(AuditPrincipal(system="mirror", component="coordinator"))
        self._kept = kept

    def of(self, settings: MirrorSettings, flow: FlowName, *, operator: str | None = None) -> AuditLog:
        return FakeAuditLog(self._kept, operator or "")


@dataclass
class World:
    """Everything around a coordinator."""

    kafka: FakeKafka = field(default_factory=FakeKafka)
    memory: FakeMemory = field(default_factory=FakeMemory)
    naming: Callable[[FlowName, str], str] = lambda flow, topic: f"{flow.source}.{topic}"
    timing: CoordinatorTiming = QUICK
    topics: FakeTopicPort = field(default_factory=FakeTopicPort)
    nodes: FakeNodes = field(default_factory=FakeNodes)
    ray: FakeRay = field(init=False)
    #: What operators did, as the audit log has it.
    kept: list[AuditEntry] = field(default_factory=list)
    #: What the gateway is about to report.
    notices: list[Notice] = field(default_factory=list)
    coordinators: list[CoordinatorService] = field(default_factory=list)
    #: What the checkpoint actors were to work by, in turn.
    group_settings: list[MirrorSettings] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ray = FakeRay(self.kafka.log)
        self.schemas = FakeSchemas()

    def coordinator(self) -> CoordinatorService:
        """A new coordinator; an older one should have been abandoned."""
        made = CoordinatorService(
            "mirror",
            Dependencies(
                spawner=self.ray,
                flow_port=lambda settings, flow: FakeFlowPort(
                    self.kafka, settings, flow, lambda topic: self.naming(flow.name, topic)
                ),
                cluster_id=self.kafka.cluster_id,
                topic_port=lambda settings, flow: self.topics,
                heartbeat=lambda settings: FakeHelpers(self.kafka.log),
                checkpoint=self._checkpoint,
                schemas=lambda settings: self.schemas,
                gateway=lambda settings: FakeHelpers(self.kafka.log, self.notices),
                settings_store=self.memory,
                node="here",
                nodes=self.nodes,
                timing=self.timing,
                clock=now_s,
                wall_ms=lambda: int((_EPOCH_S + now_s()) * 1000),
                audit_logs=FakeAuditLogs(self.kept),
            ),
        )
        self.coordinators.append(made)
        return made

    def _checkpoint(self, settings: MirrorSettings) -> FakeHelpers:
        self.group_settings.append(settings)
        return FakeHelpers(self.kafka.log)

    async def running(self, wanted: MirrorSettings | None = None) -> CoordinatorService:
        """A new coordinator with these settings, or those of A->B alone."""
        made = self.coordinator()
        await made.apply(wanted or settings())
        return made

    async def copying(
        self, *topics: str, partitions: int = 1, wanted: MirrorSettings | None = None
    ) -> CoordinatorService:
        """The same, with new topics on A that its first replicator copies."""
        for topic in topics:
            self.kafka.add_topic("A", topic, partitions)
        made = await self.running(wanted)
        await self.until_held(*(partition(topic, number) for topic in topics for number in range(partitions)))
        return made

    async def divided(self, partitions: int) -> tuple[CoordinatorService, dict[int, FakeReplicator]]:
        """A system whose two replicators share a topic of A evenly."""
        self.kafka.add_topic("A", "orders", partitions)
        made, pool = await self.running(settings(replicators=2)), self.ray.replicators
        await eventually(lambda: len(pool) == 2 and len(pool[1].held) == len(pool[2].held) == partitions / 2)
        return made, pool

    async def another(self, former: CoordinatorService | None = None) -> CoordinatorService:
        """A coordinator that goes on with what an earlier one has left; ``former`` is killed first."""
        if former is not None:
            self.abandon(former)
        made = self.coordinator()
        await made.begin()
        return made

    @property
    def first(self) -> FakeReplicator:
        """The replicator with the number 1; a KeyError before it was spawned."""
        return self.ray.replicators[1]

    async def until_held(self, *partitions: FlowPartition) -> None:
        """Wait until the first replicator has these partitions."""
        await eventually(lambda: self.first.held.keys() >= set(partitions))

    async def assigned(self, key: FlowPartition = ORDERS) -> Assignment:
        """The assignment of a partition that the first replicator has, or gets."""
        await self.until_held(key)
        return self.first.assigned[key]

    def record(self, key: FlowPartition = ORDERS) -> PartitionRecord:
        """The partition's record in the state topic."""
        return schema.decode(self.kafka.states[key.flow]).partitions[key.source]

    def abandon(self, coordinator: CoordinatorService) -> None:
        """As SIGKILL would: every task of it ends at once, nothing is said to anybody."""
        del coordinator
        current = asyncio.current_task()
        for task in asyncio.all_tasks():
            if task is not current:
                task.cancel()


def settings(*flows: FlowSettings, replicators: int = 1) -> MirrorSettings:
    """Settings of clusters A, B and C, with these flows or A->B alone."""
    clusters = {alias: ClusterSettings(alias=alias, bootstrap_servers=(f"{alias}:9092",)) for alias in "ABC"}
    made = MirrorSettings(clusters=clusters, flows=flows or (flow(),), replicators=replicators)
    return made.model_copy(update={"lease_ms": LEASE_MS})


def flow(name: str = "A->B", **options: object) -> FlowSettings:
    """A flow that looks for topics every few milliseconds."""
    values: dict[str, object] = {"topics": {"refresh_interval_s": 0.005}, **options}
    return FlowSettings.model_validate({"name": FlowName.parse(name), "enabled": True, **values})


def partition(topic: str, number: int = 0, name: FlowName = FLOW) -> FlowPartition:
    """A partition of the flow A->B."""
    return FlowPartition(name, topic, number)


async def eventually(check: Callable[[], object | Awaitable[object]], timeout_s: float = 15.0) -> None:
    """Wait until ``check`` is true; a KeyError in it means not yet."""
    async with asyncio.timeout(timeout_s):
        while True:
            # A replicator that is looked for may not have been spawned yet.
            with contextlib.suppress(KeyError):
                result = check()
                if isinstance(result, Awaitable):
                    result = await result
                if result:
                    return
            await asyncio.sleep(0.002)


async def shown(query: Callable[[], Awaitable[_T]], check: Callable[[_T], object]) -> _T:
    """What a query of the coordinator answers, once ``check`` is true of it."""
    answer = await query()
    async with asyncio.timeout(15.0):
        while not check(answer):
            await asyncio.sleep(0.002)
            answer = await query()
    return answer


async def texts(coordinator: CoordinatorService) -> list[str]:
    """The texts of all events."""
    return [event.text for event in await coordinator.events(1000)]
