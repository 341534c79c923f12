"""What is on its way between a replicator and a target broker."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from mirror_ray.copying.partition import PartitionCopy
from tests.model.broker import Answer


@dataclass(slots=True, eq=False)
class Part:
    """One partition's batch in a request."""

    copy: PartitionCopy
    number: int
    topic_id: str
    data: bytes
    #: Of the target's leader when the copy heard from it last.
    leader_epoch: int
    #: No broker helps against it once it has forgotten the producer: ``Network`` says when.
    late: bool = False
    answer: Answer | None = None


@dataclass(slots=True, eq=False)
class Request:
    """A Produce request, and from when the broker has it until it was answered."""

    parts: list[Part]
    #: Answered once all in-sync replicas have it, else at once.
    by_all: bool
    sent_s: float = 0.0


@dataclass(slots=True, eq=False)
class Connection:
    """To one broker, which handles its requests one at a time, in order."""

    broker: int
    sent: deque[Request] = field(default_factory=deque)
    handled: deque[Request] = field(default_factory=deque)
    #: The broker is gone, and a frozen process has not seen it yet.
    broken: bool = False

    def refused(self, copy: PartitionCopy) -> bool:
        """Whether a batch of the copy was refused, which it does not know yet."""
        parts = (part for request in self.handled for part in request.parts)
        return any(part.copy is copy and part.answer is not None and bool(part.answer.error) for part in parts)
