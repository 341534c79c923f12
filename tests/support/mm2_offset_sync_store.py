"""MM2's own translation of offsets, for its tests and to show the difference. Pure.

Source: ``OffsetSyncStore`` of Kafka 4.3. MM2 keeps 64 pairs of each partition, the newest in slot 0 and ever fewer the
older they are, and never says more of an offset between two pairs than that it lies behind the first one.
"""

from __future__ import annotations

from mirror_ray.model.names import TopicPartition
from mirror_ray.records.mm2_records import OffsetSyncRecord

SLOTS = 64
#: What MM2 answers for an offset below every pair that it kept.
TOO_OLD = -1

Slots = tuple[OffsetSyncRecord, ...]


class Mm2OffsetSyncStore:
    """The pairs of every partition, as a checkpoint task of MM2 holds them.

    ``must_read_to_end``: whether a pair that is read before ``start`` takes the place of all older ones, as MM2 has it
    when it could not read its own checkpoints (KAFKA-15905).
    """

    def __init__(self, *, must_read_to_end: bool = True) -> None:
        self._must_read_to_end = must_read_to_end
        self._started = False
        self._slots: dict[TopicPartition, Slots] = {}

    def start(self) -> None:
        """The offset-syncs topic has been read to its end."""
        self._started = True

    def add(self, sync: OffsetSyncRecord) -> None:
        """The next record of the offset-syncs topic."""
        before = self._slots.get(sync.partition)
        reading = self._must_read_to_end and not self._started
        if before is None or reading or sync.upstream_offset < before[0].upstream_offset:
            self._slots[sync.partition] = (sync,) * SLOTS
        else:
            self._slots[sync.partition] = _inserted(before, sync)

    def slots(self, partition: TopicPartition) -> Slots:
        """A partition's pairs, the newest first; neighbours may be one and the same.

        Raises:
            KeyError: None was read.
        """
        return self._slots[partition]

    def translate(self, partition: TopicPartition, upstream_offset: int) -> int | None:
        """The target offset to commit; ``TOO_OLD``, or None where MM2 says nothing at all."""
        slots = self._slots.get(partition)
        if slots is None or not self._started:
            return None
        for sync in slots:
            if sync.upstream_offset <= upstream_offset:
                return sync.downstream_offset + (sync.upstream_offset != upstream_offset)
        return TOO_OLD


def _inserted(before: Slots, newest: OffsetSyncRecord) -> Slots:
    slots = [newest, *before[1:]]
    promoted, source = newest, 0
    for slot in range(1, SLOTS):
        promoted, source = _promoted(slots, before, slot, promoted, source)
        if _recent(slots[slot - 1], slots[slot], slot - 1, slot):
            break
        slots[slot] = promoted
    return tuple(slots)


def _promoted(
    slots: list[OffsetSyncRecord], before: Slots, slot: int, promoted: OffsetSyncRecord, source: int
) -> tuple[OffsetSyncRecord, int]:
    """What may go into ``slot``, and which of the old pairs, from ``source`` on, is looked at next."""
    newer = slots[slot - 1]
    while True:
        old = before[source]
        apart = _apart(newer, old, slot - 1)
        fits = (
            _recent(newer, old, slot - 1, slot) and apart and (slot + 1 == SLOTS or _apart(old, slots[slot + 1], slot))
        )
        if fits:
            promoted = old
        passed_over = not apart or (source + 1 < SLOTS and old is before[source + 1])
        if fits or passed_over:
            source += 1
        if not passed_over or source >= slot:
            return promoted, source


def _recent(newer: OffsetSyncRecord, older: OffsetSyncRecord, newer_slot: int, older_slot: int) -> bool:
    """Invariant B: not further apart than their slots allow."""
    limit = older.upstream_offset + 2**older_slot - 2**newer_slot
    return newer is older or newer.upstream_offset <= limit


def _apart(newer: OffsetSyncRecord, older: OffsetSyncRecord, newer_slot: int) -> bool:
    """Invariant C: not closer than their slots allow."""
    return newer is older or newer.upstream_offset >= older.upstream_offset + 2 ** max(newer_slot - 2, 0)
