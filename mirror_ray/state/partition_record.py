"""What a flow keeps of one partition: the pair to copy on from, and notes on both logs.

A log may be replaced by another one, or lose its end. What is noted of its offsets goes with it then; which notes those
are, ``of_new_source``, ``of_cut_source``, ``of_new_target`` and ``of_cut_target`` say, and nobody else.
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
    #: Whether nothing of ours lies behind the pair, for sure: who copied it last had an answer to all that was sent.
    settled: bool = False
    #: The producer of this partition alone; None: the flow's; -1: it is copied at least once.
    producer_id: int | None = None
    producer_epoch: int = 0
    #: Others write to the remote partition too: what is ours is known by the producer and counted by its sequences.
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
    #: Handed out at its origin, to find its place by what the target holds.
    recounting: bool = False
    #: By which transforms the target's records behind the pair are made; empty: by none.
    transforms: str = ""
    #: The pair since which that holds; None: since copying began.
    transforms_source_offset: int | None = None
    transforms_target_offset: int | None = None
    #: Source offset from which on the flow's routes take what its transforms send to them; None: these send nothing.
    routes_from: int | None = None
    #: Of a route: the source offset before which nothing is for it.
    begins_at: int | None = None
    #: Source offset that the flow and all its routes had reached when they were ended, with nothing under way; None:
    #: they have gone on since, or it was not so.
    aligned_at: int | None = None

    @property
    def origin(self) -> OffsetPair:
        """The pair to look for the place from, when a later one fits the target no more."""
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
        """The record with another pair; one that has moved has found its place."""
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

    # ---- a log is another one, from its start or from an offset on

    def of_new_source(self, topic_id: TopicId, start: int) -> Self:
        """The record where the source's topic is another one, whose log begins at ``start``."""
        return replace(
            self._without_source_notes(0),
            source_topic_id=topic_id,
            routes_from=None if self.routes_from is None else start,
            begins_at=None if self.begins_at is None else start,
        )

    def of_cut_source(self, end: int) -> Self:
        """The record where the source's log is another one from offset ``end`` on: what is noted behind it is over."""
        cut = self._without_source_notes(end)
        return replace(
            cut,
            # What comes there instead of what the source lost is for routes, too.
            routes_from=None if self.routes_from is None else min(self.routes_from, end),
            begins_at=None if self.begins_at is None else min(self.begins_at, end),
        )

    def _without_source_notes(self, end: int) -> Self:
        skip = tuple((first, min(after, end)) for first, after in self.skip if first < end)
        return replace(self, skip=skip, aligned_at=None)

    def of_new_target(self, topic_id: TopicId) -> Self:
        """The record where the remote topic is another one: what the former one refused, this one may take."""
        return replace(self.of_cut_target(-1), target_topic_id=topic_id, skip=())

    def of_cut_target(self, end: int) -> Self:
        """The record where the target's log is another one from offset ``end`` on."""
        return replace(self, foreign_to=min(self.foreign_to, end), target_epoch=-1, settled=False)
