"""May a source topic be copied into its remote topic, and from where? Every answer is a sentence or an anchor."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from mirror_ray.config.settings import FlowSettings
from mirror_ray.coordination.state import FlowRecord, PartitionRecord
from mirror_ray.model.names import FlowName, TopicId


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


def identity_refusal(source: TopicSide, remote: TopicSide | None, records: Mapping[int, PartitionRecord]) -> str | None:
    """Why a topic that was copied before must not be copied on; None where it may, or where it is new.

    Topics are told apart by topic id: one that was deleted and created again under its name is another topic.
    """
    for record in records.values():
        if record.source_topic_id != source.topic_id:
            return (
                f"source topic {source.topic} was recreated: its topic id is {source.topic_id}, the copy in "
                f"{record.target_topic} is of {record.source_topic_id}. Delete or rename {record.target_topic} on "
                f"the target and clear the flow's state of it, or exclude the topic"
            )
        if remote is None:
            return (
                f"remote topic {record.target_topic} (topic id {record.target_topic_id}) is gone from the target, "
                f"though this flow has copied into it. It is not created again by itself: restore it, or clear the "
                f"flow's state of {source.topic} to copy it from the beginning"
            )
        if record.target_topic != remote.topic:
            return (
                f"topic {source.topic} was copied into {record.target_topic}, but its remote topic is now named "
                f"{remote.topic}: restore the replication policy, or clear the flow's state of {source.topic}"
            )
        if record.target_topic_id != remote.topic_id:
            return (
                f"remote topic {remote.topic} was recreated: its topic id is {remote.topic_id}, this flow has "
                f"written {record.target_topic_id}. Restore the old one, or clear the flow's state of {source.topic} "
                f"to copy it from the beginning"
            )
    return None


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


def claim_refusal(remote: str, owner: FlowName) -> str:
    """Why a second flow may not write a remote topic that ``owner`` writes."""
    return (
        f"remote topic {remote} is already written by the flow {owner}: exclude the topic from one of the two, or "
        f"choose a replication policy that names them apart"
    )


def first_record(source: TopicSide, remote: TopicSide, *, source_offset: int, target_offset: int) -> PartitionRecord:
    """The record of a partition that is about to be copied for the first time."""
    return PartitionRecord(
        source_topic_id=source.topic_id,
        target_topic=remote.topic,
        target_topic_id=remote.topic_id,
        source_offset=source_offset,
        target_offset=target_offset,
    )
