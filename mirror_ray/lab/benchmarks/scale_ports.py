"""The ports of a coordinator between ``scale_stubs``."""

# ruff: noqa: ARG002, ARG005 - ports have more parameters than stubs need

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mirror_ray.config.internal_topics import InternalTopic
from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror_ray.coordinator.dependencies import Dependencies
from mirror_ray.coordinator.flow_clusters import KafkaFlowClusters
from mirror_ray.coordinator.ports import Nodes, ReplicatorPort
from mirror_ray.coordinator.timing import CoordinatorTiming
from mirror_ray.kafka.audit_log import UNRECORDED, AuditLog
from mirror_ray.kafka.audit_logs import AuditLogs
from mirror_ray.kafka.state_topic import encode_document
from mirror_ray.lab.benchmarks.scale_stubs import Caller, ScaleShape, ask
from mirror_ray.model.acls import Acl
from mirror_ray.model.assignment import Assignment, PartitionReport, ReplicatorReport
from mirror_ray.model.audit import AuditPrincipal
from mirror_ray.model.cluster_change import ConfigChange
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import FlowName, FlowPartition
from mirror_ray.model.notice import Notice
from mirror_ray.model.quota import QuotaShare
from mirror_ray.model.replicator_health import ReplicatorHealth
from mirror_ray.model.schema_need import SchemaNeed
from mirror_ray.model.topics import ConfigValue, NewRemoteTopic
from mirror_ray.observe.groups import CheckpointReport, FlowGroups, GroupStatus
from mirror_ray.observe.schemas import SchemaReport, SchemaStatus
from mirror_ray.offsets.translation import Translation
from mirror_ray.state.actor_names import replicator_name
from mirror_ray.state.schema import Document
from mirror_ray.topics.acl_sync import AclChanges
from mirror_ray.topics.remote_topics import Configs

SYSTEM = "scale"
#: Ten times as long as usual: on a machine that is shared the stubs may be late.
_PATIENT = CoordinatorTiming(exchange_timeout_s=30.0, silent_s=50.0, unresponsive_s=150.0, start_timeout_s=600.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleWorld:
    """Where everything around the coordinator is."""

    shape: ScaleShape
    #: By alias.
    addresses: Mapping[str, str]
    clusters_path: str
    fleet_path: str
    settings_file: Path
    groups: int

    def settings(self) -> MirrorSettings:
        """All flows; nothing is listened to."""
        clusters = {
            alias: ClusterSettings(alias=alias, bootstrap_servers=(address,))
            for alias, address in self.addresses.items()
        }
        flows = [
            FlowSettings.model_validate({"name": name, "enabled": True, "topics": {"include": ("topic-.*",)}})
            for name in self.shape.flows
        ]
        gateway = {"enabled": False}
        return MirrorSettings.model_validate({"clusters": clusters, "flows": tuple(flows), "gateway": gateway})

    def dependencies(self) -> Dependencies:
        """What a coordinator is made with."""
        return Dependencies(
            spawner=FleetSpawner(self.fleet_path),
            flow_port=self._flow_port,
            topic_port=lambda settings, flow: NoTopicSync(),
            heartbeat=Heartbeats,
            checkpoint=lambda settings: Checkpoints(settings, self.groups),
            schemas=lambda settings: NoSchemas(),
            gateway=lambda settings: NoGateway(),
            settings_store=SettingsFile(self.settings_file),
            audit_logs=NoAuditLogs(AuditPrincipal(system=SYSTEM, component="coordinator")),
            node="bench",
            nodes=EnoughNodes(),
            cluster_id=_cluster_id,
            timing=_PATIENT,
        )

    def _flow_port(self, settings: MirrorSettings, flow: FlowSettings) -> ScaleFlowClusters:
        return ScaleFlowClusters(settings, flow, self)


class ScaleFlowClusters(KafkaFlowClusters):
    """Metadata and offsets from stubs at the wire; administration and state by calls to them."""

    def __init__(self, settings: MirrorSettings, flow: FlowSettings, world: ScaleWorld) -> None:
        audit_logs = NoAuditLogs(AuditPrincipal(system=SYSTEM, component="coordinator"))
        super().__init__(settings, flow, audit_logs)
        name = flow.name
        self._store = StubStore(world.clusters_path, str(name))  # type: ignore[assignment]
        self._source_admin = StubAdmin(world.clusters_path, name.source)  # type: ignore[assignment]
        self._target_admin = StubAdmin(world.clusters_path, name.target)  # type: ignore[assignment]


class StubStore:
    """A flow's state topic, with keys and values as they are in Kafka; nobody fences anybody."""

    def __init__(self, path: str, flow: str) -> None:
        self._path, self._flow = path, flow

    def open(self) -> dict[str, Document]:
        kept: dict[bytes, bytes] = ask(self._path, "read", self._flow)
        return {key.decode(): json.loads(value) for key, value in kept.items()}

    def write(self, changes: Mapping[str, Document | None]) -> int:
        records = {key.encode(): encode_document(document) for key, document in changes.items()}
        ask(self._path, "write", self._flow, records)
        return 0

    def close(self) -> None:
        pass


class StubAdmin:
    """What a flow asks of a ``ClusterEditor``."""

    def __init__(self, path: str, alias: str) -> None:
        self._path, self._alias = path, alias

    def try_describe_topic_configs(self, topics: Sequence[str]) -> dict[str, Mapping[str, ConfigValue]]:
        return {topic: {"max.message.bytes": ConfigValue(value="1048588")} for topic in topics}

    def create_topics(self, topics: Sequence[NewRemoteTopic]) -> dict[str, MirrorError | None]:
        ask(self._path, "create", self._alias, {topic.name: topic.partitions for topic in topics})
        return {topic.name: None for topic in topics}

    def create_partitions(self, totals: Mapping[str, int]) -> dict[str, MirrorError | None]:
        return dict.fromkeys(totals)

    def ensure_internal_topics(self, topics: Collection[InternalTopic]) -> dict[str, MirrorError]:
        return {}

    def close(self) -> None:
        pass


class FleetReplicator:
    """A stub replicator as a ``ReplicatorPort``."""

    def __init__(self, path: str, number: int) -> None:
        self._calls, self._number = Caller(path), number

    async def health(self) -> ReplicatorHealth:
        health: ReplicatorHealth = await self._calls.call(self._number, "health")
        return health

    async def configure(self, settings: MirrorSettings, fingerprint: str) -> None:
        await self._calls.call(self._number, "configure", fingerprint)

    async def exchange(
        self, assignments: Sequence[Assignment], *, full: bool, allowances: Sequence[QuotaShare], events_taken: int
    ) -> ReplicatorReport:
        report: ReplicatorReport = await self._calls.call(self._number, "exchange", tuple(assignments), full)
        return report

    async def release(self, partitions: Sequence[FlowPartition], deadline_s: float) -> Sequence[PartitionReport]:
        reports: Sequence[PartitionReport] = await self._calls.call(self._number, "release", tuple(partitions))
        return reports

    async def stop(self, deadline_s: float) -> None:
        pass

    async def kill(self) -> None:
        await self._calls.call("end", self._number)

    async def seen_dead(self) -> bool:
        return False


class FleetSpawner:
    """Starts and finds stub replicators."""

    def __init__(self, path: str) -> None:
        self._path, self._calls = path, Caller(path)

    async def spawn(self, number: int, settings: MirrorSettings, fingerprint: str) -> ReplicatorPort:
        await self._calls.call("spawn", number, replicator_name(SYSTEM, number), fingerprint)
        return FleetReplicator(self._path, number)

    async def living(self) -> Mapping[int, ReplicatorPort]:
        return {number: FleetReplicator(self._path, number) for number in await self._calls.call("living")}


class EnoughNodes:
    """There is room for whatever is wanted."""

    async def probe(self, *_: object) -> Nodes:
        return Nodes(room=1000)

    async def request_room(self, *_: object) -> None:
        pass


class NoTopicSync:
    """Topics whose configs are the same on both sides, without ACLs; `make bench-topics` has what they cost."""

    async def configs(self, remotes: Mapping[str, str]) -> tuple[Mapping[str, Configs], Mapping[str, Configs]]:
        return {topic: {} for topic in remotes}, {remote: {} for remote in remotes.values()}

    async def alter_configs(self, changes: Mapping[str, Sequence[ConfigChange]]) -> Mapping[str, MirrorError | None]:
        return dict.fromkeys(changes)

    async def acls(self) -> tuple[frozenset[Acl] | None, frozenset[Acl] | None]:
        return None, None

    async def source_groups(self) -> Collection[str]:
        return ()

    async def change_acls(self, changes: AclChanges) -> Mapping[Acl, MirrorError | None]:
        return {}


@dataclass
class Heartbeats:
    """Every flow's heartbeat is fresh."""

    settings: MirrorSettings

    async def ages_s(self) -> Mapping[str, float | None]:
        return {str(flow.name): 0.5 for flow in self.settings.flows}

    async def stop(self) -> None:
        pass


@dataclass
class Checkpoints:
    """Every group is synced; `make bench-carry` has what that costs."""

    settings: MirrorSettings
    count: int

    async def report(self) -> CheckpointReport:
        each = self.count // len(self.settings.flows)
        one = FlowGroups(groups=each, untranslated=0, unsynced=0, round_s=0.5, problem=None, age_s=1.0)
        return CheckpointReport(events=(), flows={str(flow.name): one for flow in self.settings.flows})

    async def groups(self, flow: str | None) -> Sequence[GroupStatus]:
        return ()

    async def settle(self, deadline_s: float) -> bool:
        return True

    async def translate(self, flow: str, topic: str, partition: int, offset: int, *, back: bool) -> Translation:
        raise NotImplementedError

    async def stop(self) -> None:
        pass


class NoSchemas:
    """No flow has a registry."""

    async def report(self, needs: Collection[SchemaNeed], running: Collection[FlowName]) -> SchemaReport:
        return SchemaReport(events=(), flows={}, audit={})

    async def schemas(self, flow: str | None) -> Sequence[SchemaStatus]:
        return ()

    async def stop(self) -> None:
        pass


class NoGateway:
    """What a gateway costs is measured apart."""

    async def address(self) -> str:
        return ""

    def notices(self) -> Sequence[Notice]:
        return ()

    async def stop(self) -> None:
        pass


@dataclass
class SettingsFile:
    """Keeps the settings for the next coordinator."""

    path: Path

    async def load(self) -> bytes | None:
        return self.path.read_bytes() if self.path.exists() else None

    async def save(self, blob: bytes | None) -> None:
        self.path.write_bytes(blob or b"")


class NoAuditLogs(AuditLogs):
    """Nothing is recorded."""

    def of(self, settings: MirrorSettings, flow: FlowName, *, operator: str | None = None) -> AuditLog:
        return UNRECORDED


async def _cluster_id(settings: ClusterSettings) -> str:
    return f"stub-{settings.alias}"
