"""What a flow keeps in its state topic ``mm2-ray-state.<source>.internal`` on the target.

One compacted record per key; the value is a JSON object, a tombstone deletes::

    flow                          producer_id, producer_epoch, source_cluster_id, target_cluster_id, selection, starts
    partition/<topic>/<n>         the fields of ``PartitionRecord``
    repair/<topic>/<n>            trouble, policy, time_ms, by: the resolution of a fault, not carried out yet
    gap/<topic>/<n>/<time_ms>     kind, policy, text and ranges: a skipped range
    grant/<topic>/<n>             epoch, lease_ms, owner: the partition's last assignment, and the coordinator that
                                  made it (older versions did not write it); lease_ms is 0 once it was given back;
                                  transactional_id: the holder's, where offsets are preserved
    acl/<hash>                    an ACL that the flow gave on the target, as its fields
    latest/<topic>                {}: was there when it was selected and begins at its end (auto.offset.reset=latest)
    start/<topic>                 at: the same, for a point in time or offsets (topics.start)
    handed-back                   time_ms: MM2 copies the flow now, and its remote topics are not ours until `takeover`
    reversed                      turn, away, time_ms: the flow back copies, or has copied, the same topics in its place
    backfill/<id>                 topic, into, ranges, phase and more: a backfill beside the flow; its progress is in a
                                  state topic of its own, mm2-ray-state.<source>.backfill-<id>.internal
    paused/flow                   {}: an operator paused the flow
    paused/topic/<topic>          {}: an operator paused the topic
    paused/partition/<topic>/<n>  {}: an operator paused the partition

A topic's name has no slash, so keys parse without doubt. Unknown keys and fields are kept and ignored, so that a newer
version's state can be read. ``partition`` is written before the partition's first assignment and about every second
while it moves. ``grant`` is written before each assignment is handed out, and is what the replicators watch: one that
sees a higher epoch than its own, or the same of another owner, gives the partition up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import cache
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from mirror_ray.model.acls import Acl
from mirror_ray.model.backfill import BackfillRecord
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.fault import PartitionFault
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.start import StartPosition, parse_start
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.records import FaultResolution, FlowRecord, GrantRecord, Pause, ReversalRecord, SkippedRange

Document = dict[str, Any]
_Key = TypeVar("_Key")
_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True)
class RecordKind(Generic[_Key, _Record]):
    """One kind of record: its keys, its JSON, and the field of ``FlowStateRecords`` that has it."""

    #: First part of the key.
    prefix: str
    records: str
    #: The other parts of the key.
    parts: Callable[[_Key], Sequence[object]]
    #: The reverse; None where the parts are not a key of this kind.
    read_key: Callable[[Sequence[str]], _Key | None]
    #: The record of a JSON object.
    read: Callable[[Document], _Record]
    #: The JSON object of a record.
    write: Callable[[_Record], Document] = asdict  # type: ignore[assignment]  # of dataclasses

    def key(self, key: _Key) -> str:
        """The Kafka record's key."""
        return "/".join((self.prefix, *map(str, self.parts(key))))

    def documents(self, key: _Key, record: _Record | None) -> dict[str, Document | None]:
        """What to write to the state topic for a record, or for its removal (None)."""
        return {self.key(key): None if record is None else self.write(record)}


class _StartKind(RecordKind[str, StartPosition]):
    """Where a topic begins: ``latest`` has a key of its own, and a topic has one of the two."""

    def documents(self, key: str, record: StartPosition | None) -> dict[str, Document | None]:
        found: dict[str, Document | None] = {f"latest/{key}": None, f"start/{key}": None}
        if record is not None and record.kind == "latest":
            found[f"latest/{key}"] = {}
        elif record is not None:
            found[f"start/{key}"] = self.write(record)
        return found


@dataclass(slots=True)
class FlowStateRecords:
    """A flow's state topic, decoded."""

    #: None before the first start.
    flow: FlowRecord | None = None
    partitions: dict[TopicPartition, PartitionRecord] = field(default_factory=dict)
    grants: dict[TopicPartition, GrantRecord] = field(default_factory=dict)
    #: Where topics without a partition record begin, unless at their earliest record.
    starts: dict[str, StartPosition] = field(default_factory=dict)
    paused: set[Pause] = field(default_factory=set)
    resolutions: dict[TopicPartition, FaultResolution] = field(default_factory=dict)
    #: By partition and time.
    skipped_ranges: dict[tuple[TopicPartition, int], SkippedRange] = field(default_factory=dict)
    backfills: dict[str, BackfillRecord] = field(default_factory=dict)
    #: When the flow was handed back to MM2; None: it is ours.
    handed_back_ms: int | None = None
    #: None: the flow has never been reversed.
    reversal: ReversalRecord | None = None
    #: By ``acl_id``.
    acls: dict[str, Acl] = field(default_factory=dict)

    def put(self, kind: RecordKind[_Key, _Record], key: _Key, record: _Record | None) -> None:
        """Keep a record, or remove it (None)."""
        kept = getattr(self, kind.records)
        if isinstance(kept, set):
            (kept.discard if record is None else kept.add)(key)
        elif not isinstance(kept, dict):
            setattr(self, kind.records, record)
        elif record is None:
            kept.pop(key, None)
        else:
            kept[key] = record


def state_topic(source_alias: str, backfill: str = "", route: str = "") -> str:
    """Name of a flow's state topic on its target, or a backfill's or route's; MM2's exclusion leaves them alone."""
    beside = f"backfill-{backfill}." if backfill else f"route-{route}." if route else ""
    return f"mm2-ray-state.{source_alias}.{beside}internal"


def acl_id(acl: Acl) -> str:
    """An ACL's name in keys. Principals and group names may hold slashes."""
    return hashlib.sha256(repr(acl).encode()).hexdigest()[:32]


def decode(documents: Mapping[str, Document]) -> FlowStateRecords:
    """Read the last value of every key.

    Raises:
        MirrorError: A record can't be read: it was not written by mirror-ray. Names the key and what is wrong.
    """
    records = FlowStateRecords()
    for name, document in documents.items():
        try:
            if (found := read_record(name, document)) is not None:
                records.put(*found)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            wrong = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise MirrorError(
                f"state record {name!r}: not written by mirror-ray ({wrong}); name the system's topics apart, or "
                "delete the record by a tombstone"
            ) from error
    return records


def read_record(name: str, document: Document) -> tuple[RecordKind[Any, Any], Any, Any] | None:
    """Kind, key and record of one key and its JSON object; None where the key is not known.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: It was not written by mirror-ray.
    """
    prefix, *parts = name.split("/")
    kind = KINDS.get(prefix)
    key = kind.read_key(parts) if kind is not None else None
    return None if kind is None or key is None else (kind, key, kind.read(document))


def read_grant(name: str, document: Document) -> tuple[TopicPartition, GrantRecord] | None:
    """A grant, if that is what the key names.

    Raises:
        KeyError: It lacks its epoch: the topic was not written by mirror-ray.
    """
    found = read_record(name, document) if name.startswith(GRANT_PREFIX) else None
    return None if found is None else (found[1], found[2])


def _no_parts(parts: Sequence[str]) -> str | None:
    return None if parts else ""


def _one_part(parts: Sequence[str]) -> str | None:
    return parts[0] if len(parts) == 1 else None


def _partition(parts: Sequence[str]) -> TopicPartition | None:
    return TopicPartition(parts[0], int(parts[1])) if len(parts) == len(TopicPartition._fields) else None


def _partition_and_time(parts: Sequence[str]) -> tuple[TopicPartition, int] | None:
    partition = _partition(parts[:-1])
    return None if partition is None else (partition, int(parts[-1]))


def _pause_parts(pause: Pause) -> tuple[object, ...]:
    if pause.topic is None:
        return ("flow",)
    return ("topic", pause.topic) if pause.partition is None else ("partition", pause.topic, pause.partition)


def _pause(parts: Sequence[str]) -> Pause | None:
    match parts:
        case ["flow"]:
            return Pause()
        case ["topic", topic]:
            return Pause(topic)
        case ["partition", topic, number]:
            return Pause(topic, int(number))
    return None


_PARTITION_FIELDS: Final = tuple(declared.name for declared in fields(PartitionRecord))
_partition_values: Final = attrgetter(*_PARTITION_FIELDS)


def _write_partition(record: PartitionRecord) -> Document:
    """As ``asdict``, which copies each value: all of a flow's partitions are written when they are handed out."""
    return dict(zip(_PARTITION_FIELDS, _partition_values(record), strict=True))


def _read_partition(document: Document) -> PartitionRecord:
    known = _fields(PartitionRecord, document)
    return PartitionRecord(**{**known, "skip": tuple((first, end) for first, end in known.get("skip", ()))})


def _read_resolution(document: Document) -> FaultResolution:
    fault = _fields(PartitionFault, document["trouble"])
    if fault.get("resume") is not None:
        fault["resume"] = OffsetPair(**fault["resume"])
    known = _fields(FaultResolution, document)
    return FaultResolution(**{**known, "trouble": PartitionFault(**fault)})


def _write_grant(grant: GrantRecord) -> Document:
    """Where no offsets are preserved, as older versions wrote it."""
    document: Document = {"epoch": grant.epoch, "lease_ms": grant.lease_ms, "owner": grant.owner}
    return document | {"transactional_id": grant.transactional_id} if grant.transactional_id else document


def _read_grant(document: Document) -> GrantRecord:
    return GrantRecord(
        epoch=document["epoch"],
        lease_ms=document["lease_ms"],
        owner=document.get("owner", ""),
        transactional_id=document.get("transactional_id", ""),
    )


def _fields(kind: type[Any], document: Document) -> Document:
    """The fields of a record. One with a default may be missing: an older version wrote the document."""
    declared = _declared(kind)  # type: ignore[arg-type]  # classes are hashable
    return {name: document[name] for name, needed in declared if needed or name in document}


@cache
def _declared(kind: Any) -> tuple[tuple[str, bool], ...]:
    """Each field of a record, and whether it is without a default."""
    return tuple((declared.name, declared.default is MISSING) for declared in fields(kind))


FLOW: Final[RecordKind[str, FlowRecord]] = RecordKind(
    "flow", "flow", lambda _: (), _no_parts, lambda document: FlowRecord(**_fields(FlowRecord, document))
)
PARTITION: Final[RecordKind[TopicPartition, PartitionRecord]] = RecordKind(
    "partition", "partitions", tuple, _partition, _read_partition, _write_partition
)
RESOLUTION: Final[RecordKind[TopicPartition, FaultResolution]] = RecordKind(
    "repair", "resolutions", tuple, _partition, _read_resolution
)
SKIPPED: Final[RecordKind[tuple[TopicPartition, int], SkippedRange]] = RecordKind(
    "gap",
    "skipped_ranges",
    lambda key: (*key[0], key[1]),
    _partition_and_time,
    lambda document: SkippedRange(**_fields(SkippedRange, document)),
)
GRANT: Final[RecordKind[TopicPartition, GrantRecord]] = RecordKind(
    "grant", "grants", tuple, _partition, _read_grant, _write_grant
)
ACL: Final[RecordKind[str, Acl]] = RecordKind(
    "acl", "acls", lambda key: (key,), _one_part, lambda document: Acl(**_fields(Acl, document))
)
START: Final = _StartKind(
    "start",
    "starts",
    lambda topic: (topic,),
    _one_part,
    lambda document: parse_start(document.get("at", "latest")),
    lambda start: {"at": str(start)},
)
HANDED_BACK: Final[RecordKind[str, int]] = RecordKind(
    "handed-back",
    "handed_back_ms",
    lambda _: (),
    _no_parts,
    lambda document: int(document["time_ms"]),
    lambda time_ms: {"time_ms": time_ms},
)
REVERSAL: Final[RecordKind[str, ReversalRecord]] = RecordKind(
    "reversed",
    "reversal",
    lambda _: (),
    _no_parts,
    lambda document: ReversalRecord(**_fields(ReversalRecord, document)),
)
BACKFILL: Final[RecordKind[str, BackfillRecord]] = RecordKind(
    "backfill", "backfills", lambda key: (key,), _one_part, BackfillRecord.read, BackfillRecord.document
)
PAUSE: Final[RecordKind[Pause, bool]] = RecordKind(
    "paused", "paused", _pause_parts, _pause, lambda _: True, lambda _: {}
)

#: By the first part of the key.
KINDS: Final[Mapping[str, RecordKind[Any, Any]]] = {
    kind.prefix: kind
    for kind in (FLOW, PARTITION, RESOLUTION, SKIPPED, GRANT, ACL, START, HANDED_BACK, REVERSAL, BACKFILL, PAUSE)
} | {"latest": START}
#: Keys of grants begin with it.
GRANT_PREFIX: Final = f"{GRANT.prefix}/"
