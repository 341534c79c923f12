"""What a fault's policy comes to, for a partition that has copied up to (100, 90)."""

from __future__ import annotations

from mirror_ray.coordinator.fault_rules import FaultAction, FaultContext, find_action
from mirror_ray.model.fault import FaultKind, FaultPolicy, PartitionFault
from mirror_ray.model.names import TopicId
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.records import FaultResolution

RECORD = PartitionRecord(
    source_topic_id=TopicId("s1"),
    target_topic="A.t",
    target_topic_id=TopicId("t1"),
    source_offset=100,
    target_offset=90,
).with_origin(OffsetPair(10, 0))
CONTEXT = FaultContext(
    source_topic_id=TopicId("s1"), source_start=5, target_topic_id=TopicId("t1"), target_start=0, target_end=90
)


def found(
    kind: FaultKind,
    policy: FaultPolicy,
    record: PartitionRecord = RECORD,
    context: FaultContext = CONTEXT,
    resume: OffsetPair | None = None,
    **ranges: int,
) -> FaultAction | str:
    """What is to be done about a fault, or why nothing may be."""
    fault = PartitionFault(kind=kind, text="x", resume=resume, **ranges)
    return find_action(FaultResolution(trouble=fault, policy=policy, time_ms=1), record, context)


def action(*args: object, **options: object) -> FaultAction:
    """What is to be done, of the arguments of ``found``."""
    answer = found(*args, **options)  # type: ignore[arg-type]  # its own
    assert isinstance(answer, FaultAction), answer
    return answer


def declined(*args: object, **options: object) -> str:
    """Why nothing may be done, of the arguments of ``found``."""
    answer = found(*args, **options)  # type: ignore[arg-type]  # its own
    assert isinstance(answer, str), answer
    return answer


def pair(done: FaultAction) -> tuple[int, int]:
    """The offsets from which the copy goes on."""
    return done.record.source_offset, done.record.target_offset
