"""What a flow keeps in its state topic ``mm2-ray-state.<source>.internal`` on the target.

One compacted record per key; the value is a JSON object, a tombstone deletes::

    flow                          producer_id, producer_epoch, source_cluster_id, target_cluster_id, selection
    partition/<topic>/<n>         source_topic_id, target_topic, target_topic_id, source_offset, target_offset,
                                  sequence, source_epoch, epoch
    latest/<topic>                {}: was there when it was selected and begins at its end (auto.offset.reset=latest)
    paused/flow                   {}: an operator paused the flow
    paused/topic/<topic>          {}: an operator paused the topic
    paused/partition/<topic>/<n>  {}: an operator paused the partition

A topic's name has no slash, so keys parse without doubt. Keys and fields that are not known are kept and ignored, so
that a newer version's state can be read. ``partition`` is written before the partition's first assignment and about
every second while it moves; its pair is an anchor (DESIGN: exactly once).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any, Self

from mirror_ray.model.anchor import Anchor
from mirror_ray.model.names import TopicId, TopicPartition

Document = dict[str, Any]

FLOW_KEY = "flow"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """A partition's anchor, the topics that it belongs to, and the epoch of its last assignment."""

    source_topic_id: TopicId
    target_topic: str
    target_topic_id: TopicId
    source_offset: int
    target_offset: int
    #: See ``Anchor``: the producer's next sequence where it is not the target offset's, and the source's leader epoch.
    sequence: int | None = None
    source_epoch: int = -1
    epoch: int = 0

    @property
    def anchor(self) -> Anchor:
        """The pair to copy on from."""
        return Anchor(self.source_offset, self.target_offset, self.sequence, self.source_epoch)

    def at(self, anchor: Anchor) -> Self:
        """The record with another pair."""
        return replace(
            self,
            source_offset=anchor.source_offset,
            target_offset=anchor.target_offset,
            sequence=anchor.sequence,
            source_epoch=anchor.source_epoch,
        )


@dataclass(frozen=True, slots=True)
class Pause:
    """An operator's pause: of the flow (no topic), of a topic (no partition), or of one partition."""

    topic: str | None = None
    partition: int | None = None

    def covers(self, partition: TopicPartition) -> bool:
        """Whether the pause holds back ``partition``."""
        return self.topic in (None, partition.topic) and self.partition in (None, partition.partition)


@dataclass(slots=True)
class FlowMemory:
    """A flow's state topic, decoded. ``flow`` is None before the first start."""

    flow: FlowRecord | None = None
    partitions: dict[TopicPartition, PartitionRecord] = field(default_factory=dict)
    latest: set[str] = field(default_factory=set)
    paused: set[Pause] = field(default_factory=set)


def partition_key(partition: TopicPartition) -> str:
    """Key of a partition's record."""
    return f"partition/{partition.topic}/{partition.partition}"


def latest_key(topic: str) -> str:
    """Key of the mark that a topic begins at its end."""
    return f"latest/{topic}"


def pause_key(pause: Pause) -> str:
    """Key of a pause."""
    if pause.topic is None:
        return "paused/flow"
    if pause.partition is None:
        return f"paused/topic/{pause.topic}"
    return f"paused/partition/{pause.topic}/{pause.partition}"


def encode(record: FlowRecord | PartitionRecord) -> Document:
    """The JSON object of a record."""
    return asdict(record)


def decode(documents: Mapping[str, Document]) -> FlowMemory:
    """Read the last value of every key.

    Raises:
        KeyError: A record lacks a field: the topic was not written by mirror-ray.
    """
    memory = FlowMemory()
    for key, document in documents.items():
        match key.split("/"):
            case ["flow"]:
                memory.flow = FlowRecord(**_fields(FlowRecord, document))
            case ["partition", topic, number]:
                record = PartitionRecord(**_fields(PartitionRecord, document))
                memory.partitions[TopicPartition(topic, int(number))] = record
            case ["latest", topic]:
                memory.latest.add(topic)
            case ["paused", "flow"]:
                memory.paused.add(Pause())
            case ["paused", "topic", topic]:
                memory.paused.add(Pause(topic))
            case ["paused", "partition", topic, number]:
                memory.paused.add(Pause(topic, int(number)))
    return memory


def _fields(kind: type[FlowRecord | PartitionRecord], document: Document) -> Document:
    """A field with a default may be missing: an older version wrote the document."""
    return {each.name: document[each.name] for each in fields(kind) if each.name in document or each.default is MISSING}
