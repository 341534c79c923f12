"""What the coordinator calls: Kafka, Ray and the other actors, as protocols that a unit test can fake.

``FlowClusters`` is Kafka as one flow sees it, ``ReplicatorPort`` one replicator process, ``SpawnPort`` Ray.
The real ones are in ``mirror_ray.coordinator.flow_clusters`` and the room ``actors``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.model.assignment import Assignment, PartitionReport, ReplicatorReport
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import FlowName, FlowPartition, TopicPartition
from mirror_ray.model.notice import Notice
from mirror_ray.model.quota import QuotaShare
from mirror_ray.model.replicator_health import ReplicatorHealth
from mirror_ray.model.schema_need import SchemaNeed
from mirror_ray.observe.groups import CheckpointReport, GroupStatus
from mirror_ray.observe.schemas import SchemaReport, SchemaStatus
from mirror_ray.offsets.translation import Translation
from mirror_ray.state.schema import Document
from mirror_ray.topics.discovery_rules import TargetLogBounds, TopicSide

Codec = Literal["gzip", "snappy", "lz4", "zstd"]


class Emit(Protocol):
    """Writes an event."""

    def __call__(self, level: str, subject: str, text: str) -> None:
        """``level`` is info, warning or error; ``subject`` the flow, topic, partition or replicator."""


class ReplicatorGoneError(MirrorError):
    """The replicator's process is dead for sure: its partitions may be assigned to another one at once."""


class ReplicatorLostError(MirrorError):
    """The replicator will not answer again, but nobody has seen it dead: its node is lost, or out of reach."""


class ReplicatorSilentError(MirrorError):
    """The replicator did not answer; it may be alive and writing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTopics:
    """One side of a flow, as of now: its id, and its topics with their partitions' leaders."""

    cluster_id: str
    topics: Mapping[str, TopicSide]
    #: Broker id of each partition's leader, by topic.
    leaders: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLimits:
    """What the target topic's configs mean for the copy."""

    max_message_bytes: int
    compress_with: Codec | None


class FlowClusters(Protocol):
    """Kafka as one flow sees it. Every method may raise a MirrorError; none blocks the event loop."""

    async def open(self) -> Mapping[str, Document]:
        """Open both clusters and the state topic (fencing an older coordinator); return the state."""

    async def observe(self) -> tuple[ClusterTopics, ClusterTopics]:
        """Both clusters with all their topics, fresh."""

    def configure(self, flow: FlowSettings) -> None:
        """Select and create topics by these settings from now on; its clusters stay."""

    def select(self, source: ClusterTopics) -> Mapping[str, str]:
        """The topics of the source that the flow copies, each with the name of its remote topic."""

    async def ensure_remote(
        self, wanted: Mapping[str, str], source: ClusterTopics, target: ClusterTopics
    ) -> tuple[Mapping[str, str], ClusterTopics]:
        """Create or extend what is missing; returns why that failed, by source topic, and the target afterwards."""

    async def limits(self, remote: Sequence[str]) -> Mapping[str, TargetLimits]:
        """Limits of remote topics that exist."""

    async def target_bounds(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, TargetLogBounds]:
        """Start and end of target logs; partitions that can't be asked now are left out."""

    async def source_offsets(
        self, partitions: Sequence[TopicPartition], *, latest: bool
    ) -> Mapping[TopicPartition, int]:
        """First or next offset of source partitions; partitions that can't be asked now are left out."""

    async def offsets_since(self, times_ms: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Offsets of the first records that are as late as that; the next offset where there is none.

        Partitions that can't be asked now are left out.
        """

    async def delete_records(self, before: Mapping[TopicPartition, int], operator: str | None = None) -> None:
        """Delete the records of target partitions below these offsets; idempotent.

        ``operator``: who has decided it, for the audit log.
        """

    async def new_producer(self) -> tuple[int, int]:
        """A producer id and epoch from the target."""

    async def last_producers(self, ends: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Who wrote the last batch of target logs that end there, by producer id; some may be left out."""

    async def fill_prefix(self, partition: TopicPartition, log_end: int, end: int, producer: tuple[int, int]) -> None:
        """Have the log of an empty target partition begin and end at ``end``; it ends at ``log_end`` now."""

    async def end_transactions(self, transactional_ids: Collection[str]) -> None:
        """Fence whoever has these ids on the target; open transactions are aborted, their markers in the logs."""

    async def write_state(self, documents: Mapping[str, Document | None]) -> int:
        """Write in one transaction; None deletes. Raises StateFencedError when another coordinator took over.

        Returns an offset from which on all of it can be read in the state topic; -1 for its start.
        """

    async def forget(self, backfill: str) -> None:
        """Delete the state topic of a backfill that is done, by its id."""

    async def close(self) -> None:
        """Close every connection."""


class ReplicatorPort(Protocol):
    """One replicator. Raises ReplicatorGoneError, ReplicatorLostError or ReplicatorSilentError."""

    async def health(self) -> ReplicatorHealth:
        """Answers once the process is up and ready for assignments."""

    async def configure(self, settings: MirrorSettings, fingerprint: str) -> None:
        """Work by these settings from now on; flows that they don't change never stop."""

    async def exchange(
        self, assignments: Sequence[Assignment], *, full: bool, allowances: Sequence[QuotaShare], events_taken: int
    ) -> ReplicatorReport:
        """Hand over assignments (repeated ones are ignored) and the limits that hold, and take the report.

        ``events_taken``: how many of the process's events are known here; the report leaves them out.
        """

    async def release(self, partitions: Sequence[FlowPartition], deadline_s: float) -> Sequence[PartitionReport]:
        """Drain and release partitions; those that it does not hold are left out of the answer."""

    async def stop(self, deadline_s: float) -> None:
        """Drain everything and close every connection; waits for as long as that takes."""

    async def kill(self) -> None:
        """End the process without asking it."""

    async def seen_dead(self) -> bool:
        """Kill the process where it still lives; whether it was seen dead. May take half a minute."""


class SpawnPort(Protocol):
    """Starts and finds replicators in Ray."""

    async def spawn(self, number: int, settings: MirrorSettings, fingerprint: str) -> ReplicatorPort:
        """Create (or find) replicator ``number``; it may not be up yet."""

    async def living(self) -> Mapping[int, ReplicatorPort]:
        """Replicators of this system that exist already, by number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The nodes that there are, as of now."""

    #: Ids of those that are going away.
    leaving: frozenset[str] = frozenset()
    #: For how many replicators more there is room on the others.
    room: int


class NodesPort(Protocol):
    """The cluster that replicators are placed on. Raises MirrorError where it does not answer."""

    async def probe(self, cpus: float, labels: Mapping[str, str]) -> Nodes:
        """The nodes; room is counted in replicators that take so many CPUs, on nodes that have these labels."""

    async def request_room(self, replicators: int, cpus: float, labels: Mapping[str, str]) -> None:
        """Have the autoscaler make room for so many more on such nodes; 0 withdraws the request."""


class HeartbeatPort(Protocol):
    """The heartbeat actor."""

    async def ages_s(self) -> Mapping[str, float | None]:
        """Seconds since the last acknowledged heartbeat, by flow; None before the first."""

    async def stop(self) -> None:
        """Stop emitting and end the process."""


class GatewayPort(Protocol):
    """The gateway actor."""

    async def address(self) -> str:
        """Where it serves; starts it where it is not up. Raises a MirrorError: it has ended, or can't listen there."""

    def notices(self) -> Sequence[Notice]:
        """Its notices since the last call of ``address``, each once."""

    async def stop(self) -> None:
        """End the process."""


class CheckpointPort(Protocol):
    """The checkpoint actors, as one. A MirrorError of any method: one of them has ended, and is started again."""

    async def report(self) -> CheckpointReport:
        """What happened since the last report."""

    async def groups(self, flow: str | None) -> Sequence[GroupStatus]:
        """Every group, of one flow or of all."""

    async def settle(self, deadline_s: float) -> bool:
        """Sync at once what can be; whether that was done by the deadline."""

    async def translate(self, flow: str, topic: str, partition: int, offset: int, *, back: bool) -> Translation:
        """The target offset that belongs to a source offset; ``back``: the other way round."""

    async def stop(self) -> None:
        """End the processes."""


class SchemaPort(Protocol):
    """The schema sync. A MirrorError of any method: it has ended, and is started again."""

    async def report(self, needs: Collection[SchemaNeed], running: Collection[FlowName]) -> SchemaReport:
        """What happened since the last report.

        ``needs``: what partitions wait for now. ``running``: flows that mirror; the others mirror nothing from then on.
        """

    async def schemas(self, flow: str | None) -> Sequence[SchemaStatus]:
        """Every version of every subject, of one flow or of all."""

    async def stop(self) -> None:
        """End the process."""


class SettingsStore(Protocol):
    """Keeps the settings where a restarted coordinator finds them."""

    async def load(self) -> bytes | None:
        """What was saved last."""

    async def save(self, blob: bytes | None) -> None:
        """Keep ``blob``; None forgets."""
