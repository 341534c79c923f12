"""What a flow keeps in its state topic ``mm2-ray-state.<source>.internal`` on the target.

One compacted record per key; the value is a JSON object, a tombstone deletes::

    flow                          producer_id, producer_epoch, source_cluster_id, target_cluster_id, selection
    partition/<topic>/<n>         source_topic_id, target_topic, target_topic_id, source_offset, target_offset,
                                  sequence, source_epoch, target_epoch, settled, producer_id, producer_epoch, shared,
                                  foreign_to, skip, origin_source_offset, origin_target_offset, origin_sequence,
                                  recounting, end_offset, transforms, transforms_source_offset, transforms_target_offset
    repair/<topic>/<n>            trouble, policy, time_ms, by: decided on, and not done yet
    gap/<topic>/<n>/<time_ms>     kind, policy, text and ranges: what a partition went on without
    grant/<topic>/<n>             epoch, lease_ms, owner: the partition's last assignment, and the coordinator that
                                  made it (older versions did not tell); lease_ms is 0 once it was given back
    acl/<hash>                    an ACL that the flow gave on the target, as its fields
    latest/<topic>                {}: was there when it was selected and begins at its end (auto.offset.reset=latest)
    handed-back                   time_ms: MM2 copies the flow now, and its remote topics are not ours until `takeover`
    start/<topic>                 at: the same, for a point in time or offsets (topics.start)
    backfill/<id>                 topic, into, ranges, phase and more: a backfill beside the flow; its progress is in a
                                  state topic of its own, mm2-ray-state.<source>.backfill-<id>.internal
    paused/flow                   {}: an operator paused the flow
    paused/topic/<topic>          {}: an operator paused the topic
    paused/partition/<topic>/<n>  {}: an operator paused the partition

A topic's name has no slash, so keys parse without doubt. Keys and fields that are not known are kept and ignored, so
that a newer version's state can be read. ``partition`` is written before the partition's first assignment and about
every second while it moves; its pair is an anchor (DESIGN: exactly once). ``grant`` is written before each assignment
is handed out, and is what the replicators watch: one that sees a higher epoch than its own, or the same of another
owner, gives the partition up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any

from mirror_ray.model.acls import Acl
from mirror_ray.model.backfill import BackfillRecord
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.fault import FaultKind, FaultPolicy, PartitionFault
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.start import StartPosition, parse_start
from mirror_ray.state.partition_record import PartitionRecord

Document = dict[str, Any]

FLOW_KEY = "flow"
#: Whether the flow was given back to MM2.
HANDED_BACK_KEY = "handed-back"
#: Keys of grants begin with it.
GRANT_PREFIX = "grant/"


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
    #: What the config said of where topics begin, when it was looked at last.
    starts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRecord:
    """The last assignment of a partition. ``lease_ms``: its holder's lease, 0 when nobody can hold it any more.

    ``owner``: a name that the coordinator which raised the epoch shares with no other; empty where it was not told.
    """

    epoch: int = 0
    lease_ms: int = 0
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedRange:
    """What a partition went on without, and by which policy. Ranges as in ``PartitionFault``."""

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
    """A decision about a partition in trouble that was taken, and has to be carried out before it is copied again."""

    trouble: PartitionFault
    policy: FaultPolicy
    time_ms: int
    #: Whose answer it is; empty: the flow's policy.
    by: str = ""

    def gap(self) -> SkippedRange:
        """What is to be recorded once it is done."""
        trouble = self.trouble
        return SkippedRange(
            kind=trouble.kind,
            policy=self.policy,
            text=trouble.text,
            time_ms=self.time_ms,
            source_from=trouble.source_from,
            source_to=trouble.source_to,
            target_from=trouble.target_from,
            target_to=trouble.target_to,
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
class FlowStateRecords:
    """A flow's state topic, decoded. ``flow`` is None before the first start."""

    flow: FlowRecord | None = None
    partitions: dict[TopicPartition, PartitionRecord] = field(default_factory=dict)
    grants: dict[TopicPartition, GrantRecord] = field(default_factory=dict)
    #: Topics that were there when they were selected and have no anchor yet, with where they begin, unless at earliest.
    starts: dict[str, StartPosition] = field(default_factory=dict)
    paused: set[Pause] = field(default_factory=set)
    repairs: dict[TopicPartition, FaultResolution] = field(default_factory=dict)
    gaps: dict[tuple[TopicPartition, int], SkippedRange] = field(default_factory=dict)
    backfills: dict[str, BackfillRecord] = field(default_factory=dict)
    #: When the flow was handed back to MM2; None: it is ours.
    handed_back_ms: int | None = None
    acls: set[Acl] = field(default_factory=set)


def state_topic(source_alias: str, backfill: str = "", route: str = "") -> str:
    """Name of a flow's state topic on its target, or a backfill's or route's; MM2's exclusion leaves them alone."""
    beside = f"backfill-{backfill}." if backfill else f"route-{route}." if route else ""
    return f"mm2-ray-state.{source_alias}.{beside}internal"


def partition_key(partition: TopicPartition) -> str:
    """Key of a partition's record."""
    return f"partition/{partition.topic}/{partition.partition}"


def repair_key(partition: TopicPartition) -> str:
    """Key of a decision that has to be carried out."""
    return f"repair/{partition.topic}/{partition.partition}"


def gap_key(partition: TopicPartition, gap: SkippedRange) -> str:
    """Key of a gap. One partition's troubles are answered one after the other."""
    return f"gap/{partition.topic}/{partition.partition}/{gap.time_ms}"


def grant_key(partition: TopicPartition) -> str:
    """Key of a partition's last assignment."""
    return f"{GRANT_PREFIX}{partition.topic}/{partition.partition}"


def read_grant(key: str, document: Document) -> tuple[TopicPartition, GrantRecord] | None:
    """A grant, if that is what the key stands for.

    Raises:
        KeyError: It lacks its epoch: the topic was not written by mirror-ray.
    """
    match key.split("/"):
        case ["grant", topic, number]:
            owner = document.get("owner", "")
            grant = GrantRecord(epoch=document["epoch"], lease_ms=document["lease_ms"], owner=owner)
            return TopicPartition(topic, int(number)), grant
    return None


def start_mark(topic: str, start: StartPosition) -> tuple[str, Document]:
    """Key and value of the mark that says where a topic begins; ``latest`` has a key of its own, as it always had."""
    return (f"latest/{topic}", {}) if start.kind == "latest" else (f"start/{topic}", {"at": str(start)})


def start_keys(topic: str) -> tuple[str, ...]:
    """Keys that a topic's mark may have."""
    return f"latest/{topic}", f"start/{topic}"


def acl_key(acl: Acl) -> str:
    """Key of an ACL that the flow gave. Principals and group names may hold slashes."""
    return f"acl/{hashlib.sha256(repr(acl).encode()).hexdigest()[:32]}"


def backfill_key(identity: str) -> str:
    """Key of a backfill."""
    return f"backfill/{identity}"


def pause_key(pause: Pause) -> str:
    """Key of a pause."""
    if pause.topic is None:
        return "paused/flow"
    if pause.partition is None:
        return f"paused/topic/{pause.topic}"
    return f"paused/partition/{pause.topic}/{pause.partition}"


def encode(record: FlowRecord | PartitionRecord | GrantRecord | SkippedRange | FaultResolution | Acl) -> Document:
    """The JSON object of a record."""
    return asdict(record)


def decode(documents: Mapping[str, Document]) -> FlowStateRecords:
    """Read the last value of every key.

    Raises:
        MirrorError: A record can't be read: it was not written by mirror-ray. Names the key and what is wrong.
    """
    memory = FlowStateRecords()
    for key, document in documents.items():
        try:
            _take(memory, key, document)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            wrong = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise MirrorError(
                f"state record {key!r}: not written by mirror-ray ({wrong}); name the system's topics apart, or delete "
                "the record by a tombstone"
            ) from error
    return memory


def _take(memory: FlowStateRecords, key: str, document: Document) -> None:
    grant = read_grant(key, document)
    if grant is not None:
        memory.grants[grant[0]] = grant[1]
    match key.split("/"):
        case ["flow"]:
            memory.flow = FlowRecord(**_fields(FlowRecord, document))
        case ["partition", topic, number]:
            memory.partitions[TopicPartition(topic, int(number))] = _partition(document)
        case ["repair", topic, number]:
            memory.repairs[TopicPartition(topic, int(number))] = _repair(document)
        case ["gap", topic, number, time_ms]:
            memory.gaps[TopicPartition(topic, int(number)), int(time_ms)] = SkippedRange(
                **_fields(SkippedRange, document)
            )
        case ["handed-back"]:
            memory.handed_back_ms = document["time_ms"]
        case ["acl", _]:
            memory.acls.add(Acl(**_fields(Acl, document)))
        case ["backfill", identity]:
            memory.backfills[identity] = BackfillRecord.read(document)
        case ["latest" | "start", topic]:
            memory.starts[topic] = parse_start(document.get("at", "latest"))
        case ["paused", "flow"]:
            memory.paused.add(Pause())
        case ["paused", "topic", topic]:
            memory.paused.add(Pause(topic))
        case ["paused", "partition", topic, number]:
            memory.paused.add(Pause(topic, int(number)))


def _repair(document: Document) -> FaultResolution:
    trouble = _fields(PartitionFault, document["trouble"])
    if trouble.get("resume") is not None:
        trouble["resume"] = OffsetPair(**trouble["resume"])
    return FaultResolution(
        trouble=PartitionFault(**trouble),
        policy=document["policy"],
        time_ms=document["time_ms"],
        by=document.get("by", ""),
    )


def _partition(document: Document) -> PartitionRecord:
    record = PartitionRecord(**_fields(PartitionRecord, document))
    return replace(record, skip=tuple((first, end) for first, end in record.skip))


def _fields(
    kind: type[FlowRecord | PartitionRecord | SkippedRange | PartitionFault | Acl], document: Document
) -> Document:
    """A field with a default may be missing: an older version wrote the document."""
    return {each.name: document[each.name] for each in fields(kind) if each.name in document or each.default is MISSING}
