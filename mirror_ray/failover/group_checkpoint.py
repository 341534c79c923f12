"""What a checkpoint says of its group. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mirror_ray.groups.merged_topics import decode_sources, decode_unsubscribed
from mirror_ray.groups.offset_state import decode_written
from mirror_ray.model.errors import CorruptRecordError
from mirror_ray.records.decode import DecodedRecord
from mirror_ray.records.mm2_records import CheckpointRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCheckpoint:
    """A group's newest checkpoint for one remote partition, and what was committed by it."""

    checkpoint: CheckpointRecord
    written: tuple[int, ...]
    #: Where the remote topic's name does not tell its source: the topics, and the offset in each.
    sources: Mapping[str, int]
    #: Where several topics are merged: those that the group does not read, as its members were last seen.
    unsubscribed: frozenset[str] = frozenset()


def said_in(record: DecodedRecord) -> GroupCheckpoint | None:
    """What a record of the checkpoints topic says; None: it is no checkpoint."""
    if record.value is None:
        return None
    try:
        checkpoint = CheckpointRecord.decode(record.key, record.value)
    except CorruptRecordError:
        return None
    return GroupCheckpoint(
        checkpoint=checkpoint,
        written=decode_written(checkpoint, record.headers),
        sources=decode_sources(record.headers),
        unsubscribed=decode_unsubscribed(record.headers),
    )
