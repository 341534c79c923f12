"""Values and objects that tests need and don't care about the details of."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from mirror_ray.groups.translated_offset import TranslatedOffset
from mirror_ray.kafka.audit_logs import AuditLogs
from mirror_ray.model.acls import Acl
from mirror_ray.model.assignment import Assignment, ReplicatorReport
from mirror_ray.model.audit import AuditPrincipal
from mirror_ray.model.names import FlowName, FlowPartition, TopicId, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.observe.events import GapStatus
from mirror_ray.observe.groups import GroupPartitionStatus, GroupStatus
from mirror_ray.observe.schemas import FlowSchemas, SchemaStatus
from mirror_ray.observe.status import FlowStatus, PartitionStatus, ReplicatorStatus, SystemStatus, TopicStatus
from mirror_ray.offsets.translation import Translation
from mirror_ray.records.batch import LOG_OVERHEAD_BYTES, Codec, RecordBatch, iter_batches
from mirror_ray.records.decode import records_of
from mirror_ray.records.repack import encode
from mirror_ray.replication.outgoing_batch import OutgoingBatch
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.pipeline import BufferBudget
from mirror_ray.replication.target_log import TargetContents, TargetLog
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.ranges import ComparedRange, PositionPair, ranges_between
from tests.support.batches import batch

#: Where a batch's header has the producer's id, epoch and sequence.
_PRODUCER_AT = 43


def acl(name: str, operation: str = "READ", **changes: Any) -> Acl:
    """An ACL of a topic of that name; ``changes`` are fields, here and below."""
    fields: dict[str, Any] = {"resource": "TOPIC", "pattern": "LITERAL", "principal": "User:ann", "host": "*"}
    return Acl(**(fields | {"name": name, "operation": operation, "permission": "ALLOW"} | changes))


def audit_logs(component: str = "test", system: str = "mirror") -> AuditLogs:
    """Audit logs of a process of its own; nothing is written before something is changed."""
    return AuditLogs(AuditPrincipal(system=system, component=component))


def translated_offset(
    origin: TopicPartition,
    origin_offset: int | None,
    destination: TopicPartition | None,
    offset: int | None,
    *,
    group: str = "g",
    exact: bool = True,
    reason: str | None = None,
    metadata: str = "",
) -> TranslatedOffset:
    """A group's offset on the cluster that it leaves, and where that is on the one that it goes to."""
    return TranslatedOffset(
        group=group,
        origin=origin,
        origin_offset=origin_offset,
        destination=destination,
        translation=Translation(offset=offset, exact=exact, reason=reason),
        metadata=metadata,
    )


def assignment(topic: str = "t", partition: int = 0, **changes: Any) -> Assignment:
    """Of a partition of ``A->B`` that nothing was copied of; ``changes`` are fields."""
    fields: dict[str, Any] = {
        "partition": FlowPartition(FlowName("A", "B"), topic, partition),
        "source_topic_id": TopicId("s"),
        "target": TopicPartition(f"A.{topic}", partition),
        "target_topic_id": TopicId("r"),
        "producer_id": 1,
        "producer_epoch": 0,
        "anchor": OffsetPair(0, 0),
        "epoch": 1,
        "max_message_bytes": 1 << 20,
    }
    return Assignment(**(fields | changes))


def replicator_report(**changes: Any) -> ReplicatorReport:
    """Of a process that has copied nothing; ``changes`` are fields."""
    fields: dict[str, Any] = {
        "replicator": "mirror:replicator:1",
        "node": "n",
        "pid": 1,
        "partitions": (),
        "assigned": 0,
    }
    fields |= {"cpu_seconds": 0.0, "memory_bytes": 1, "buffered_bytes": 0, "records": 0, "bytes": 0}
    return ReplicatorReport(**(fields | changes))


def replication(assigned: Assignment | None = None, **fields: Any) -> PartitionReplication:
    """A partition with room for everything, whose target's log end was not read yet."""
    return PartitionReplication(assigned or assignment(), BufferBudget(1 << 30), 1 << 30, **fields)


def establish(copy: PartitionReplication, log: TargetLog, contents: TargetContents | None = None) -> None:
    """The target's log end was read, and fetcher and sender have the partition."""
    copy.established(log, contents)
    copy.placed()
    copy.take_instructions()


def fetched(copy: PartitionReplication, *batches: bytes, aborted: Sequence[tuple[int, int]] = ()) -> None:
    """The source's answer holds these batches, and they are processed."""
    copy.process(copy.received(memoryview(bytearray(b"".join(batches)))), aborted)


def parsed(data: bytes | bytearray | memoryview) -> RecordBatch:
    """The one batch that ``data`` is, in a buffer of its own."""
    (batch,) = iter_batches(memoryview(bytearray(data)))
    return batch


def with_codec(codec: Codec, first: int, *values: bytes) -> bytes:
    """A batch of these values whose first source offset is ``first``."""
    plain = parsed(batch(first, list(enumerate(values))))
    data = bytearray(encode(records_of(plain), codec).view)
    struct.pack_into(">q", data, 0, first)
    return bytes(data)


def produced(data: bytes, producer_id: int, sequence: int) -> RecordBatch:
    """A batch as a producer of this id sends it; its checksum does not count."""
    sent = bytearray(data)
    struct.pack_into(">qhi", sent, _PRODUCER_AT, producer_id, 0, sequence)
    return parsed(sent)


def outgoing_batch(first: int, records: int, *, size_bytes: int = 100, codec: int = 0, **batch: int) -> OutgoingBatch:
    """A batch whose target offsets are its source offsets; without bytes, as one that was answered."""
    header = {"max_timestamp": -1, "base_timestamp": -1, "crc": 0} | batch
    return OutgoingBatch(
        batch=RecordBatch(
            view=memoryview(b""),
            base_offset=first,
            length=size_bytes - LOG_OVERHEAD_BYTES,
            partition_leader_epoch=0,
            magic=2,
            attributes=codec,
            last_offset_delta=records - 1,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            count=records,
            **header,
        ),
        source_first=first,
        source_next=first + records,
        runs=((first, records),),
        source_epoch=0,
        target_offset=first,
        sequence=first,
    )


def partition_status(number: int = 0, topic: str = "orders", **changes: Any) -> PartitionStatus:
    """A partition of ``A->B`` that copies and has no lag; ``changes`` are fields, here and below."""
    fields: dict[str, Any] = {"state": "copying", "reason": None, "replicator": "mirror:replicator:1"}
    fields |= dict.fromkeys(("source_end", "position", "target_end", "records"), 100)
    fields |= dict.fromkeys(("lag_records", "lag_bytes", "held_back_records"), 0) | {"lag_seconds": 0.0}
    fields |= {"flow": "A->B", "topic": topic, "partition": number, "target_topic": f"A.{topic}", "bytes": 10_000}
    return PartitionStatus(**(fields | changes))


def topic_status(topic: str = "orders", **changes: Any) -> TopicStatus:
    """A topic of ``A->B`` with one partition."""
    fields: dict[str, Any] = {"partitions": 1, "copying": 1, "lag_records": 0, "records": 100, "bytes": 10_000}
    fields |= {"flow": "A->B", "topic": topic, "remote_topic": f"A.{topic}", "state": "copying", "reason": None}
    return TopicStatus(**(fields | changes))


def flow_status(flow: str = "A->B", **changes: Any) -> FlowStatus:
    """A flow that runs, with one topic of one partition."""
    fields: dict[str, Any] = {"state": "running", "discovered": True, "topics": 1, "partitions": 1, "copying": 1}
    fields |= {"lag_records": 0, "lag_seconds": 0.0, "records": 100, "bytes": 10_000, "heartbeat_age_s": 0.4}
    fields |= {"flow": flow, "records_per_s": 12_345.6, "bytes_per_s": 1_234_567.0}
    return FlowStatus(**(fields | changes))


def replicator_status(**changes: Any) -> ReplicatorStatus:
    """The replicator of one partition."""
    fields: dict[str, Any] = {"id": "mirror:replicator:1", "state": "running", "node": "127.0.0.1", "pid": 4711}
    fields |= {"partitions": 1, "records_per_s": 12_345.6, "bytes_per_s": 1_234_567.0, "cpu": 0.25}
    return ReplicatorStatus(**(fields | {"memory": 150_000_000} | changes))


def system_status(*flows: FlowStatus, **changes: Any) -> SystemStatus:
    """A system with one replicator, and these flows or one that runs."""
    fields: dict[str, Any] = {"name": "mirror", "started_ms": 0, "replicators": (replicator_status(),)}
    fields |= {"desired_replicators": 1, "coordinator_pid": 4710, "coordinator_node": "127.0.0.1"}
    return SystemStatus(**(fields | {"flows": flows or (flow_status(),)} | changes))


def group_partition_status(number: int = 0, topic: str = "orders", **changes: Any) -> GroupPartitionStatus:
    """A committed offset that was synced, behind some gaps."""
    fields: dict[str, Any] = {"topic": topic, "partition": number, "remote_topic": f"A.{topic}", "exact": True}
    fields |= {"source_offset": 70, "target_offset": 68, "state": "synced", "reason": None}
    return GroupPartitionStatus(**(fields | changes))


def group_status(*partitions: GroupPartitionStatus, **changes: Any) -> GroupStatus:
    """A group of ``A->B`` that is stable on the source."""
    fields: dict[str, Any] = {"flow": "A->B", "group": "billing", "kind": "classic", "source_state": "Stable"}
    return GroupStatus(**(fields | {"state": "synced", "reason": None, "partitions": partitions} | changes))


def flow_schemas(**changes: Any) -> FlowSchemas:
    """A flow with one subject of two versions, both mirrored."""
    fields: dict[str, Any] = {"ids": "translated", "subjects": 1, "versions": 2, "mirrored": 2, "problems": ()}
    return FlowSchemas(**(fields | {"problem_count": 0, "problem": None, "age_s": 0.5, "requests": 9} | changes))


def schema_status(version: int = 1, subject: str = "orders-value", **changes: Any) -> SchemaStatus:
    """A version that is mirrored, with an id of the target's own."""
    fields: dict[str, Any] = {"flow": "A->B", "subject": subject, "version": version, "kind": "AVRO", "source_id": 7}
    fields |= {"target_subject": f"A.{subject}", "target_id": 3, "state": "mirrored", "deleted": False}
    return SchemaStatus(**(fields | changes))


def gap_status(**changes: Any) -> GapStatus:
    """Offsets 50 to 80 of a partition, which were removed and skipped."""
    fields: dict[str, Any] = {"kind": "source_removed", "policy": "skip", "text": "offsets 50 to 80 were removed"}
    fields |= {"flow": "A->B", "topic": "orders", "partition": 0, "time_ms": 0}
    fields |= {"source_from": 50, "source_to": 80, "target_from": -1, "target_to": -1}
    return GapStatus(**(fields | changes))


def partition_record(topic: str = "t", **changes: Any) -> PartitionRecord:
    """What the state of ``A->B`` says of a partition; the topics' ids are ``s`` and ``t``."""
    fields: dict[str, Any] = {"source_topic_id": TopicId("s"), "target_topic": f"A.{topic}", "source_offset": 5}
    return PartitionRecord(**(fields | {"target_topic_id": TopicId("t"), "target_offset": 5} | changes))


def compare_job(begin: PositionPair, end: PositionPair, *ranges: ComparedRange, **changes: Any) -> CompareJob:
    """All of ``t-0`` between two pairs of positions is compared, in these ranges or in one."""
    ranges = ranges or tuple(ranges_between([begin, end]))
    fields: dict[str, Any] = {"source": TopicPartition("t", 0), "target": TopicPartition("A.t", 0)}
    fields |= {"begin": begin, "end": end, "ranges": ranges, "chosen": tuple(range(len(ranges)))}
    return CompareJob(**(fields | changes))
