"""May a source topic be copied into its remote topic, and from where? Every answer is a sentence or an anchor."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from mirror_ray.config.settings import FlowSettings
from mirror_ray.coordination.state import FlowRecord, PartitionRecord
from mirror_ray.model.anchor import Anchor
from mirror_ray.model.names import FlowName, TopicId
from mirror_ray.model.trouble import Trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSide:
    """A topic as one cluster shows it."""

    topic: str
    topic_id: TopicId
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBounds:
    """A target partition's first offset and the leader's own log end."""

    start: int
    end: int


def selection_of(settings: FlowSettings) -> str:
    """Fingerprint of which topics a flow selects and where new ones begin: equal while that stays the same."""
    topics = settings.topics
    said = (topics.include, topics.exclude, settings.policy.model_dump(), settings.fetch.auto_offset_reset)
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]


def cluster_refusal(flow: FlowName, record: FlowRecord | None, source_id: str, target_id: str) -> str | None:
    """Why the flow must not run between these two clusters; None where it may.

    A state topic that tells of other clusters means that an alias points somewhere new: anchors would be void.
    """
    if record is None:
        return None
    for side, alias, stored, seen in (
        ("source", flow.source, record.source_cluster_id, source_id),
        ("target", flow.target, record.target_cluster_id, target_id),
    ):
        if stored != seen:
            return (
                f"{side} cluster {alias} has the cluster id {seen}, but this flow has copied from or to {stored}: "
                f"point {alias}.bootstrap.servers back to {stored}, or give the new cluster an alias of its own"
            )
    return None


def renamed_refusal(topic: str, remote: str, records: Mapping[int, PartitionRecord]) -> str | None:
    """Why a topic must not be copied into a remote topic of this name; None where it may."""
    for record in records.values():
        if record.target_topic != remote:
            return (
                f"topic {topic} was copied into {record.target_topic}, but its remote topic is now named {remote}: "
                f"restore the replication policy, or clear the flow's state of {topic}"
            )
    return None


def identity_troubles(
    source: TopicSide, remote: TopicSide | None, records: Mapping[int, PartitionRecord]
) -> dict[int, Trouble]:
    """What is wrong with topics that were copied before, by partition: one of ``remedy.TOPIC_KINDS``.

    Topics are told apart by topic id: one that was deleted and created again under its name is another topic.
    """
    found: dict[int, Trouble] = {}
    for number, record in records.items():
        if remote is None:
            text = (
                f"remote topic {record.target_topic} (topic id {record.target_topic_id}) is gone from the target, "
                f"though this flow has copied into it"
            )
            found[number] = Trouble(kind="target_missing", text=text)
        elif record.target_topic_id != remote.topic_id:
            text = (
                f"remote topic {remote.topic} was recreated: its topic id is {remote.topic_id}, this flow has written "
                f"{record.target_topic_id}"
            )
            found[number] = Trouble(kind="target_recreated", text=text)
        elif record.source_topic_id != source.topic_id:
            text = (
                f"source topic {source.topic} was recreated: its topic id is {source.topic_id}, the copy in "
                f"{record.target_topic} is of {record.source_topic_id}"
            )
            found[number] = Trouble(kind="source_recreated", text=text)
    return found


def unaccounted(source: TopicSide, remote: TopicSide, records: Mapping[int, PartitionRecord]) -> list[int]:
    """Partitions that exist on both sides and have no anchor yet."""
    return [number for number in range(min(source.partitions, remote.partitions)) if number not in records]


def occupied_refusal(remote: str, bounds: Mapping[int, LogBounds]) -> str | None:
    """Why partitions without an anchor must not be written to; None where all of them are empty."""
    filled = sorted(number for number, bound in bounds.items() if bound.end > bound.start)
    if not filled:
        return None
    first = filled[0]
    return (
        f"remote topic {remote} is not empty (partition {first} holds offsets {bounds[first].start} to "
        f"{bounds[first].end - 1}; {len(filled)} such partitions) and this flow has no record of having written it: "
        f"MirrorMaker 2 or another producer did. Writing on could double records. Ways out: take it over from "
        f"MirrorMaker 2, delete or rename {remote}, exclude the topic, or choose another naming "
        f"(replication.policy.class, replication.policy.separator)"
    )


def first_record(
    source: TopicSide, remote: TopicSide, anchor: Anchor, producer: tuple[int, int] | None = None
) -> PartitionRecord:
    """The record of a partition that is about to be copied for the first time.

    ``producer``: of this partition alone, where others write to the remote topic too.
    """
    record = PartitionRecord(
        source_topic_id=source.topic_id,
        target_topic=remote.topic,
        target_topic_id=remote.topic_id,
        source_offset=anchor.source_offset,
        target_offset=anchor.target_offset,
        sequence=anchor.sequence,
    ).with_origin(anchor)
    return record if producer is None else replace(record, producer_id=producer[0], producer_epoch=producer[1])


def shared_record(record: PartitionRecord) -> PartitionRecord:
    """The record of a partition from the moment on that others write to its remote topic too.

    Its pair stays: from there on the newest batch of ours says how far the copy has come.
    """
    anchor = replace(record.anchor, sequence=record.anchor.next_sequence)
    return replace(record.at(anchor), shared=True)
