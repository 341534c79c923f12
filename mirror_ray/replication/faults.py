"""The faults that a replicator finds, described: what is wrong, where, and what it means."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mirror_ray.model.assignment import Assignment
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.fault import PartitionFault
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS, OffsetPair
from mirror_ray.replication.partition_states import OVER_BY, Recovery
from mirror_ray.transforms.chain import SchemaIdsWait
from mirror_ray.transforms.schema_ids import schema_text


class ReplicationFault(MirrorError):  # noqa: N818 - it carries the fault, and is named after it
    """Copying can't go on without a decision about ``fault``.

    ``until_committed``: only a batch that the target takes shows that it is over.
    """

    def __init__(self, fault: PartitionFault, *, until_committed: bool = False) -> None:
        super().__init__(fault)
        self.fault = fault
        self.until_committed = until_committed

    def __str__(self) -> str:
        return self.fault.text


@dataclass(frozen=True, slots=True)
class StopCause:
    """Why a partition is shown as stopped, until one of ``over_by`` is seen: another attempt alone is no recovery."""

    text: str
    fault: PartitionFault | None
    over_by: frozenset[Recovery]

    @staticmethod
    def of(error: Exception, partition: object) -> StopCause:
        """Describe the error that stopped a partition."""
        if isinstance(error, ReplicationFault):
            over_by = frozenset({Recovery.COMMITTED}) if error.until_committed else OVER_BY[error.fault.kind]
            return StopCause(error.fault.text, error.fault, over_by)
        text = str(error) if isinstance(error, MirrorError) else f"{partition}: {error!r}"
        return StopCause(text, None, OVER_BY[None])


def truncated(remote: TopicPartition, acknowledged: OffsetPair, end: int) -> PartitionFault:
    """The target ends before what it had acknowledged."""
    lost = acknowledged.target_offset - end
    sequence = None if acknowledged.sequence is None else (acknowledged.sequence - lost) % SEQUENCE_MODULUS
    text = (
        f"remote topic {remote} ends at {end}, but records up to {acknowledged.target_offset} were acknowledged: "
        "it was truncated or lost data"
    )
    resume = replace(acknowledged, target_offset=end, sequence=sequence)
    return PartitionFault(
        kind="target_truncated", text=text, target_from=end, target_to=acknowledged.target_offset, resume=resume
    )


def lost_its_end(assignment: Assignment, acknowledged: OffsetPair, agrees_to: int) -> PartitionFault:
    """A shared topic lost its end and grew again; whether records of ours were lost with it is not known."""
    target = acknowledged.target_offset
    text = (
        f"remote topic {assignment.target} is another log from offset {agrees_to} on, but records up to {target} were "
        "acknowledged: it lost data, as by an unclean leader election, and others have written on"
    )
    return PartitionFault(kind="target_truncated", text=text, target_from=agrees_to, target_to=target)


def lost_ours(assignment: Assignment, acknowledged: OffsetPair, lost: int, newest_end: int) -> PartitionFault:
    """The newest record of ours in a shared topic is older than the last acknowledged one."""
    text = (
        f"remote topic {assignment.target} has lost {lost} records of source partition "
        f"{assignment.partition.source} that were acknowledged before offset {acknowledged.target_offset}, as by an "
        "unclean leader election, and others have written on"
    )
    return PartitionFault(kind="target_truncated", text=text, target_from=newest_end, target_to=newest_end + lost)


def contradicted(assignment: Assignment, anchor: OffsetPair) -> PartitionFault:
    """The broker's state of our producer contradicts the log."""
    text = (
        f"remote topic {assignment.target}: its log says that sequence {anchor.next_sequence} is next of producer "
        f"{assignment.producer_id}, and its broker refuses that again and again (OUT_OF_ORDER_SEQUENCE_NUMBER)"
    )
    return copy_lost(anchor, text)


def misplaced(assignment: Assignment, acknowledged: OffsetPair, meant: int, written: int) -> PartitionFault:
    """A batch was appended at another offset than it was meant for."""
    if written < acknowledged.target_offset:
        return truncated(assignment.target, acknowledged, written)
    if written < meant:
        return copy_lost(acknowledged, f"remote topic {assignment.target}: what was meant for {meant} is at {written}")
    return foreign(assignment, meant, written, "somebody else")


def foreign(assignment: Assignment, first: int, end: int, who: str) -> PartitionFault:
    """Somebody else has written where only this flow should."""
    text = (
        f"remote topic {assignment.target}: between offsets {first} and {end} there are records of {who}, not of this "
        f"flow (producer {assignment.producer_id}): stop the other writer, or declare the topic shared"
    )
    return PartitionFault(kind="target_foreign", text=text, target_from=first, target_to=end)


def copy_lost(anchor: OffsetPair, text: str) -> PartitionFault:
    """The target's records behind ``anchor`` do not fit the source's."""
    return PartitionFault(
        kind="copy_lost", text=text, source_from=anchor.source_offset, target_from=anchor.target_offset
    )


def unknown_place(assignment: Assignment, anchor: OffsetPair, why: str) -> PartitionFault:
    """The position behind ``anchor`` can't be determined."""
    text = (
        f"remote topic {assignment.target}: where its copy had come to can't be told: {why}, behind source offset "
        f"{anchor.source_offset}"
    )
    return copy_lost(anchor, text)


def source_removed(source: TopicPartition, position: int, resume: OffsetPair) -> PartitionFault:
    """The source begins behind ``position``, at the source offset of ``resume``."""
    start = resume.source_offset
    text = (
        f"source partition {source} begins at {start}: records from {position} on were removed, by retention or by "
        "somebody, before they were copied"
    )
    return PartitionFault(kind="source_removed", text=text, source_from=position, source_to=start, resume=resume)


def source_truncated(source: TopicPartition, position: int, resume: OffsetPair) -> PartitionFault:
    """From the source offset of ``resume`` on, the source's log is not the one that was copied."""
    end = resume.source_offset
    text = (
        f"source partition {source} is another log from offset {end} on, but records up to {position} were copied: it "
        "lost data, as by an unclean leader election"
    )
    return PartitionFault(kind="source_truncated", text=text, source_from=end, source_to=position, resume=resume)


def recreated(side: str, topic: str, found: TopicId, assigned: TopicId) -> PartitionFault:
    """The topic on ``side`` ("source" or "remote") was deleted and created again."""
    text = f"{side} topic {topic} was deleted and is another one now (topic id {found}, before {assigned})"
    return PartitionFault(kind="source_recreated" if side == "source" else "target_recreated", text=text)


def target_missing(remote: TopicPartition, error: str) -> PartitionFault:
    """The remote topic does not exist."""
    return PartitionFault(kind="target_missing", text=f"remote topic {remote} is not there: {error}; was it deleted?")


def not_recognised(assignment: Assignment, anchor: OffsetPair, *, transformed: bool) -> PartitionFault:
    """The source's records behind ``anchor`` are not those that were copied."""
    why = "the source holds none of the records that were copied last"
    if transformed:
        why = (
            "what its transforms make of the source is not what the target holds (does a transform that is declared "
            "pure give something else than it did, or was the source cleaned meanwhile?)"
        )
    return unknown_place(assignment, anchor, why)


def transform_failed(source: TopicPartition, offset: int, why: str) -> PartitionFault:
    """A transform failed on the record at ``offset`` of the source."""
    text = (
        f"a transform failed on the record at offset {offset} of source partition {source}: {why}; correct it, or set "
        "transform.errors"
    )
    return PartitionFault(kind="transform_failed", text=text, source_from=offset, source_to=offset + 1)


def record_refused(source: TopicPartition, offset: int, why: str) -> PartitionFault:
    """The target will never take the record at ``offset`` of the source as it is."""
    text = f"the target refuses the record at offset {offset} of source partition {source}: {why}"
    return PartitionFault(kind="record_refused", text=text, source_from=offset, source_to=offset + 1)


def schema_awaited(source: TopicPartition, waits: SchemaIdsWait) -> str:
    """What a partition waits for at a record, in a sentence."""
    lack = waits.lacks[0]
    where = f"the {lack.field} of the record at offset {waits.offset} of source partition {source}"
    if lack.kind == "undecided-field":
        looks = "begins as if it had" if isinstance(lack.schema, int) else "has"
        return f"waits: {where} {looks} schema {schema_text(lack.schema)}, and whether it has one is not decided yet"
    return f"waits: {where} has schema {schema_text(lack.schema)}, which is not in the target's registry yet"


def schema_missing(source: TopicPartition, waits: SchemaIdsWait) -> PartitionFault:
    """A record lacks for long what its schema id becomes."""
    advice = "see in the event log what keeps the schema sync from it, and that schemas.subjects has its subject"
    if waits.lacks[0].kind == "undecided-field":
        advice = f"name {source.topic} in schemas.topics, or in schemas.topics.exclude where its records have none"
    text = f"{schema_awaited(source, waits)}; {advice}; it goes on by itself then"
    return PartitionFault(kind="schema_missing", text=text, source_from=waits.offset, source_to=waits.offset + 1)
