"""Whether a source topic may be copied into its remote topic, and from which offset."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from mirror_ray.config.settings import FlowSettings
from mirror_ray.model.fault import PartitionFault
from mirror_ray.model.names import FlowName, TopicId
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.start import StartRules, start_rules
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.records import FlowRecord
from mirror_ray.state.schema import FlowStateRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSide:
    """A topic as one cluster shows it."""

    topic: str
    topic_id: TopicId
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLogBounds:
    """A target partition's log start offset, its leader's log end offset, and the high watermark; -1: not known."""

    start: int
    end: int
    high_watermark: int = -1

    @property
    def committed(self) -> int:
        """The end of what is committed."""
        return self.end if self.high_watermark < 0 else min(self.end, self.high_watermark)


def selection_of(settings: FlowSettings) -> str:
    """A fingerprint of which topics a flow selects and where new ones begin."""
    topics = settings.topics
    selection: tuple[object, ...] = (
        topics.include,
        topics.exclude,
        settings.policy.model_dump(),
        settings.fetch.auto_offset_reset,
    )
    if settings.all_names:
        selection = (*selection, [names.model_dump() for names in settings.all_names])
    if starts := starts_of(settings):
        # Left out where it is empty, so that fingerprints of an earlier version still match.
        selection = (*selection, starts)
    return hashlib.sha256(repr(selection).encode()).hexdigest()[:16]


def starts_of(settings: FlowSettings) -> str:
    """The ``topics.start`` settings of a flow, for comparison; empty: ``auto.offset.reset`` alone applies."""
    topics = settings.topics
    return "" if topics.start is None and not topics.start_overrides else repr((topics.start, topics.start_overrides))


def rules_of(settings: FlowSettings) -> StartRules:
    """The rules for where topics without progress begin."""
    topics = settings.topics
    return start_rules(topics.start or settings.fetch.auto_offset_reset, topics.start_overrides)


def starts_changed(flow: FlowName, record: FlowRecord | None, starts: str, copied: int) -> str | None:
    """A sentence where the configured starts have changed although ``copied`` topics have progress already."""
    if record is None or record.starts == starts or not copied:
        return None
    return (
        f"{flow}: topics.start has changed; {copied} topics have progress and go on where they are: it is for topics "
        f"without. docs/topics.md says how to begin one anew"
    )


def cluster_refusal(flow: FlowName, record: FlowRecord | None, source_id: str, target_id: str) -> str | None:
    """Why the flow must not run between these two clusters; None where it may.

    Other cluster ids in the state topic mean that an alias now names another cluster: offset pairs would be void.
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


def flow_refusal(flow: FlowName, state: FlowStateRecords, source_id: str, target_id: str) -> str | None:
    """Why the flow as a whole must not run, for example after a handback to MM2; None: it may."""
    if state.reversal is not None and state.reversal.away:
        return (
            f"flow {flow} is reversed: {flow.back} copies its topics the other way, and both together would copy in a "
            f"circle. `mirror-ray failback '{flow}'` goes on with the failback that has reversed it"
        )
    if state.handed_back_ms is None:
        return cluster_refusal(flow, state.flow, source_id, target_id)
    return (
        f"flow {flow} was handed back to MirrorMaker 2: both together would copy everything twice. Stop MirrorMaker 2 "
        f"and this system, then take the flow over again: `mirror-ray takeover CONFIG '{flow}'`"
    )


def provenance_refusal(settings: FlowSettings, source_id: str, target_id: str) -> str | None:
    """Why provenance headers can't tell the two clusters apart; None: they can, or are off."""
    if not settings.provenance.enabled or (source_id and target_id and source_id != target_id):
        return None
    name = settings.name
    if source_id != target_id or not source_id:
        alias = name.target if source_id else name.source
        return f"cluster {alias} does not tell its id: turn provenance.headers.enabled off for {name}"
    return (
        f"{name.source} and {name.target} have the same cluster id {source_id}: records could not say where they are "
        f"from. Are they one cluster? Else format one of them anew, or turn provenance.headers.enabled off for {name}"
    )


def renamed_refusal(topic: str, remote: str, records: Mapping[int, PartitionRecord]) -> str | None:
    """Why a topic must not be copied into a remote topic of this name; None where it may."""
    for record in records.values():
        if record.target_topic != remote:
            return (
                f"topic {topic} was copied into {record.target_topic}, but its remote topic is now named {remote}: "
                f"restore topics.map, topics.rename or the replication policy, or clear the flow's state of {topic}"
            )
    return None


def identity_faults(
    source: TopicSide, remote: TopicSide | None, records: Mapping[int, PartitionRecord]
) -> dict[int, PartitionFault]:
    """The faults of a topic that was copied before, by partition.

    A topic that was deleted and created again under its name has another topic id, and is another topic.
    """
    found: dict[int, PartitionFault] = {}
    for number, record in records.items():
        if remote is None:
            text = (
                f"remote topic {record.target_topic} (topic id {record.target_topic_id}) is gone from the target, "
                f"though this flow has copied into it"
            )
            found[number] = PartitionFault(kind="target_missing", text=text)
        elif record.target_topic_id != remote.topic_id:
            text = (
                f"remote topic {remote.topic} was recreated: its topic id is {remote.topic_id}, this flow has written "
                f"{record.target_topic_id}"
            )
            found[number] = PartitionFault(kind="target_recreated", text=text)
        elif record.source_topic_id != source.topic_id:
            text = (
                f"source topic {source.topic} was recreated: its topic id is {source.topic_id}, the copy in "
                f"{record.target_topic} is of {record.source_topic_id}"
            )
            found[number] = PartitionFault(kind="source_recreated", text=text)
    return found


def unaccounted(source: TopicSide, remote: TopicSide, records: Mapping[int, PartitionRecord]) -> list[int]:
    """Partitions that exist on both clusters and have no offset pair yet."""
    return [number for number in range(min(source.partitions, remote.partitions)) if number not in records]


def occupied_refusal(remote: str, bounds: Mapping[int, TargetLogBounds]) -> str | None:
    """Why partitions without an offset pair must not be written to; None: all of them are empty."""
    filled = sorted(number for number, bound in bounds.items() if bound.end > bound.start)
    if not filled:
        return None
    first = filled[0]
    return (
        f"remote topic {remote} is not empty (partition {first} holds offsets {bounds[first].start} to "
        f"{bounds[first].end - 1}; {len(filled)} such partitions) and this flow has no record of having written it: "
        f"MirrorMaker 2 or another producer did. Writing on could double records. Ways out: take it over from "
        f"MirrorMaker 2 (stop it and this system, then `mirror-ray takeover CONFIG`), delete or rename {remote}, "
        f"exclude the topic, or choose another naming (replication.policy.class, replication.policy.separator)"
    )


def first_record(
    source: TopicSide, remote: TopicSide, pair: OffsetPair, producer: tuple[int, int] | None = None
) -> PartitionRecord:
    """The record of a partition that is about to be copied for the first time.

    ``producer``: the producer id and epoch of this partition alone, if others write to the remote topic as well.
    """
    record = PartitionRecord(
        source_topic_id=source.topic_id,
        target_topic=remote.topic,
        target_topic_id=remote.topic_id,
        source_offset=pair.source_offset,
        target_offset=pair.target_offset,
        sequence=pair.sequence,
    ).with_origin(pair)
    return record if producer is None else replace(record, producer_id=producer[0], producer_epoch=producer[1])


def shared_record(record: PartitionRecord) -> PartitionRecord:
    """The record of a partition once others write to its remote topic as well.

    Its offset pair stays: behind it, the newest batch with our producer id is the replication position.
    """
    pair = replace(record.pair, sequence=record.pair.next_sequence)
    return replace(record.at(pair), shared=True)
