"""What a checkpoint says of its group. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mirror_ray.model.errors import CorruptRecordError
from mirror_ray.offsets.group_book import decode_written
from mirror_ray.offsets.merged import decode_sources, decode_unsubscribed
from mirror_ray.records.decode import Record
from mirror_ray.records.internal import Checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A group's newest checkpoint for one remote partition, and what was committed by it."""

    checkpoint: Checkpoint
    written: tuple[int, ...]
    #: Where the remote topic's name does not tell its source: the topics, and the offset in each.
    sources: Mapping[str, int]
    #: Where several topics are merged: those that the group does not read, as its members were last seen.
    unsubscribed: frozenset[str] = frozenset()


def said_in(record: Record) -> Said | None:
    """What a record of the checkpoints topic says; None: it is no checkpoint."""
    if record.value is None:
        return None
    try:
        checkpoint = Checkpoint.decode(record.key, record.value)
    except CorruptRecordError:
        return None
    return Said(
        checkpoint=checkpoint,
        written=decode_written(checkpoint, record.headers),
        sources=decode_sources(record.headers),
        unsubscribed=decode_unsubscribed(record.headers),
    )
