"""A pair of offsets from which a copy goes on."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Producers' sequences wrap here.
SEQUENCE_MODULUS = 2**31


@dataclass(frozen=True, slots=True)
class OffsetPair:
    """A pair of offsets that are known to belong together.

    The record at ``source_offset`` or the next one after it is the one that the target holds, or will hold, at
    ``target_offset``. Both are positions (next offset to read, next offset to be written), as of acknowledged writes.
    """

    source_offset: int
    target_offset: int
    #: The producer's next sequence, where it is not the target offset modulo 2^31: in shared remote topics, and behind
    #: foreign records.
    sequence: int | None = None
    #: Leader epoch of the source's batch before ``source_offset``, by which the source's broker knows whether its log
    #: was truncated below it; -1 for none.
    source_epoch: int = field(default=-1, compare=False)
    #: Leader epoch of the target in which its log had come to ``target_offset``, by which its broker knows whether the
    #: log lost its end since, and grew again; -1 for not known.
    target_epoch: int = field(default=-1, compare=False)

    @property
    def next_sequence(self) -> int:
        """Base sequence of the batch that goes to ``target_offset``."""
        return self.target_offset % SEQUENCE_MODULUS if self.sequence is None else self.sequence

    def is_of_earlier_leader(self, leader_epoch: int) -> bool:
        """Whether the target's log had come to the pair under a leader before that of ``leader_epoch``, as is known."""
        return 0 <= self.target_epoch < leader_epoch
