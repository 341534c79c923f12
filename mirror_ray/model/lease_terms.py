"""How a lease is divided: between sending, the kernel that sends on after us, and what a takeover waits for."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_LEASE_MS = 4000

#: Differences between clocks, the kernel's timers.
_MARGIN_S = 0.3


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """What follows from ``lease_ms``: nothing that a replicator sends arrives later than that after its last read.

    A read of the flow's state topic counts if it showed no higher epoch, from the moment it began.
    """

    lease_ms: int = DEFAULT_LEASE_MS

    @property
    def sending_s(self) -> float:
        """How long after a read requests may be handed to the kernel: the first half."""
        return self.lease_ms / 2000

    @property
    def kernel_ms(self) -> int:
        """How long the kernel may try to deliver them: the second half (TCP_USER_TIMEOUT)."""
        return self.lease_ms // 2

    @property
    def look_ms(self) -> int:
        """How long a read of the state topic waits at the broker for something new."""
        return self.lease_ms // 16

    @property
    def takeover_s(self) -> float:
        """How long after a higher epoch is readable its partition may be handed out, whoever had it before."""
        return self.lease_ms / 1000 + _MARGIN_S
