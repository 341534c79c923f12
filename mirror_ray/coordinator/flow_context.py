"""What the parts of one flow share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mirror_ray.coordinator.begun_flows import ClusterIds
from mirror_ray.coordinator.flow_state import FlowState
from mirror_ray.coordinator.ports import Emit, FlowClusters
from mirror_ray.coordinator.remote_topic_writers import RemoteTopicWriters
from mirror_ray.coordinator.timing import CoordinatorTiming
from mirror_ray.model.names import FlowName, FlowPartition, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowContext:
    """A flow's clusters and state, and what the coordinator gives it."""

    name: FlowName
    #: Both clusters and the state topic.
    port: FlowClusters
    state: FlowState
    #: Of a route, the state of its flow, which begins, pauses and changes first.
    live_state: FlowState | None
    #: The clusters that the flow ran between before in this system; it goes on between no others.
    begun: ClusterIds | None
    timing: CoordinatorTiming
    writers: RemoteTopicWriters
    emit: Emit
    #: Milliseconds since the epoch.
    wall_ms: Callable[[], int]
    #: Called whenever other partitions may be wanted.
    changed: Callable[[], None]
    #: Whether no replicator has a partition or may still have it.
    is_free: Callable[[FlowPartition], bool]

    def of(self, partition: TopicPartition) -> FlowPartition:
        """The partition in this flow."""
        return FlowPartition(self.name, *partition)

    def is_unassigned(self, partition: TopicPartition) -> bool:
        """Whether no replicator has the partition or may still have it."""
        return self.is_free(self.of(partition))

    def emit_of(self, level: str, partition: TopicPartition, text: str) -> None:
        """Write an event about a partition."""
        self.emit(level, str(self.of(partition)), text)
