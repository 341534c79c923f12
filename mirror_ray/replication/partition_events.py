"""What fetchers, senders and the dead letter writer report of partitions."""

from __future__ import annotations

from typing import Protocol

from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_transforms import WaitingDeadLetters


class PartitionEvents(Protocol):
    """Listens to one flow's workers. ``Lifecycle`` decides what follows."""

    def fetched(self, copy: PartitionReplication) -> None:
        """Something was fetched: the partition may have something to send, or its position moved."""

    def leader_moved(self, copy: PartitionReplication, broker_id: int) -> None:
        """It is to be fetched from a broker that this one named, or (-1) from wherever the leader is now."""

    def acknowledged(self, copy: PartitionReplication) -> None:
        """The target committed batches, or took some of a partition that does not send any more."""

    def refused(self, copy: PartitionReplication, error: str, message: str | None, *, leader_known: bool) -> None:
        """The target refused a batch, with this Kafka error; ``leader_known``: the metadata has the leader that is."""

    def lost(self, copy: PartitionReplication) -> None:
        """The connection to the target was lost with batches of the partition waiting or in flight."""

    def interrupted(self, copy: PartitionReplication, reason: str) -> None:
        """Something failed that is expected to pass."""

    def failed(self, copy: PartitionReplication, error: Exception) -> None:
        """The partition must not go on."""

    def dead_letters_written(self, copy: PartitionReplication, letters: WaitingDeadLetters) -> None:
        """The dead letter topic has these."""

    def schema_ids_learned(self, copy: PartitionReplication) -> None:
        """More is known of what schema ids become."""

    def schema_ids_overdue(self, copy: PartitionReplication) -> None:
        """The partition waits for long for what a schema id becomes."""

    def waiting(self, copy: PartitionReplication, reason: str) -> None:
        """The partition waits, for this reason."""

    def buffer_freed(self) -> None:
        """An answer of the target came: more may be fetched."""

    def target_throttled(self, wait_s: float) -> None:
        """The target asks for silence of so long."""
