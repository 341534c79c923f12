"""What may go wrong with one partition so that only a decision, not another attempt, gets it on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from mirror_ray.model.offset_pair import OffsetPair

#: ``source_removed``: records were removed, by retention or by somebody, before they were copied.
#: ``source_truncated``: records that were copied are not in the source any more (unclean leader election).
#: ``source_recreated``, ``target_recreated``: a topic of that name with another topic id. ``target_missing``: deleted.
#: ``target_truncated``: acknowledged records are not in the target any more. ``target_foreign``: somebody else wrote
#: into a topic that this flow alone should write. ``copy_lost``: no place in the source fits what the target holds.
#: ``record_refused``: the target will never take a record as it is. ``transform_failed``: what a transform makes of a
#: record it does not tell.
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
]
TROUBLE_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
#: A topic as a whole is concerned: its partitions are answered for together.
TOPIC_KINDS: frozenset[FaultKind] = frozenset({"source_recreated", "target_missing", "target_recreated"})
#: Single records are concerned, which skip leaves out.
LEFT_OUT_KINDS: frozenset[FaultKind] = frozenset({"record_refused", "transform_failed"})

#: ``stop``: wait for somebody to decide. ``skip``: give up what is lost, record the gap and go on. ``resync``: copy
#: anew what can be copied.
FaultPolicy = Literal["stop", "skip", "resync"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFault:
    """A partition's trouble. Ranges are of offsets, the end not included; -1 where there is none."""

    kind: FaultKind
    text: str
    #: Source offsets that are concerned: removed, no longer there, or refused.
    source_from: int = -1
    source_to: int = -1
    #: Target offsets that are concerned: no longer there, or somebody else's.
    target_from: int = -1
    target_to: int = -1
    #: The pair to go on from, leaving behind what is concerned, where there is one.
    resume: OffsetPair | None = None
