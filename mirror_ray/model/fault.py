"""Faults: what only a decision, and not another attempt, gets a partition on from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from mirror_ray.model.offset_pair import OffsetPair

#: ``source_removed``: records were removed, by retention or by somebody, before they were copied.
#: ``source_truncated``: records that were copied are not in the source any more (unclean leader election).
#: ``source_recreated``, ``target_recreated``: a topic of that name with another topic id. ``target_missing``: deleted.
#: ``target_truncated``: acknowledged records are not in the target any more. ``target_foreign``: somebody else wrote
#: into a topic that this flow alone should write. ``copy_lost``: no position in the source fits what the target holds.
#: ``record_refused``: the target will never take a record as it is. ``transform_failed``: a transform fails on a
#: record. ``schema_missing``: it is not known for long what a record's schema id becomes; it goes on by itself then.
FaultKind = Literal[
    "source_removed",
    "source_truncated",
    "source_recreated",
    "target_missing",
    "target_recreated",
    "target_truncated",
    "target_foreign",
    "copy_lost",
    "record_refused",
    "transform_failed",
    "schema_missing",
]
#: Those that a decision can be made about.
FAULT_KINDS: tuple[FaultKind, ...] = tuple(kind for kind in get_args(FaultKind) if kind != "schema_missing")
#: Faults of a topic: its partitions are decided about together.
TOPIC_KINDS: frozenset[FaultKind] = frozenset({"source_recreated", "target_missing", "target_recreated"})
#: Faults of single records, which skip leaves out.
LEFT_OUT_KINDS: frozenset[FaultKind] = frozenset({"record_refused", "transform_failed"})

#: ``stop``: wait for a decision. ``skip``: give up what is lost, record the skipped range and go on. ``resync``: copy
#: anew what can be copied.
FaultPolicy = Literal["stop", "skip", "resync"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFault:
    """A fault of one partition. Ranges are of offsets, the end not included; -1 where there is none."""

    kind: FaultKind
    text: str
    #: Source offsets that are concerned: removed, no longer there, or refused.
    source_from: int = -1
    source_to: int = -1
    #: Target offsets that are concerned: no longer there, or somebody else's.
    target_from: int = -1
    target_to: int = -1
    #: The offset pair to go on from behind what is concerned, where there is one.
    resume: OffsetPair | None = None
