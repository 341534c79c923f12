"""What a flow keeps of one partition: the offset pair to copy on from, and notes on both logs.

A log may be replaced by another one, or lose its end; notes on its offsets are void then. ``of_new_source``,
``of_cut_source``, ``of_new_target`` and ``of_cut_target`` alone determine which ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from mirror_ray.model.names import TopicId
from mirror_ray.model.offset_pair import OffsetPair


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """A partition's offset pair, and the topics that it belongs to."""

    source_topic_id: TopicId
    target_topic: str
    target_topic_id: TopicId
    source_offset: int
    target_offset: int
    #: See ``OffsetPair``: the producer's next sequence where it is not the target offset's; the source's leader epoch.
    sequence: int | None = None
    source_epoch: int = -1
    #: The target's leader epoch when its log had come to the pair.
    target_epoch: int = -1
    #: Whether the target holds nothing of ours behind the pair, for sure: every request of the last owner was answered.
    settled: bool = False
    #: The producer of this partition alone; None: the flow's; -1: it is copied at least once.
    producer_id: int | None = None
    producer_epoch: int = 0
    #: Others write to the remote partition too: our records are known by their producer and counted by its sequences.
    shared: bool = False
    #: Records of others below this target offset have been accepted.
    foreign_to: int = -1
    #: Source offsets, the end not included, that are left out.
    skip: tuple[tuple[int, int], ...] = ()
    #: The first pair since which nothing was skipped, lost or foreign; None: not known.
    origin_source_offset: int | None = None
    origin_target_offset: int | None = None
    origin_sequence: int | None = None
    #: Source offset at which the copy ends, a backfill's, or one that waits there for its routes; None: it goes on.
    end_offset: int | None = None
    #: Assigned at its origin, so that recovery finds the position by what the target holds.
    recounting: bool = False
    #: The transforms that the target's records behind the pair are made by; empty: none.
    transforms: str = ""
    #: The pair since which that holds; None: since copying began.
    transforms_source_offset: int | None = None
    transforms_target_offset: int | None = None
    #: Source offset from which on the flow's routes get records; None: its transforms route nothing.
    routes_from: int | None = None
    #: Of a route: the source offset before which it gets nothing.
    begins_at: int | None = None
    #: Whether each record has the same offset on the target as on the source.
    preserve_offsets: bool = False
    #: Source offset that the flow and all its routes had reached when they were ended; None: they had not reached the
    #: same one, or have copied on since.
    aligned_at: int | None = None

    @property
    def origin(self) -> OffsetPair:
        """The pair to recover the position from when later ones do not fit the target any more."""
        if self.origin_source_offset is None or self.origin_target_offset is None:
            return self.pair
        return OffsetPair(self.origin_source_offset, self.origin_target_offset, self.origin_sequence)

    def with_origin(self, origin: OffsetPair) -> Self:
        """The record with another origin."""
        return replace(
            self,
            origin_source_offset=origin.source_offset,
            origin_target_offset=origin.target_offset,
            origin_sequence=origin.sequence,
        )

    @property
    def pair(self) -> OffsetPair:
        """The pair to copy on from."""
        return OffsetPair(self.source_offset, self.target_offset, self.sequence, self.source_epoch, self.target_epoch)

    def up_to_end(self, pair: OffsetPair) -> OffsetPair:
        """``pair``, or the copy's end where it lies behind that: records behind the end were read, and not copied."""
        if self.end_offset is None or pair.source_offset <= self.end_offset:
            return pair
        return replace(pair, source_offset=self.end_offset, source_epoch=-1)

    def at(self, pair: OffsetPair) -> Self:
        """The record with another pair; one that has moved is recovered."""
        return replace(
            self,
            recounting=self.recounting and pair == self.pair,
            settled=self.settled and pair == self.pair,
            source_offset=pair.source_offset,
            target_offset=pair.target_offset,
            sequence=pair.sequence,
            source_epoch=pair.source_epoch,
            target_epoch=pair.target_epoch,
        )

    def of_new_source(self, topic_id: TopicId, start: int) -> Self:
        """The record where the source's topic is another one, whose log begins at ``start``."""
        return replace(
            self._without_source_notes(0),
            source_topic_id=topic_id,
            routes_from=None if self.routes_from is None else start,
            begins_at=None if self.begins_at is None else start,
        )

    def of_cut_source(self, end: int) -> Self:
        """The record where the source's log is another one from offset ``end`` on: notes behind it are void."""
        cut = self._without_source_notes(end)
        return replace(
            cut,
            # Records that replace what the source lost are for routes, too.
            routes_from=None if self.routes_from is None else min(self.routes_from, end),
            begins_at=None if self.begins_at is None else min(self.begins_at, end),
        )

    def _without_source_notes(self, end: int) -> Self:
        skip = tuple((first, min(after, end)) for first, after in self.skip if first < end)
        return replace(self, skip=skip, aligned_at=None)

    def of_new_target(self, topic_id: TopicId) -> Self:
        """The record where the remote topic is another one, which may take what the former one refused."""
        return replace(self.of_cut_target(-1), target_topic_id=topic_id, skip=())

    def of_cut_target(self, end: int) -> Self:
        """The record where the target's log is another one from offset ``end`` on."""
        return replace(self, foreign_to=min(self.foreign_to, end), target_epoch=-1, settled=False)
