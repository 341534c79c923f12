"""``PartitionEvents`` that are written down, and a fetcher that reports them."""

from __future__ import annotations

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.fetch import FetchParameters
from mirror_ray.replication.fetcher import Fetcher
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_transforms import WaitingDeadLetters
from mirror_ray.replication.pipeline import BufferBudget
from mirror_ray.replication.throttle import FetchThrottle


class RecordedEvents:
    """What fetchers, senders and transforms reported."""

    def __init__(self) -> None:
        self.ready: list[PartitionReplication] = []
        self.moved: list[int] = []
        self.committed: list[PartitionReplication] = []
        self.refusals: list[tuple[PartitionReplication, str]] = []
        self.losses: list[PartitionReplication] = []
        self.interruptions: list[str] = []
        self.failures: list[tuple[PartitionReplication, Exception]] = []
        self.reasons: list[str] = []
        self.throttled: list[float] = []

    def fetched(self, copy: PartitionReplication) -> None:
        self.ready.append(copy)

    def leader_moved(self, copy: PartitionReplication, broker_id: int) -> None:
        self.moved.append(broker_id)

    def acknowledged(self, copy: PartitionReplication) -> None:
        self.committed.append(copy)

    def refused(self, copy: PartitionReplication, error: str, message: str | None, *, leader_known: bool) -> None:
        self.refusals.append((copy, error))

    def lost(self, copy: PartitionReplication) -> None:
        self.losses.append(copy)
        copy.lost()

    def interrupted(self, copy: PartitionReplication, reason: str) -> None:
        self.interruptions.append(reason)

    def failed(self, copy: PartitionReplication, error: Exception) -> None:
        self.failures.append((copy, error))

    def dead_letters_written(self, copy: PartitionReplication, letters: WaitingDeadLetters) -> None:
        copy.dead_letters_written(letters)

    def schema_ids_learned(self, copy: PartitionReplication) -> None:
        copy.schema_ids_learned()

    def schema_ids_overdue(self, copy: PartitionReplication) -> None:
        copy.schema_ids_overdue()

    def waiting(self, copy: PartitionReplication, reason: str) -> None:
        self.reasons.append(reason)

    def buffer_freed(self) -> None:
        """Nothing waits for memory."""

    def target_throttled(self, wait_s: float) -> None:
        self.throttled.append(wait_s)


def fetcher_of(cluster: ClusterConnections, events: RecordedEvents) -> Fetcher:
    """A fetcher of broker 1 that asks for as much as fits into a megabyte, and has room for all of it."""
    return Fetcher(
        cluster,
        1,
        FetchParameters(
            max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, max_partition_bytes=1 << 20, read_committed=True, rack=""
        ),
        BufferBudget(1 << 30),
        purpose="test",
        receive_buffer_bytes=-1,
        throttle=FetchThrottle(),
        events=events,
    )
