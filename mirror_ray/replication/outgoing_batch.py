"""What a partition's copy holds in memory, and the account of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_ray.model.offset_pair import SEQUENCE_MODULUS


@dataclass(slots=True)
class OutgoingBatch:
    """A batch that is ready for the target, and what its acknowledgement will mean."""

    view: memoryview
    target_offset: int
    sequence: int
    count: int
    #: Source offset of its first record, or of a hole before it.
    source_first: int
    #: Source position once it is acknowledged; holes that follow it on the source move it on.
    source_next: int
    #: Its records as runs without a hole on the source: (first offset, number of records).
    runs: tuple[tuple[int, int], ...]
    #: The source's leader epoch at that position.
    source_epoch: int
    max_timestamp: int
    size_bytes: int
    #: The codec's number, and bytes that it would have without one, where that is known.
    codec: int = 0
    unpacked_bytes: int = 0

    @property
    def next_sequence(self) -> int:
        """Of the batch behind it."""
        return (self.sequence + self.count) % SEQUENCE_MODULUS


@dataclass(slots=True)
class BufferBudget:
    """Bytes fetched and not yet taken by the target, over all partitions of a flow in one replicator."""

    limit_bytes: int
    used_bytes: int = 0
    #: For answers under way that may be larger than usual.
    reserved_bytes: int = 0

    @property
    def exhausted(self) -> bool:
        """Whether nothing more should be fetched for now."""
        return self.used_bytes >= self.limit_bytes

    @property
    def free_bytes(self) -> int:
        """What is neither used nor reserved; below 0 where answers brought more than there was room for."""
        return self.limit_bytes - self.used_bytes - self.reserved_bytes


@dataclass(slots=True)
class CopyProgress:
    """What was copied by this replicator since it got the partition."""

    records: int = 0
    bytes: int = 0
    last_timestamp_ms: int = -1

    def add(self, done: OutgoingBatch) -> None:
        """Count an acknowledged batch."""
        self.records += done.count
        self.bytes += done.size_bytes
        self.last_timestamp_ms = max(self.last_timestamp_ms, done.max_timestamp)
