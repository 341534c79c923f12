"""The records of a flow's state topic but a partition's (``partition_record``); ``schema`` has their keys and JSON."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from mirror_ray.model.fault import FaultKind, FaultPolicy, PartitionFault
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.topic_names import illegal_name


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRecord:
    """What holds for a flow as a whole: its idempotent producer on the target, and which clusters it connects."""

    producer_id: int
    producer_epoch: int
    source_cluster_id: str
    target_cluster_id: str
    #: Fingerprint of which topics the flow selects: with auto.offset.reset=latest, topics that are there when it
    #: changes begin at their end, those that are created later at their beginning.
    selection: str
    #: What the configuration said at the last discovery about where topics begin.
    starts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRecord:
    """The last assignment of a partition.

    ``lease_ms`` is its holder's lease, 0 when nobody can hold it any more. ``owner`` is a name that the coordinator
    which raised the epoch shares with no other; empty in the records of older versions. ``transactional_id`` is the
    holder's, where offsets are preserved: a transaction of it may be open over the remote partition.
    """

    epoch: int = 0
    lease_ms: int = 0
    owner: str = ""
    transactional_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedRange:
    """Offsets that a partition went on without, and by which policy. Ranges are as in ``PartitionFault``."""

    kind: FaultKind
    policy: FaultPolicy
    text: str
    time_ms: int
    source_from: int = -1
    source_to: int = -1
    target_from: int = -1
    target_to: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultResolution:
    """The decision about a partition's fault, to be carried out before the partition is copied again."""

    trouble: PartitionFault
    policy: FaultPolicy
    time_ms: int
    #: The operator who decided; empty: the flow's policy did.
    by: str = ""

    def skipped_range(self) -> SkippedRange:
        """What is recorded once the resolution has been carried out."""
        fault = self.trouble
        return SkippedRange(
            kind=fault.kind,
            policy=self.policy,
            text=fault.text,
            time_ms=self.time_ms,
            source_from=fault.source_from,
            source_to=fault.source_to,
            target_from=fault.target_from,
            target_to=fault.target_to,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReversalRecord:
    """A flow and the flow back, of which one at a time copies the same topics, each where the other one left them.

    Both flows have the record; of the ``turn`` that is the same in both, one is ``away``, and does not run.
    """

    #: Grows with each reversal.
    turn: int
    #: The flow back copies now.
    away: bool
    time_ms: int


@dataclass(frozen=True, slots=True)
class Pause:
    """An operator's pause: of the flow (no topic), of a topic (no partition), or of one partition."""

    topic: str | None = None
    partition: int | None = None

    def covers(self, partition: TopicPartition) -> bool:
        """Whether the pause stops ``partition``."""
        return self.topic in (None, partition.topic) and self.partition in (None, partition.partition)

    def unknown_scope(self, partitions: Mapping[str, int] | None) -> str | None:
        """Why the flow has nothing that this pause could stop; None: it has, or that is not known yet.

        ``partitions``: number of partitions of each of the flow's topics; None while they are being discovered.
        """
        topic, number = self.topic, self.partition
        reason = illegal_name(topic) if topic is not None else None
        if number is not None and number < 0:
            reason = f"{number} is no partition: they are numbered from 0"
        if reason is not None or topic is None or partitions is None:
            return reason
        if topic not in partitions:
            nearest = difflib.get_close_matches(topic, partitions, n=1)
            hint = f"did you mean {nearest[0]}?" if nearest else "`mirror-ray topics` lists what it copies"
            return f"it copies no topic {topic}; {hint}"
        if number is not None and number >= partitions[topic]:
            return f"{topic} has {partitions[topic]} partitions, numbered from 0: not {number}"
        return None
